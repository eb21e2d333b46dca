"""A stream as the command runs it: its engine, its sink, its checkpoint, and how it is stopped."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.jobs.batch import sources_of
from mrql.jobs.kept_aside import keep_aside
from mrql.monitoring.logs import logged
from mrql.monitoring.watch import Operation, Watch
from mrql.output.console_sink import ConsoleSink
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.commits import Commits
from mrql.runtime.checkpoint.identity import identities
from mrql.runtime.checkpoint.restore import FoundRows, GoingOn, Restored, from_the_beginning, reason_to_build
from mrql.runtime.checkpoint.store import COPIES, OUTBOX, Store
from mrql.runtime.engine.answer import AnswerFormat
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.engines import make_engine
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.lock import Lock
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.postgresql.change_streams import is_of
from mrql.runtime.postgresql.slot_notes import slot_notes
from mrql.runtime.sinks.places import Opening, Place
from mrql.runtime.sinks.replacing import TargetSink
from mrql.runtime.sinks.sink import Several, Sink
from mrql.runtime.sources.arrived import Part, static_files
from mrql.runtime.sources.catalog import must_not_be_handed_over
from mrql.runtime.sources.directory import Adapted, Watched
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.path_patterns import is_pattern
from mrql.runtime.streaming.stream_loop import Emit, Loop, Options, Stop
from mrql.runtime.streaming.widening import Wider
from mrql.translate.program import CompiledExpression, Program
from mrql.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


class CutOff(KeyboardInterrupt):
    """A stream was stopped at once, inside a batch. That has been logged; nothing more is to be said."""


Planned: TypeAlias = tuple[Program, CompiledExpression, Plan]
"""A program, its streaming query, and how that is kept up to date."""


@attrs.frozen
class StreamJob:
    """What a stream is started with."""

    program: Program
    query: CompiledExpression
    plan: Plan
    engine: str
    session: Callable[[], SparkSession]
    options: Options
    typed: Callable[[FoundRows], Planned]
    """Makes the program, the query and its plan again, with other types of rows that were found."""
    rows: FoundRows
    """The types of rows that the three were made with."""
    outputs: tuple[Place, ...] = ()
    """Where the answers go; without any, to the console."""
    output_format: AnswerFormat = JSON
    """What the files of a directory are."""
    as_json: bool = False
    quarantine: Path | None = None
    checkpoint: Path | None = None
    operation: Operation = Operation()
    rewritable: bool = False
    """Whether files that were read may change; the plan has to be one that can take their rows back."""
    partitions: int | None = None
    """In how many partitions Spark keeps a state; as many as can be worked on at once, unless said otherwise."""
    token: str = attrs.Factory(lambda: secrets.token_hex(16))
    """What a stream without a checkpoint is known by to those that it writes to."""

    @property
    def changes(self) -> bool:
        return self.options.emit is Emit.CHANGES

    def run(self, files: DurableFiles | None = None, begun: Callable[[], None] = lambda: None) -> None:
        """Runs it to its end, or until it is stopped; `begun` is called when a batch is over, before that is shown.

        Raises: UserError, EngineError; CutOff where it is stopped twice, and does not end its batch.
        """
        must_not_be_handed_over(sources_of(self.program, self.query.term).values())
        _must_be_apart(self)
        with ExitStack() as opened:
            opened.enter_context(logged(self.operation.log_level))
            store = None
            if self.checkpoint is not None:
                store = opened.enter_context(contextlib.closing(Store.open(self.checkpoint, files)))
            _run(self, store, opened, begun)


def _must_be_apart(job: StreamJob) -> None:
    """What a stream writes is told apart by where it is.

    Raises: UserError, naming the first directory that is to be two things.
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


RETRIED_MAX_TIMES = 3
"""So many times in a row a batch is done again when executors were lost in it."""


