"""A stream as the command runs it: its engine, its sink, its checkpoint, and how it is stopped."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs

from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.jobs.batch import sources_of
from mrql.jobs.kept_aside import keep_aside
from mrql.jobs.stream_ends import StreamEnds, must_be_apart, open_ends
from mrql.jobs.stream_job import StreamJob
from mrql.monitoring.logs import logged
from mrql.monitoring.watch import Watch
from mrql.runtime.checkpoint.commits import Commits
from mrql.runtime.checkpoint.identity import identities
from mrql.runtime.checkpoint.restore import GoingOn, Restored, from_the_beginning, reason_to_build
from mrql.runtime.checkpoint.store import Store
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.engines import make_engine
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sources.arrived import Part, static_files
from mrql.runtime.sources.catalog import must_not_be_handed_over
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.path_patterns import is_pattern
from mrql.runtime.sources.source import abandoned
from mrql.runtime.sources.watched.watch import Watched
from mrql.runtime.streaming.stream_loop import Loop, Options, Stop
from mrql.runtime.streaming.widening import Wider

logger = logging.getLogger(__name__)


class CutOff(KeyboardInterrupt):
    """A stream was stopped at once, inside a batch; that has been logged already."""


def run_stream(job: StreamJob, files: DurableFiles | None = None, begun: Callable[[], None] = lambda: None) -> None:
    """Runs a stream to its end, or until it is stopped; `begun` is called when a batch is over, before that is shown.

    Raises: UserError, EngineError; CutOff where it is stopped twice, and does not end its batch.
    """
    must_not_be_handed_over(sources_of(job.program, job.query.term).values())
    must_be_apart(job)
    with ExitStack() as opened:
        opened.enter_context(logged(job.operation.log_level))
        store = None
        if job.checkpoint is not None:
            store = opened.enter_context(contextlib.closing(Store.open(job.checkpoint, files)))
        _run(job, store, opened, begun)


RETRIED_MAX_TIMES = 3
"""How often in a row a batch is repeated when executors were lost in it."""


def _run(job: StreamJob, store: Store | None, opened: ExitStack, begun: Callable[[], None]) -> None:
    """Runs a stream; what it opens is closed by the caller, with `opened`.

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
    """The job of a stream whose rows are of a wider type from batch `number` on.

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

    Without a checkpoint it goes on from the loop `before`, if there is one, whose rows were of another type. What is
    kept until the end of the stream is closed with the `outer` stack.
    """
    ends = open_ends(job, store, opened, outer, before)
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
        _say_what_is_abandoned(store, specs.values())
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
class _Beginning:
    """Where a stream starts: at the beginning, at its last commit, or where its rows were of another type."""

    going_on: GoingOn | None = None
    restored: Restored | None = None
    watched: list[Watched] | None = None
    """What the streams are read from, and how far, where no checkpoint says it."""


def _beginning(job: StreamJob, ends: StreamEnds, specs: Mapping[str, SourceSpec], before: Loop | None) -> _Beginning:
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


def _say_how_it_goes_on(ends: StreamEnds, beginning: _Beginning, *, changed: bool) -> None:
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


def _say_restored(commits: Commits, built: tuple[str, ...], copies: Copies | None, *, changed: bool) -> None:
    said = f"going on after batch {commits.next_batch - 1}"
    if built and changed:
        said += f"; {reason_to_build(copies)}, and what was built again from the data is {', '.join(built)}"
    logger.info("%s", said)


def _say_what_is_missing(specs: Iterable[SourceSpec], options: Options) -> None:
    """Warns of directories that do not exist: they may still appear, or their names may be mistyped."""
    for spec in specs:
        for part, weight in spec.directories:
            if Path(part.path).exists() or is_pattern(part.path):
                continue
            if not options.once:
                logger.warning("%s is not there yet; its files are read when it is", part.path)
            elif weight < 0:  # a missing directory of insertions is an error then
                logger.warning("%s is not there; nothing is deleted", part.path)


def _say_what_is_abandoned(store: Store, specs: Collection[SourceSpec]) -> None:
    """Warns of what servers still keep for streams that the query does not read any more, or reads from elsewhere."""
    last = {} if store.manifest is None else store.manifest.sources
    for said in abandoned(store.root, {name: source.offset for name, source in last.items()}, specs):
        logger.warning("%s", said)


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
