"""Sources that are not files: what an adapter is, and where it is found.

An adapter answers two questions: up to where is there something to read, and what lies between two places. A place is
an *offset*, a value that JSON has: a number of a row, the offsets of partitions, a version. The stream notes in its
checkpoint which offset it has read up to, together with what it has made of it; an adapter keeps nothing.
docs/sources.md is a guide, and `mrql.testing` has tests for whoever writes one.
"""

from __future__ import annotations

import importlib
import json
import reprlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Always, Connector, Format, SourceSpec
from mrql.algebra.errors import MrqlError, UserError
from mrql.algebra.evaluation.python_errors import said_of
from mrql.algebra.notation.typecheck import conforms
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.sources.rows_file import RowsFile, rows_of
from mrql.runtime.sources.spark_reader import SparkReader, is_of_spark

Offset: TypeAlias = Any
"""A place in a source, as JSON has it; None is its beginning."""


class Adapter(Protocol):
    """A source of rows with weights: 1 for a row that came, −1 for one that went.

    It is made from the `SourceSpec` of the stream, whose `row` is the type of the rows and whose `path` the text that
    the query gives.
    """

    @property
    def replays(self) -> bool:
        """Whether the same offsets have the same rows again, also in another process. Where not, a stream that is
        started again goes on with what comes then, and no state can be built from what came before."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Up to where to read next: the offset after `start` with about `most` rows between them; `start` where there
        is nothing new.

        Raises: UserError where the source is not what it should be, EngineError where it is not reached.
        """

    def read(self, start: Offset, end: Offset) -> Iterable[tuple[Value, int]]:
        """The rows after `start` up to `end`, with their weights.

        Raises: UserError, EngineError.
        """

    def close(self) -> None:
        """Gives back what it holds."""


@runtime_checkable
class BulkAdapter(Adapter, Protocol):
    """An adapter of the package that may have more rows than a process holds: it writes them to files."""

    def files(self, start: Offset, end: Offset) -> tuple[RowsFile, ...]:
        """What `read` gives. The files are there until `latest` is asked for what comes after them."""

    def whole(self, directory: Path) -> tuple[RowsFile, ...]:
        """All rows that are there now, in files of a directory."""


@runtime_checkable
class LogAdapter(BulkAdapter, Protocol):
    """One of several that read a log: a transaction that is in it is in one batch of all of them."""

    @property
    def log(self) -> str:
        """What tells the log from another one."""

    def latest_together(self, readers: Sequence[tuple[Any, Offset]], most: int | None) -> list[Offset]:
        """What `latest` is for each of some adapters of one log, with their starts: up to the same place."""


@runtime_checkable
class Bounded(Protocol):
    """A source that says how far it goes now, for a run that ends when it is there, also where more keeps coming."""

    def end(self, start: Offset) -> Any:
        """How far it goes now, for whoever has read up to `start`.

        Raises: UserError where the source is not what it should be, EngineError where it is not reached.
        """

    def is_at(self, offset: Offset, end: Any) -> bool:
        """Whether an offset is as far as that, or farther. Raises as `end` does."""


def latest_of(readers: Sequence[tuple[Adapter, Offset]], most: int | None) -> list[Offset]:
    """What `latest` is for each of some adapters, with their starts; of those of one log it is asked together."""
    logs: dict[str, list[int]] = {}
    ends = [start for _, start in readers]
    for i, (adapter, start) in enumerate(readers):
        if isinstance(adapter, LogAdapter):
            logs.setdefault(adapter.log, []).append(i)
        else:
            ends[i] = adapter.latest(start, most)
    for places in logs.values():
        first = readers[places[0]][0]
        assert isinstance(first, LogAdapter)
        for i, end in zip(places, first.latest_together([readers[i] for i in places], most), strict=True):
            ends[i] = end
    return ends