def _run(job: StreamJob, store: Store | None, opened: ExitStack, begun: Callable[[], None]) -> None:
    """Runs a stream; what it opens is closed by whoever has called.

    With a checkpoint, a stream whose states were lost goes back to its last commit, and on from there.
    """
    stop, attempts = Stop(), 0
    watch: Watch | None = None
    before: Loop | None = None
    opened.callback(lambda: None if before is None else before.close())
    while True:
        committed = None if store is None else store.manifest
        try:
            with ExitStack() as held:
                before = loop = _loop(job, store, stop, held, opened, before)
                if watch is None:
                    watch = opened.enter_context(job.operation.watched())
                    opened.enter_context(_stopped_by_signals(stop))
                loop.measuring = watch.needs_sizes
                for report in loop.run():
                    begun()
                    watch.tell(report)
            break
        except Wider as wider:
            job = _widened(job, wider, 0 if before is None else before.number)
        except StatesLost as error:
            if store is None:
                raise
            attempts = attempts + 1 if store.manifest is committed else 1
            if attempts > RETRIED_MAX_TIMES:
                message = f"{error.message}, {attempts} times in one batch"
                raise EngineError(message, store.continues) from error
            after = "starting over" if store.manifest is None else f"going back to batch {store.manifest.batch}"
            logger.warning("%s: %s", error.message, after)
            store.recover()
    if stop.comes(0):
        logger.info("stopped")


def _widened(job: StreamJob, wider: Wider, number: int) -> StreamJob:
    """A stream whose rows are of another type from a batch on.

    Raises: UserError where the query has no meaning for them, and where changes are put out, and some were: those of
    the new type do not follow on them.
    """
    for found, row in wider.rows.items():
        said = f"the rows of {found.place} are of a wider type than those before, {row}"
        if number and job.changes:
            hint = "say with type(…) what is to come, or put out snapshots"
            raise UserError(f"{said}, and changes do not follow on those that were put out", job.query.span, hint)
        logger.warning("%s: what is made of them is built again", said)
    rows = {**job.rows, **wider.rows}
    program, query, plan = job.typed(rows)
    return attrs.evolve(job, program=program, query=query, plan=plan, rows=rows)


def _loop(
    job: StreamJob, store: Store | None, stop: Stop, opened: ExitStack, outer: ExitStack, before: Loop | None = None
) -> Loop:
    """A stream from its beginning, or from its last commit on.

    Without a checkpoint it goes on where it was `before` its rows were of another type. What is kept until its end is
    closed with the `outer` stack.
    """
    ends = _ends(job, store, opened, outer, before)
    specs = {name: job.program.sources[name] for name in stream_names(job.query.term)}
    sources, source = job.program.sources, job.query.span.source
    begun: list[tuple[SourceSpec, Sequence[Part]]] = [
        (sources[name], static_files(sources[name])) for name in job.plan.tables
    ]
    beginning = _beginning(job, ends, specs, before)
    if beginning.restored is not None:
        begun += [(sources[name], [*parts]) for name, parts in beginning.restored.arrived.items()]
    engine = make_engine(
        job.engine, job.plan, sources, ends.quarantine, beginning.going_on, job.session, source, job.partitions
    )
    opened.callback(engine.close)
    _say_how_it_goes_on(ends, beginning, changed=before is None)
    _say_what_is_missing(specs.values(), job.options)
    if store is not None:
        _say_which_slots_are_unread(store, specs)
    return Loop(
        engine,
        specs,
        job.options,
        ends.sink,
        ends.quarantine,
        ends.commits,
        ends.copies,
        stop,
        watched=beginning.watched,
        number=0 if before is None else before.number,
        begun=begun,
    )


@attrs.frozen
class _Ends:
    """Where a stream brings what it makes: its answers, malformed rows, commits, and copies of what it has read."""

    sink: Several
    quarantine: Quarantine | None
    commits: Commits | None
    copies: Copies | None


def _ends(job: StreamJob, store: Store | None, opened: ExitStack, outer: ExitStack, before: Loop | None) -> _Ends:
    """Opens them, and removes what a process that was cut off has left there."""
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
        if store is not None:
            _clean(sink, quarantine, store.files)
    return _Ends(sink, quarantine, commits, copies)


@attrs.frozen
class _Beginning:
    """From where a stream goes on: from nothing, from its last commit, or from where its rows were of another type."""

    going_on: GoingOn | None = None
    restored: Restored | None = None
    watched: list[Watched] | None = None
    """What was read of each source, where the states are made of all of that again."""


def _beginning(job: StreamJob, ends: _Ends, specs: Mapping[str, SourceSpec], before: Loop | None) -> _Beginning:
    if ends.commits is not None:
        restored = ends.commits.restored()
        return _Beginning(GoingOn(ends.commits.identities, restored), restored)
    if before is None or before.watched is None:
        return _Beginning()
    watched = [one.of_type(specs[one.spec.name]) for one in before.watched]
    if not before.number:
        return _Beginning(watched=watched)
    everything = identities(job.plan, sources_of(job.program, job.query.term))
    ends.sink.start_anew()
    return _Beginning(GoingOn(everything, from_the_beginning(job.plan, watched)), watched=watched)


