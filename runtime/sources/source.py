"""Sources that are not files: the interface of adapters, and the connectors that come with the package.

An adapter answers two questions: up to which offset is there something to read, and which rows lie between two offsets.
An *offset* is a JSON value: a row number, the offsets of partitions, a version. The stream notes in its checkpoint the
offset that it has read up to, together with its states; an adapter keeps nothing. docs/sources.md is a guide to writing
an adapter, and `mrql.testing` has tests for one.
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
"""A position in a source, as a JSON value; None is the beginning."""


class Adapter(Protocol):
    """A source of rows with weights: 1 for an insertion, −1 for a deletion.

    It is made from the `SourceSpec` of the stream, whose `row` is the type of the rows and whose `path` is the text
    given in the query.
    """

    @property
    def replays(self) -> bool:
        """Whether the same offsets always give the same rows, also in another process. If not, a stream that is started
        again continues with the rows that arrive then, and no state can be rebuilt from earlier rows."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """The offset to read up to next, with about `most` rows between `start` and it; `start` if there is nothing
        new.

        Raises: UserError where the source is not what it should be, EngineError where it cannot be reached.
        """

    def read(self, start: Offset, end: Offset) -> Iterable[tuple[Value, int]]:
        """The rows after `start` up to `end`, with their weights.

        Raises: UserError, EngineError.
        """

    def close(self) -> None:
        """Releases the resources of the adapter."""


@runtime_checkable
class BulkAdapter(Adapter, Protocol):
    """An adapter of the package whose rows may not fit in memory: it writes them to files."""

    def files(self, start: Offset, end: Offset) -> tuple[RowsFile, ...]:
        """The rows of `read`, in files that exist until `latest` is called for the rows after them."""

    def whole(self, directory: Path) -> tuple[RowsFile, ...]:
        """All current rows, in files in a directory."""


@runtime_checkable
class LogAdapter(BulkAdapter, Protocol):
    """One of several adapters that read a log: a transaction in the log is in the same batch for all of them."""

    @property
    def log(self) -> str:
        """The identity of the log."""

    def latest_together(self, readers: Sequence[tuple[Any, Offset]], most: int | None) -> list[Offset]:
        """The results of `latest` for several adapters of one log, with their starts: up to the same place in it."""


@runtime_checkable
class Bounded(Protocol):
    """A source that knows its current end, for a run that ends there even if more rows keep arriving."""

    def end(self, start: Offset) -> Any:
        """The current end of the source, for a reader that has read up to `start`.

        Raises: UserError where the source is not what it should be, EngineError where it cannot be reached.
        """

    def is_at(self, offset: Offset, end: Any) -> bool:
        """Whether an offset has reached such an end, or is beyond it. Raises as `end` does."""


def latest_of(readers: Sequence[tuple[Adapter, Offset]], most: int | None) -> list[Offset]:
    """The results of `latest` for several adapters, with their starts; those of one log are asked together."""
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
    """The rows of an adapter between two offsets."""

    start: Offset
    end: Offset
    rows: tuple[tuple[Value, int], ...] = ()
    files: tuple[RowsFile, ...] = ()
    """The rows that are in files and not in `rows`, so that they need not fit in memory."""

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows) + sum(file.count for file in self.files)

    def changes(self, row: Type) -> Iterator[tuple[Value, int]]:
        """All rows, with their weights."""
        yield from self.rows
        for file in self.files:
            yield from rows_of(file, row)


def portion(adapter: Adapter, start: Offset, end: Offset) -> Portion:
    """Reads the rows of an adapter between two offsets."""
    if isinstance(adapter, BulkAdapter):
        return Portion(start, end, files=adapter.files(start, end))
    return Portion(start, end, tuple(adapter.read(start, end)))


@attrs.frozen
class ChangedFile:
    """A file whose rows were inserted by versions of a table, or deleted, as its `weight` says."""

    file: Path
    weight: int = 1
    read_as: Path | None = None
    """A link to it, if the names of the directories that it lies in do not give the values of its partition columns."""
    format: Format | None = None
    """Its format, if not that of the table: its rows then say themselves whether they were inserted or deleted."""


class VersionedTable(Protocol):
    """A table whose log says, for each version, which files its rows lie in.

    It is made from the `SourceSpec`, whose `path` is the directory of the table. Files are never changed.
    """

    def row_type(self) -> Type:
        """The type of the rows in the version that is asked for, according to the log.

        Raises: UserError where there is no such table, or one that cannot be read.
        """

    def newest(self) -> int:
        """The newest version. Raises as `row_type` does."""

    def latest(self, start: Offset, most: int | None) -> Offset:
        """The version to read up to next: some versions after `start`, with about `most` files; `start` if there are
        none. From the beginning it is the newest version.

        Raises: UserError where the table is not that of `start`, or versions after that are gone.
        """

    def is_at(self, offset: Offset, end: Offset) -> bool:
        """Whether an offset has reached the version of another one. Raises as `row_type` does."""

    def changes(self, start: Offset, end: Offset) -> Sequence[ChangedFile]:
        """The files whose rows were inserted or deleted after `start` up to `end`; from the beginning, all files of the
        table at `end`.

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
"""The kinds of sources that are not files, by their names in a query and a `SourceSpec`. Adapters that come with the
package are given by module and name, so that what they need is loaded only when they are used."""