@attrs.frozen
class Portion:
    """What an adapter has between two offsets."""

    start: Offset
    end: Offset
    rows: tuple[tuple[Value, int], ...] = ()
    files: tuple[RowsFile, ...] = ()
    """What is not among the rows: it is in no memory."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows) + sum(file.count for file in self.files)

    def changes(self, row: Type) -> Iterator[tuple[Value, int]]:
        """All rows, with their weights."""
        yield from self.rows
        for file in self.files:
            yield from rows_of(file, row)


def portion(adapter: Adapter, start: Offset, end: Offset) -> Portion:
    """What an adapter has between two offsets."""
    if isinstance(adapter, BulkAdapter):
        return Portion(start, end, files=adapter.files(start, end))
    return Portion(start, end, tuple(adapter.read(start, end)))


@attrs.frozen
class ChangedFile:
    """A file whose rows came with a version of a table, or went, as its `weight` says."""

    file: Path
    weight: int = 1
    read_as: Path | None = None
    """A link to it, where the names of the directories that it lies in do not say what its partition columns are."""
    format: Format | None = None
    """Its format, where that is not the one of the table: its rows then say themselves whether they came or went."""


class VersionedTable(Protocol):
    """A table whose log says, for each version, which files its rows lie in.

    It is made from the `SourceSpec`, whose `path` is the directory of the table. Files are never changed.
    """

    def row_type(self) -> Type:
        """The type of the rows, as the log says it, in the version that is asked for.

        Raises: UserError where there is no such table, or one that cannot be read.
        """

    def newest(self) -> int:
        """The newest version. Raises as `row_type` does."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Up to which version to read next: some versions after `start`, with about so many files; `start` where there
        is none. From the beginning it is the table as it is.

        Raises: UserError where the table is not that of `start`, or versions after that are gone.
        """

    def is_at(self, offset: Offset, end: Offset) -> bool:
        """Whether an offset is at a version, or behind it. Raises as `row_type` does."""

    def changes(self, start: Offset, end: Offset) -> Sequence[ChangedFile]:
        """The files whose rows came and went after `start` up to `end`; from the beginning those of the table at `end`.

        Raises: UserError where a file that is needed is gone.
        """

    def files(self, version: int | None) -> Sequence[ChangedFile]:
        """The files of a version, or of the newest one. Raises as `changes` does."""


CONNECTORS: Mapping[str, Connector] = {
    connector.name: connector
    for connector in (
        Connector("adapter", '"module:name", "…"', None),
        Connector(
            "postgresql",
            '"postgresql://host/db?table=t&column=id"',
            "mrql.runtime.postgresql.source:PostgresTable",
            row_type="mrql.runtime.postgresql.row_type:row_type",
        ),
        Connector(
            "postgresql_cdc",
            '"postgresql://host/db?table=t"',
            "mrql.runtime.postgresql.change_log:PostgresLog",
            row_type="mrql.runtime.postgresql.row_type:row_type",
            is_log=True,
            abandoned="mrql.runtime.postgresql.change_streams:abandoned_slots",
        ),
        Connector("delta", '"directory"', "mrql.runtime.delta.source:DeltaSource", files=PARQUET),
        Connector(
            "iceberg",
            '"directory"',
            "mrql.runtime.iceberg.source:IcebergSource",
            files=attrs.evolve(PARQUET, partitioned=False),
        ),
        Connector("socket", '"host:port"', "mrql.runtime.sources.socket:SocketLines", Always(ty.STRING, "strings")),
    )
}
"""The kinds of sources that are no files, by the names that a query and a `SourceSpec` have for them. Of the adapters
that come with the package it is said where they are: what they need is not loaded before it is asked for."""


def open_table(spec: SourceSpec) -> VersionedTable:
    """The table of a source with a log."""
    assert spec.versioned
    assert spec.adapter is not None
    table: VersionedTable = _named(CONNECTORS[spec.adapter].adapter or "")(spec)
    return table


def found_row_type(spec: SourceSpec) -> Type:
    """The type of the rows of a stream that its adapter finds.

    Raises: UserError, EngineError as that does.
    """
    assert spec.adapter is not None
    found: Type = _named(CONNECTORS[spec.adapter].row_type or "")(spec)
    return found


def abandoned(checkpoint: Path, offsets: Mapping[str, Offset], specs: Collection[SourceSpec]) -> Iterator[str]:
    """What servers still keep for streams of a checkpoint that are not read any more, or are read from elsewhere, as
    their last offsets say: each in words, with what removes it.

    Raises: UserError where what was noted of it is damaged.
    """
    for connector in CONNECTORS.values():
        if connector.abandoned is not None:
            yield from _named(connector.abandoned)(checkpoint, offsets, specs)


def open_adapter(spec: SourceSpec) -> Adapter:
    """The adapter of a stream: one that comes with the package, or one named `package.module:name`, which may be a
    Python data source of Spark, or a reader of one.

    Raises: UserError where there is none of that name.
    """
    assert spec.adapter is not None
    known = CONNECTORS.get(spec.adapter)
    try:
        found = _named((known and known.adapter) or spec.adapter)
    except Exception as error:  # a module that is imported is run, and may raise anything
        hint = 'an adapter is named as in "package.module:name"'
        raise UserError(f"there is no adapter {spec.adapter}: {error}", spec.span, hint) from error
    _must_be_one(found, spec)
    if known is not None and known.adapter is not None:
        ours: Adapter = found(spec)
        return ours
    with _reported(spec, "cannot be made"):
        adapter: Adapter = SparkReader.of(found, spec) if is_of_spark(found) else found(spec)
    return ReportedBounded(adapter, spec) if isinstance(adapter, Bounded) else Reported(adapter, spec)


def _named(place: str) -> Any:
    """What a `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@attrs.frozen
class Reported:
    """An adapter of a user's own, whose exceptions, and whatever it gives that is none of what it promises, are errors
    that name it."""

    adapter: Adapter
    spec: SourceSpec

    @property
    def replays(self) -> bool:
        with _reported(self.spec, "failed in `replays`"):
            return self.adapter.replays

    def latest(self, start: Offset, most: int | None) -> Offset:
        with _reported(self.spec, "failed in `latest`"):
            offset = self.adapter.latest(start, most)
            if json.loads(json.dumps(offset)) != offset:
                raise TypeError(f"the offset {offset!r} is not the same from JSON")
            return offset

    def read(self, start: Offset, end: Offset) -> Iterable[tuple[Value, int]]:
        with _reported(self.spec, "failed in `read`"):
            for row in self.adapter.read(start, end):
                yield _checked(row, self.spec)

    def close(self) -> None:
        with _reported(self.spec, "failed in `close`"):
            self.adapter.close()


@attrs.frozen
class ReportedBounded(Reported):
    """The same of one that says how far it goes."""

    def end(self, start: Offset) -> Any:
        assert isinstance(self.adapter, Bounded)
        with _reported(self.spec, "failed in `end`"):
            return self.adapter.end(start)

    def is_at(self, offset: Offset, end: Any) -> bool:
        assert isinstance(self.adapter, Bounded)
        with _reported(self.spec, "failed in `is_at`"):
            return self.adapter.is_at(offset, end)


def _checked(row: Any, spec: SourceSpec) -> tuple[Value, int]:
    """A value of the stream's type, with its weight.

    Raises: UserError where it is something else.
    """
    match row:
        case (value, int() as weight) if weight and not isinstance(weight, bool) and conforms(value, spec.row):
            return value, weight
    what = f"where pairs of a value of type {spec.row} and a weight were expected"
    raise UserError(f"the adapter {spec.adapter} gave {reprlib.repr(row)}, {what}", spec.span)


@contextmanager
def _reported(spec: SourceSpec, what: str) -> Iterator[None]:
    """What the code of an adapter raises, as an error that names the adapter.

    Raises: UserError; EngineError where the adapter raises that.
    """
    try:
        yield
    except MrqlError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"the adapter {spec.adapter} {what}: {said_of(error)}", spec.span) from error


def _must_be_one(found: object, spec: SourceSpec) -> None:
    """What is no adapter is not called: it may do anything.

    Raises: UserError.
    """
    if is_of_spark(found):
        return
    if not isinstance(found, type):
        missing = "it is not a class"
    else:
        lacking = [name for name in ("latest", "read", "close") if not hasattr(found, name)]
        if not lacking:
            return
        missing = f"it has no `{lacking[0]}`"
    hint = "an adapter is a class with what mrql.adapters.Adapter has, or a DataSource of Spark"
    raise UserError(f"{spec.adapter} is no adapter: {missing}", spec.span, hint)


_READ_LATER: list[tempfile.TemporaryDirectory[str]] = []
"""Files with all rows of a source: when Spark reads them nobody knows, so they go when the process ends."""


def everything(spec: SourceSpec) -> Portion:
    """All rows that a source has now.

    Raises: UserError where it cannot be read from its beginning.
    """
    adapter = open_adapter(spec)
    try:
        if isinstance(adapter, BulkAdapter):
            _READ_LATER.append(tempfile.TemporaryDirectory(prefix="mrql-"))
            return Portion(None, None, files=adapter.whole(Path(_READ_LATER[-1].name)))
        if not adapter.replays:
            raise UserError(f"{spec.path} has no rows to begin with", spec.span, "mrql stream takes those that come")
        return portion(adapter, None, adapter.latest(None, None))
    finally:
        adapter.close()
