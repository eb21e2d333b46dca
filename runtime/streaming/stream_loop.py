"""The stream loop: new data becomes batches, and each batch gives a new answer.

The loop sees an engine only as an `Engine`, so it is the same on Spark and in the reference engine.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.operators import Operator, OperatorKind
from mrql.runtime.engine.answer import Answer
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import EngineMeasurements, OperatorActivity
from mrql.runtime.files.batch_names import batch_name
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.sinks.sink import Pending, Several, publish
from mrql.runtime.sources.arrived import Arrived, Batch, Part, count_of, look_again
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.files import no_such_file
from mrql.runtime.sources.path_patterns import is_pattern
from mrql.runtime.sources.places_of_rows import placed
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.watch import Watched, next_batch, watch
from mrql.runtime.sources.wrong_rows import naming_files
from mrql.runtime.streaming.report import BatchPhase, Clock, Counting, Measurements, Report
from mrql.runtime.streaming.widening import Wider, must_fit

if TYPE_CHECKING:
    from mrql.runtime.checkpoint.commits import Commits, States


logger = logging.getLogger(__name__)


class Emit(Enum):
    """What a stream puts out after each batch."""

    SNAPSHOT = "snapshot"
    """The whole answer after the batch."""
    CHANGES = "changes"
    """How the batch changed the answer: rows with weights, positive for insertions, negative for deletions."""


@attrs.frozen
class Sizes:
    """The number of rows in the states, and of keys that the last batch touched."""

    rows: int
    touched: int


Put: TypeAlias = Callable[[Answer], None]
"""Puts out the answer after a batch."""


class Engine(Protocol):
    """An engine that keeps a plan up to date."""

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        """Applies a batch and puts out its answer; on failure the states are unchanged.

        The answer has changes only where `changes` are asked for here.
        """

    def sizes(self) -> Sizes:
        """The sizes after the last batch."""

    def measure(self) -> EngineMeasurements:
        """The sizes of the states, with bytes, and the activity of each operator in the last batch."""

    @property
    def circuit(self) -> Circuit:
        """The operators that a batch goes through."""

    def residual(self) -> Residual | None:
        """How far the answer may be off after the last batch; None where the plan withholds no changes."""

    def durable(self) -> States:
        """The states, to be committed; only for an engine that was made with a `GoingOn`."""

    def close(self) -> None:
        """Frees the state."""


@attrs.frozen
class Options:
    """How to run a stream: `once` stops when all data present at the start is read; `interval` is in seconds."""

    once: bool = False
    interval: float = 1.0
    max_files: int | None = None
    max_rows: int | None = None
    """The approximate number of rows that a batch takes from an adapter; they are in the driver's memory."""
    emit: Emit = Emit.SNAPSHOT
    """What directories and the console get."""
    may_go: bool = False
    """Whether files may be removed once they are read; their rows stay."""


GLANCE_SECONDS = 0.05
"""The longest time until a waiting stream notices a request to stop."""


@attrs.define
class Stop:
    """A request to stop, which is honoured between batches.

    It is not a `threading.Event`: a signal handler must not take a lock that the code it interrupts may hold.
    """

    wished: bool = False

    def wish(self) -> None:
        """Requests a stop after the batch that is running."""
        self.wished = True

    def comes(self, seconds: float) -> bool:
        """Waits for so many seconds at most, and returns whether a stop was requested; at once if so."""
        until = time.monotonic() + seconds
        while not self.wished and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, GLANCE_SECONDS))
        return self.wished


