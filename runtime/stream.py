"""The stream loop: new files become batches, each batch a new answer.

What a batch does on an engine is behind `Engine`, so that the loop is the same on Spark and in the reference semantics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.files import count_rows
from mrql.algebra.malformed import Quarantine
from mrql.algebra.sources import SourceSpec
from mrql.runtime.copies import Copies
from mrql.runtime.directories import Adapted, Arrived, Batch, Directory, Part, Watched, next_batch, placed, watch
from mrql.runtime.durable import Files
from mrql.runtime.sinks import Answer, Several, publish

if TYPE_CHECKING:
    from mrql.runtime.checkpoint.commits import Commits, States


class Emit(Enum):
    """What a batch puts out."""

    SNAPSHOT = "snapshot"
    """The whole answer after the batch."""
    CHANGES = "changes"
    """How the batch changed the answer: rows with a weight, +1 for new, −1 for gone."""


@attrs.frozen
class Sizes:
    """How large the states are: their rows, and the keys that the last batch touched."""

    rows: int
    touched: int


Put: TypeAlias = Callable[[Answer], None]
"""Puts out the answer after a batch."""


class Engine(Protocol):
    """What keeps a plan up to date."""

    def advance(self, batch: Batch, put: Put, *, changes: bool) -> None:
        """Applies a batch and puts out its answer; on failure the state is as it was.

        Only where `changes` are asked for beforehand, there are any.
        """

    def sizes(self) -> Sizes:
        """The sizes after the last batch."""

    def durable(self) -> States:
        """The states, to be committed; of an engine that was made to go on from a checkpoint."""

    def close(self) -> None:
        """Frees the state."""


@attrs.frozen
class Report:
    """What a batch was: its number, the files and rows that it read, and what it cost."""

    number: int
    files: int
    rows: int
    touched: int
    state_rows: int
    milliseconds: float
    kept_aside: str | None = None
    """What was done with malformed rows, where there were some."""


@attrs.frozen
class Options:
    """How to run a stream: `once` stops when all that is there has been read; `interval` is in seconds."""

    once: bool = False
    interval: float = 1.0
    max_files: int | None = None
    max_rows: int | None = None
    """About so many rows of an adapter are in a batch; they are in the memory of the driver."""
    emit: Emit = Emit.SNAPSHOT
    """What directories and the console get."""


GLANCE = 0.05
"""So many seconds at most pass before the wish to stop is heard."""


@attrs.define
class Stop:
    """A wish to stop, heard between batches.

    It is no `threading.Event`: what handles a signal must not take a lock that the code it interrupts may hold.
    """

    wished: bool = False

    def wish(self) -> None:
        """Stops the stream after the batch that is running."""
        self.wished = True

    def comes(self, seconds: float) -> bool:
        """Waits, and returns early and true where there is the wish to stop."""
        until = time.monotonic() + seconds
        while not self.wished and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, GLANCE))
        return self.wished


@attrs.define
class Loop:
    """A stream that runs: an engine, the sources of its streams, and where its answers and its states go.

    The malformed rows of a batch are kept when its answer is out. With `commits`, answer, states and what was consumed
    are committed together.
    """

    engine: Engine
    specs: Mapping[str, SourceSpec]
    options: Options
    sink: Several
    quarantine: Quarantine | None = None
    commits: Commits | None = None
    copies: Copies | None = None
    """Copies of the files that were read, where these may change."""
    stop: Stop = attrs.Factory(Stop)

    def run(self) -> Iterator[Report]:
        """Yields a report for each batch; with `once` it ends, else when there is the wish to stop.

        Raises: UserError when a directory or a row is not what it should be.
        """
        commits = self.commits
        directories = watch(self.specs.values(), self.copies) if commits is None else commits.directories()
        try:
            if self.copies is not None:
                read = [one for one in directories if isinstance(one, Directory)]
                self.copies.drop_all_but(copy for directory in read for copy in directory.copied())
            yield from self._batches(directories)
        finally:
            for watched in directories:
                if isinstance(watched, Adapted):
                    watched.adapter.close()

    def _batches(self, directories: Sequence[Watched]) -> Iterator[Report]:
        commits = self.commits
        if self.options.once:
            must_exist(self.specs.values())
        number = 0 if commits is None else commits.next_batch
        while not self.stop.comes(0):
            started = time.perf_counter()
            with nullcontext() if commits is None else commits.told():
                batch = next_batch(directories, self.options.max_files, self.options.max_rows)
            if batch or (self.options.once and number == 0) or (commits is not None and commits.answer_is_due):
                yield self._step(directories, batch, number, started)
                number += 1
            elif self.options.once or self.stop.comes(self.options.interval):
                return

    def _step(self, directories: Sequence[Watched], batch: Batch, number: int, started: float) -> Report:
        rows = sum(_rows(self.specs[stream], part) for stream, parts in batch.items() for part in parts)
        malformed, kept = self._apply(directories, batch, number)
        if self.copies is not None:
            self.copies.drop(
                part.file for parts in batch.values() for part in parts if isinstance(part, Arrived) and part.withdrawn
            )
        sizes = self.engine.sizes()
        elapsed = (time.perf_counter() - started) * 1000
        return Report(
            number,
            sum(isinstance(part, Arrived) for parts in batch.values() for part in parts),
            rows - malformed,
            sizes.touched,
            sizes.rows,
            elapsed,
            kept,
        )

    def _apply(self, directories: Sequence[Watched], batch: Batch, number: int) -> tuple[int, str | None]:
        """Puts out the answer after a batch; returns how many rows were malformed, and what was done with them."""
        if self.commits is None:
            self._advance(batch, lambda answer: publish(self.sink.prepare(number, answer), Files()))
            malformed, kept = self._malformed(number, None)
            _consume(directories, batch)
            return malformed, kept
        commits = self.commits
        with commits.told():
            self._advance(batch, lambda answer: commits.prepare(number, answer))
            malformed, kept = self._malformed(number, commits)
            _consume(directories, batch)
            commits.commit(number, self.engine.durable(), directories)
            return malformed, kept

    def _advance(self, batch: Batch, put: Put) -> None:
        with placed(self.specs):
            self.engine.advance(batch, put, changes=self.sink.changes)

    def _malformed(self, number: int, commits: Commits | None) -> tuple[int, str | None]:
        if self.quarantine is None:
            return 0, None
        count, name = len(self.quarantine.waiting), f"batch-{number:06d}"
        return count, self.quarantine.keep(name) if commits is None else commits.keep(self.quarantine, name)


def _rows(spec: SourceSpec, part: Part) -> int:
    return count_rows(spec, part.file) if isinstance(part, Arrived) else len(part.rows)


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
    """Runs a stream that starts over when it is started again.

    Raises: UserError when a directory or a row is not what it should be.
    """
    return Loop(engine, specs, options, sink, quarantine).run()


def must_exist(specs: Iterable[SourceSpec]) -> None:
    """Where nothing is waited for, a directory that is not there is a mistake; otherwise it may still come.

    Raises: UserError, naming the first one that is missing.
    """
    for spec in specs:
        if spec.adapter is None and not Path(spec.path).exists() and "*" not in spec.path:
            raise UserError(f"no such file or directory: {spec.path}", spec.span)