def open_table(spec: SourceSpec) -> VersionedTable:
    """The table of a source with a log."""
    assert spec.versioned
    assert spec.adapter is not None
    table: VersionedTable = _named(CONNECTORS[spec.adapter].adapter or "")(spec)
    return table


def found_row_type(spec: SourceSpec) -> Type:
    """The type of the rows of a stream, found by the function of its connector.

    Raises: UserError, EngineError as that function does.
    """
    assert spec.adapter is not None
    found: Type = _named(CONNECTORS[spec.adapter].row_type or "")(spec)
    return found


def abandoned(checkpoint: Path, offsets: Mapping[str, Offset], specs: Collection[SourceSpec]) -> Iterator[str]:
    """What servers still keep for streams of a checkpoint that are not read any more or, by their last offsets, are
    read from elsewhere: one message each, which says how to remove it.

    Raises: UserError where a note about it is damaged.
    """
    for connector in CONNECTORS.values():
        if connector.abandoned is not None:
            yield from _named(connector.abandoned)(checkpoint, offsets, specs)


def open_adapter(spec: SourceSpec) -> Adapter:
    """The adapter of a stream: one that comes with the package, or one named `package.module:name`, which may be a
    Python data source of Spark, or a reader of one.

    Raises: UserError where there is none of that name, or it cannot be made.
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
    """The object that `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


@attrs.frozen
class Reported:
    """An adapter of a user's own: its exceptions, and values that break the interface, become errors that name it."""

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
    """The same for a `Bounded` adapter."""

    def end(self, start: Offset) -> Any:
        assert isinstance(self.adapter, Bounded)
        with _reported(self.spec, "failed in `end`"):
            return self.adapter.end(start)

    def is_at(self, offset: Offset, end: Any) -> bool:
        assert isinstance(self.adapter, Bounded)
        with _reported(self.spec, "failed in `is_at`"):
            return self.adapter.is_at(offset, end)


def _checked(row: Any, spec: SourceSpec) -> tuple[Value, int]:
    """A row of an adapter, after checking that it is a value of the stream's type with a weight.

    Raises: UserError where it is something else.
    """
    match row:
        case (value, int() as weight) if weight and not isinstance(weight, bool) and conforms(value, spec.row):
            return value, weight
    what = f"where pairs of a value of type {spec.row} and a weight were expected"
    raise UserError(f"the adapter {spec.adapter} gave {reprlib.repr(row)}, {what}", spec.span)


@contextmanager
def _reported(spec: SourceSpec, what: str) -> Iterator[None]:
    """Turns what the code of an adapter raises into an error that names the adapter.

    Raises: UserError; EngineError where the adapter raises that.
    """
    try:
        yield
    except MrqlError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"the adapter {spec.adapter} {what}: {said_of(error)}", spec.span) from error


def _must_be_one(found: object, spec: SourceSpec) -> None:
    """Checks that an object is an adapter class before it is called: another one might do anything.

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
"""Directories with all rows of a source. It is not known when Spark reads them, so the end of the process removes
them."""


def everything(spec: SourceSpec) -> Portion:
    """All current rows of a source.

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