def _say_how_it_goes_on(ends: _Ends, beginning: _Beginning, *, changed: bool) -> None:
    """Says what was restored, and keeps aside the malformed rows of static tables, where that was not done before."""
    quarantine, commits, restored = ends.quarantine, ends.commits, beginning.restored
    if restored is not None and commits is not None:
        _say_restored(commits, restored.built, ends.copies, changed=changed)
    if quarantine is None:
        return
    if restored is not None or beginning.watched is not None:
        # Files were read again; where they are read otherwise, other rows may be malformed.
        quarantine.pass_over_known()
        return
    said = keep_aside(quarantine, "tables") if commits is None else commits.keep(quarantine, "tables")
    if said is not None:
        logger.warning("%s", said)


def _last_batch(store: Store | None, before: Loop | None) -> int | None:
    """The last batch that was put out, if any was; with a checkpoint that says it of each place."""
    return before.number - 1 if store is None and before is not None and before.number else None


# --- its parts ----------------------------------------------------------------------------------


def _sinks(job: StreamJob, store: Store | None, opened: ExitStack, last: int | None) -> Iterator[Sink]:
    """Where the answers go; what the sinks hold is given back with what is `opened`.

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
        yield sink


def _opening(job: StreamJob, store: Store | None, opened: ExitStack, last: int | None) -> Opening:
    """What sinks are made for: without a checkpoint, a stream that begins, or goes on after its `last` batch."""
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
    """Where copies of the files that were read are kept: beside the states that are made of them."""
    if store is None:
        return Copies(Path(opened.enter_context(TemporaryDirectory(prefix="mrql-"))))
    return Copies(store.root / COPIES, store.files)


def _commits(
    job: StreamJob, store: Store, sink: Several, copies: Copies | None, running: Mapping[str, Adapted]
) -> Commits:
    """The commits of a stream into a checkpoint; of one that does a batch again, some adapters are `running`.

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
    """Removes what a process that was cut off has written aside."""
    for path in [*sink.hidden(), *([] if quarantine is None else quarantine.hidden())]:
        files.remove(path)


def _say_restored(commits: Commits, built: tuple[str, ...], copies: Copies | None, *, changed: bool) -> None:
    said = f"going on after batch {commits.next_batch - 1}"
    if built and changed:
        said += f"; {reason_to_build(copies)}, and what was built again from the data is {', '.join(built)}"
    logger.info("%s", said)


def _say_what_is_missing(specs: Iterable[SourceSpec], options: Options) -> None:
    """A directory that is not there yet may still come; whoever has mistyped its name should see it."""
    for spec in specs:
        for part, weight in spec.directories:
            if Path(part.path).exists() or is_pattern(part.path):
                continue
            if not options.once:
                logger.warning("%s is not there yet; its files are read when it is", part.path)
            elif weight < 0:  # that the one for what is inserted is not there is an error then
                logger.warning("%s is not there; nothing is deleted", part.path)


def _say_which_slots_are_unread(store: Store, specs: Mapping[str, SourceSpec]) -> None:
    """A slot of a stream that the query does not read any more, or reads from elsewhere, has a server keep its log."""
    last = {} if store.manifest is None else store.manifest.sources
    for note in slot_notes(store.root):
        known = last.get(note.stream)
        offset = None if known is None else known.offset
        others = isinstance(offset, dict) and offset.get("slot") != note.slot
        if others or not any(is_of(note, spec) for spec in specs.values()):
            drop = f"SELECT pg_drop_replication_slot('{note.slot}')"
            logger.warning("the replication slot %s at %s is not read any more: %s there", note.slot, note.place, drop)


@contextmanager
def _stopped_by_signals(stop: Stop) -> Iterator[None]:
    """The first SIGTERM or SIGINT stops the stream after the batch that is running, the second one at once."""

    def heard(*_: object) -> None:
        if stop.comes(0):
            raise KeyboardInterrupt
        stop.wish()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except KeyboardInterrupt:
        logger.warning("the batch was cut off")
        raise CutOff from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