@attrs.define
class Loop:
    """A running stream: an engine, the sources of its streams, and where its answers and its states go.

    The malformed rows of a batch are kept once its answer is out. With `commits`, the answer, the malformed rows, the
    states and what was consumed are committed together.
    """

    engine: Engine
    specs: Mapping[str, SourceSpec]
    options: Options
    sink: Several
    quarantine: Quarantine | None = None
    commits: Commits | None = None
    copies: Copies | None = None
    """Copies of the files that were read, if files may change."""
    stop: Stop = attrs.Factory(Stop)
    begun: Sequence[tuple[SourceSpec, Sequence[Part]]] = ()
    """What was read before the first batch: static tables, and what states were rebuilt from."""
    measuring: bool = False
    """Whether the reports have `Measurements`, which take some time."""
    watched: Sequence[Watched] | None = None
    """What the streams are read from, and how far; if None, from the last of the `commits`, or from the beginning."""
    number: int = 0
    """The number of the next batch; with `commits` it is taken from there."""
    is_closed: bool = False

    def run(self) -> Iterator[Report]:
        """Yields a report for each batch, with `once` until all is read, otherwise until a stop is requested.

        Raises: UserError when a directory or a row is not what it should be; Wider where rows are of a wider type, and
            StatesLost where states were lost. After these two, adapters stay open: another loop goes on from them, or
            `close` is called.
        """
        commits = self.commits
        if commits is not None:
            self.number = commits.next_batch
        if self.watched is None:
            self.watched = watch(self.specs.values(), self.copies) if commits is None else commits.directories()
        directories = self.watched
        for one in directories:
            if isinstance(one, Directory):
                one.may_go = self.options.may_go
        try:
            if self.copies is not None:
                read = [one for one in directories if isinstance(one, Directory)]
                self.copies.drop_all_but(copy for directory in read for copy in directory.copied())
            yield from self._batches(directories)
        except (Wider, StatesLost):
            raise
        except BaseException:
            self.close()
            raise
        self.close()

    @property
    def adapted(self) -> dict[str, Adapted]:
        """The streams that adapters read, by name."""
        return {one.spec.name: one for one in self.watched or () if isinstance(one, Adapted)}

    def close(self) -> None:
        """Closes the adapters, if that was not done before."""
        if not self.is_closed:
            self.is_closed = True
            for one in self.adapted.values():
                one.adapter.close()

    def _batches(self, directories: Sequence[Watched]) -> Iterator[Report]:
        commits = self.commits
        if self.options.once:
            must_exist(self.specs.values())
            for one in directories:
                one.mark_end()
        while not self.stop.comes(0):
            clock = Clock()
            with clock.phase(BatchPhase.FIND):
                batch = next_batch(directories, self.options.max_files, self.options.max_rows)
                must_fit(self.specs, batch)
            if batch or (self.options.once and self.number == 0) or (commits is not None and commits.answer_is_due):
                report = self._step(directories, batch, self.number, clock)
                self.number += 1
                yield report
                if self.options.once and all(one.is_at_end for one in directories):
                    return
            elif self.options.once or self.stop.comes(self.options.interval):
                return

    def _step(self, directories: Sequence[Watched], batch: Batch, number: int, clock: Clock) -> Report:
        streams = dict.fromkeys(directory.spec.name for directory in directories)
        with clock.phase(BatchPhase.COUNT):
            counted = {name: self._rows(name, batch) for name in streams}
        counting = Counting() if self.measuring else None
        malformed, kept = self._apply(directories, batch, number, counting, clock)
        self._drop_copies(directories, batch)
        sizes = self.engine.sizes()
        rows_of = {name: counted[name] - malformed.get(name, 0) for name in streams}
        return Report(
            number,
            clock.now(),
            files_of={name: sum(isinstance(part, Arrived) for part in batch.get(name, ())) for name in streams},
            rows_of=rows_of,
            malformed_of={name: malformed.get(name, 0) for name in streams},
            waiting_of={name: sum(d.waiting for d in directories if d.spec.name == name) for name in streams},
            touched=sizes.touched,
            state_rows=sizes.rows,
            milliseconds_of=clock.milliseconds,
            residual=self.engine.residual(),
            kept_aside=kept,
            measured=None if counting is None else self._measured(counting, rows_of),
        )

    def _drop_copies(self, directories: Sequence[Watched], batch: Batch) -> None:
        """Removes the copies of files whose rows a batch has withdrawn, unless another stream has read these too."""
        if self.copies is not None:
            parts = (part for parts in batch.values() for part in parts)
            read = [directory for directory in directories if isinstance(directory, Directory)]
            gone = {part.file for part in parts if isinstance(part, Arrived) and part.withdrawn}
            if gone:
                self.copies.drop(gone - {copy for directory in read for copy in directory.copied()})

    def _rows(self, stream: str, batch: Batch) -> int:
        return sum(count_of(part, self.specs[stream]) for part in batch.get(stream, ()))

    def _measured(self, counting: Counting, rows_of: Mapping[str, int]) -> Measurements:
        manifest = None if self.commits is None else self.commits.store.manifest
        written = None if manifest is None else sum(run.bytes for run in manifest.runs())
        found, rows_out = self.engine.measure(), counting.rows()
        return Measurements(rows_out, found.states, written, self._activities(found.operators, rows_of, rows_out))

    def _activities(
        self, known: Mapping[str, OperatorActivity], rows_of: Mapping[str, int], rows_out: int | None
    ) -> dict[str, OperatorActivity]:
        """The activity of each operator: what the engine knows, `rows_in`, and the rows of sources and answer."""
        found = {}
        for operator in self.engine.circuit.operators:
            activity = known.get(operator.id, OperatorActivity())
            if operator.kind is OperatorKind.SOURCE:
                activity = attrs.evolve(activity, rows_out=rows_of.get(operator.id, 0))
            elif operator.kind is OperatorKind.ANSWER:
                activity = attrs.evolve(activity, rows_out=rows_out)
            found[operator.id] = activity
        return {
            operator.id: attrs.evolve(found[operator.id], rows_in=self._rows_given(operator, found, rows_of))
            for operator in self.engine.circuit.operators
        }

    def _rows_given(
        self, operator: Operator, found: Mapping[str, OperatorActivity], rows_of: Mapping[str, int]
    ) -> int | None:
        """The number of rows that an operator received: of a source, those read; of any other, the output of its inputs
        except static tables; None where one of these is not known."""
        if operator.kind is OperatorKind.SOURCE:
            return rows_of.get(operator.id, 0)
        by_id = self.engine.circuit.by_id
        given = [found[name].rows_out for name in operator.inputs if by_id[name].kind is not OperatorKind.TABLE]
        return None if None in given else sum(rows or 0 for rows in given)

    def _apply(
        self, directories: Sequence[Watched], batch: Batch, number: int, counting: Counting | None, clock: Clock
    ) -> tuple[Mapping[str, int], str | None]:
        """Applies a batch and puts out its answer; returns the number of malformed rows by stream, and a message."""
        read = (part for parts in batch.values() for part in parts)
        logger.debug("batch %d reads %s", number, ", ".join(map(_named, read)))

        pending: list[Pending] = []

        def put(answer: Answer) -> None:
            answer = answer if counting is None else counting.of(answer)
            if self.commits is None:
                pending.extend(self.sink.prepare(number, answer))
            else:
                self.commits.prepare(number, answer)

        with nullcontext() if self.commits is None else self.commits.told():
            with clock.phase(BatchPhase.APPLY):
                self._advance(batch, put)
                self._look_again(batch)
                publish(pending, DurableFiles())
                malformed, kept = self._malformed(batch, number)
            _consume(directories, batch)
            if self.commits is not None:
                with clock.phase(BatchPhase.COMMIT):
                    self.commits.commit(number, self.engine.durable(), directories)
        return malformed, kept

    def _look_again(self, batch: Batch) -> None:
        """Checks, before any output of a batch is seen, that the files that were read are still as they were found.

        Raises: UserError where a file has changed in the meantime. The stream ends, and goes on from the last commit.
        """
        for spec, parts in self.begun:
            look_again(parts, spec)
        for name, arrived in batch.items():
            look_again(arrived, self.specs[name])
        self.begun = ()

    def _advance(self, batch: Batch, put: Put) -> None:
        with placed(self.specs), naming_files(self.specs, lambda spec: batch.get(spec.name, ())):
            self.engine.advance(batch, put, changes=self.sink.changes)

    def _malformed(self, batch: Batch, number: int) -> tuple[Mapping[str, int], str | None]:
        if self.quarantine is None:
            return {}, None
        streams = {part.file: name for name, parts in batch.items() for part in parts if isinstance(part, Arrived)}
        found = Counter(streams[row.file] for row in self.quarantine.waiting.values() if row.file in streams)
        name = batch_name(number)
        if self.commits is None:
            return found, self.quarantine.keep(name, DurableFiles().write)
        return found, self.commits.keep(self.quarantine, name)


def _named(part: Part) -> str:
    return str(part.file) if isinstance(part, Arrived) else f"up to {part.end}"


def _consume(directories: Sequence[Watched], batch: Batch) -> None:
    for directory in directories:
        directory.commit(batch.get(directory.spec.name, []))


def run(
    engine: Engine,
    specs: Mapping[str, SourceSpec],
    options: Options,
    sink: Several,
    quarantine: Quarantine | None = None,
) -> Iterator[Report]:
    """Runs a stream without a checkpoint, which starts over when it is started again.

    Raises: UserError when a directory or a row is not what it should be.
    """
    return Loop(engine, specs, options, sink, quarantine).run()


def must_exist(specs: Iterable[SourceSpec]) -> None:
    """Checks that the files or directories of sources exist; called where these are not waited for.

    Raises: UserError, naming the first path that is missing.
    """
    for spec in specs:
        if spec.is_files and not Path(spec.path).exists() and not is_pattern(spec.path):
            raise no_such_file(spec)
