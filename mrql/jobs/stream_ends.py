"""The opened ends of a stream: sinks, the quarantine, commits, and copies of what it has read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from mrql.algebra.errors import UserError
from mrql.jobs.batch import sources_of
from mrql.jobs.stream_job import StreamJob
from mrql.output.console_sink import ConsoleSink
from mrql.runtime.checkpoint.commits import Commits
from mrql.runtime.checkpoint.restore import reason_to_build
from mrql.runtime.checkpoint.store import COPIES, OUTBOX, Store
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.lock import Lock
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.sinks.places import Opening
from mrql.runtime.sinks.replacing import TargetSink
from mrql.runtime.sinks.sink import Several, Sink
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.streaming.stream_loop import Loop
from mrql.version import __version__


def must_be_apart(job: StreamJob) -> None:
    """Checks that all that a stream writes goes to different places.

    Raises: UserError, naming the first directory that is named for two things.
    """
    named = [("--checkpoint", job.checkpoint), ("--quarantine", job.quarantine)]
    places = [(option, str(path.resolve())) for option, path in named if path is not None]
    places += [("--output", place.known_by) for place in job.outputs]
    if job.query.target is not None:
        places.append(("the query, for its answer,", str(job.query.target.path.resolve())))
    found: dict[str, str] = {}
    for option, place in places:
        if place in found:
            raise UserError(f"{found[place]} and {option} name one directory, {place}", hint="name two")
        found[place] = option


@attrs.frozen
class StreamEnds:
    """Where a stream puts its answers, malformed rows, commits, and copies of what it has read."""

    sink: Several
    quarantine: Quarantine | None
    commits: Commits | None
    copies: Copies | None


def open_ends(
    job: StreamJob, store: Store | None, opened: ExitStack, outer: ExitStack, before: Loop | None
) -> StreamEnds:
    """Opens the ends of a stream, and removes what a process that was killed has left there."""
    with nullcontext() if store is None else store.told():
        sink = Several(tuple(_sinks(job, store, opened, _last_batch(store, before))))
        again = before is not None or (store is not None and store.manifest is not None)
        quarantine = None if job.quarantine is None else _quarantine(job.quarantine, store, again=again)
        copies = None
        if job.rewritable:
            copies = before.copies if before is not None and store is None else _copies(store, outer)
        if quarantine is not None:
            opened.callback(Lock.of_directory(quarantine.directory, "--quarantine").close)
        running = {} if before is None else before.adapted
        commits = None if store is None else _commits(job, store, sink, copies, running)
        _clean(sink, quarantine, DurableFiles() if store is None else store.files)
    return StreamEnds(sink, quarantine, commits, copies)


def _last_batch(store: Store | None, before: Loop | None) -> int | None:
    """The last batch that was put out, if any; None with a checkpoint, which knows it for each place."""
    return before.number - 1 if store is None and before is not None and before.number else None


def _sinks(job: StreamJob, store: Store | None, opened: ExitStack, last: int | None) -> Iterator[Sink]:
    """The sinks of the answers, which are closed with `opened`.

    Raises: UserError where something is there already, and is not that of the checkpoint.
    """
    files, suffix = (DurableFiles(), "") if store is None else (store.files, f"-{store.token}")
    query, changes = job.query, job.changes
    if query.target is not None:
        named = bool(job.outputs)
        target = TargetSink.instead_of(query.target, named=named, changes=changes, files=files, suffix=suffix)
        opened.callback(target.close)
        yield target
    elif not job.outputs:
        yield ConsoleSink(query.type, query.span.line, as_json=job.as_json, changes=changes)
    if changes and job.outputs and all(place.is_current for place in job.outputs):
        raise UserError("a table is kept current, and holds no changes", hint="leave out --emit changes")
    for place in job.outputs:
        sink = place.open(_opening(job, store, opened, last))
        opened.callback(sink.close)
        if changes and not place.is_current:
            _changes_must_follow(sink.place, store)
        yield sink


def _changes_must_follow(place: str | None, store: Store | None) -> None:
    """Raises: UserError where a place is new to a stream that has put out batches: its changes would add up to less
    than the answer there."""
    last = None if store is None else store.manifest
    if last is not None and place is not None and place not in last.outputs:
        message = f"{place} has none of the changes up to batch {last.batch}, and those after it do not make the answer"
        hint = "name the --output that the checkpoint goes on in, put out snapshots, or start with a new --checkpoint"
        raise UserError(message, hint=hint)


def _opening(job: StreamJob, store: Store | None, opened: ExitStack, last: int | None) -> Opening:
    """What sinks need to know of the stream; without a checkpoint, it begins, or goes on after its `last` batch."""
    query, changes, format = job.query, job.changes, job.output_format
    if store is None:

        def scratch(place: str) -> Path:
            return Path(opened.enter_context(TemporaryDirectory(prefix="mrql-")))

        return Opening(query.type, changes, format, query.span, job.token, DurableFiles(), "", lambda _: last, scratch)

    def outbox(place: str) -> Path:
        return store.root / OUTBOX / hashlib.sha256(place.encode()).hexdigest()[:12]

    return Opening(
        query.type,
        changes,
        format,
        query.span,
        store.stream,
        store.files,
        f"-{store.token}",
        lambda place: _last_batch_in(place, store),
        outbox,
    )


def _last_batch_in(place: str, store: Store) -> int | None:
    """The last batch that was committed, if it went to a place."""
    last = store.manifest
    return last.batch if last is not None and place in last.outputs else None


def _copies(store: Store | None, opened: ExitStack) -> Copies:
    """Copies of the files that were read: in the checkpoint, or else in a temporary directory."""
    if store is None:
        return Copies(Path(opened.enter_context(TemporaryDirectory(prefix="mrql-"))))
    return Copies(store.root / COPIES, store.files)


def _commits(
    job: StreamJob, store: Store, sink: Several, copies: Copies | None, running: Mapping[str, Adapted]
) -> Commits:
    """The commits of a stream into a checkpoint; when a batch is repeated, some adapters are `running`.

    Raises: UserError where changes would be put out that do not follow on those before.
    """
    versions = {"mrql": __version__}
    if job.engine == "spark":
        versions["spark"] = version("pyspark")
    specs = sources_of(job.program, job.query.term)
    commits = Commits(store, job.plan, specs, job.engine, versions, sink, copies, job.quarantine, running)
    if commits.query_has_changed and job.changes:
        hint = "start with a new --checkpoint and a new --output, or put out snapshots"
        message = f"{reason_to_build(copies)}, and its changes do not follow on those that were put out"
        raise UserError(message, hint=hint)
    if commits.query_has_changed:
        sink.start_anew()
    return commits


def _quarantine(directory: Path, store: Store | None, *, again: bool) -> Quarantine:
    """Where malformed rows are kept: a directory that is new or empty, or the one of this stream.

    Raises: UserError where it holds rows of something else.
    """
    last = None if store is None else store.manifest
    if last is not None and last.quarantines is not None:
        again = str(directory.absolute()) in last.quarantines
    return Quarantine.new(directory, going_on=again)


def _clean(sink: Several, quarantine: Quarantine | None, files: DurableFiles) -> None:
    """Removes what a process that was killed has written aside."""
    for path in [*sink.hidden(), *([] if quarantine is None else quarantine.hidden())]:
        files.remove(path)
