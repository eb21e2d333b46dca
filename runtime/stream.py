"""The stream loop: new files become batches, each batch a new answer.

What a batch does on an engine is behind `Engine`, so that the loop is the same on Spark and in the reference semantics.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.files import count_rows
from mrql.algebra.malformed import Quarantine
from mrql.algebra.sources import SourceSpec
from mrql.runtime.directories import Batch, Directory, next_batch, placed, watch


class Emit(Enum):
    """What a batch puts out."""

    SNAPSHOT = "snapshot"
    """The whole answer after the batch."""
    CHANGES = "changes"
    """How the batch changed the answer: rows with a weight, +1 for new, −1 for gone."""


class Sink(Protocol):
    """Where the answer of each batch goes."""

    def write(self, number: int, rows: object) -> None:
        """Puts out the rows of a batch; returns when they are there as a whole, or raises."""


@attrs.frozen
class Sizes:
    """How large the states are: their rows, and the keys that the last batch touched."""

    rows: int
    touched: int


class Engine(Protocol):
    """What keeps a plan up to date."""

    def advance(self, batch: Batch, emit: Emit, number: int, sink: Sink) -> None:
        """Applies a batch and puts out its answer; on failure the state is as it was."""

    def sizes(self) -> Sizes:
        """The sizes after the last batch."""

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
    emit: Emit = Emit.SNAPSHOT


def run(
    engine: Engine,
    specs: Mapping[str, SourceSpec],
    options: Options,
    sink: Sink,
    quarantine: Quarantine | None = None,
) -> Iterator[Report]:
    """Runs the loop and yields a report for each batch; with `once` it ends, else when the caller stops asking.

    The malformed rows of a batch are kept when its answer is out.

    Raises: UserError when a directory or a row is not what it should be.
    """
    directories = watch(specs.values())
    if options.once:
        must_exist(specs.values())
    number = 0
    while True:
        started = time.perf_counter()
        batch = next_batch(directories, options.max_files)
        if batch or (options.once and number == 0):
            yield _step(engine, specs, directories, batch, number, options, sink, quarantine, started)
            number += 1
        elif options.once:
            return
        else:
            time.sleep(options.interval)


def _step(
    engine: Engine,
    specs: Mapping[str, SourceSpec],
    directories: Sequence[Directory],
    batch: Batch,
    number: int,
    options: Options,
    sink: Sink,
    quarantine: Quarantine | None,
    started: float,
) -> Report:
    rows = sum(count_rows(specs[stream], part.file) for stream, files in batch.items() for part in files)
    with placed(specs):
        engine.advance(batch, options.emit, number, sink)
    malformed = 0 if quarantine is None else len(quarantine.waiting)
    kept = None if quarantine is None else quarantine.keep(f"batch-{number:06d}")
    for directory in directories:
        directory.commit(batch.get(directory.spec.name, []))
    sizes = engine.sizes()
    elapsed = (time.perf_counter() - started) * 1000
    return Report(number, sum(map(len, batch.values())), rows - malformed, sizes.touched, sizes.rows, elapsed, kept)


def must_exist(specs: Iterable[SourceSpec]) -> None:
    """Where nothing is waited for, a directory that is not there is a mistake; otherwise it may still come.

    Raises: UserError, naming the first one that is missing.
    """
    for spec in specs:
        if not Path(spec.path).exists() and "*" not in spec.path:
            raise UserError(f"no such file or directory: {spec.path}", spec.span)
