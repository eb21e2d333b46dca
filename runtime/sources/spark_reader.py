"""Python data sources of Spark as adapters: what `spark.dataSource.register` takes, without Spark.

https://spark.apache.org/docs/latest/api/python/tutorial/sql/python_data_source.html. Like an adapter, a reader says up
to which offset it can be read and which rows lie between two offsets; it is also told what was committed. It says only
once where it begins, so each offset here contains its initial one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote

import attrs
import pyarrow as pa

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.types import Type
from mrql.algebra.values import json_text
from mrql.algebra.values.decimals import of_type
from mrql.algebra.values.values import Bag, Record, Value
from mrql.runtime.engine.arrow import arrow_type
from mrql.runtime.engine.row_format import row_columns

INITIAL, OFFSET = "initial", "offset"
"""The fields of an offset: the initial offset of the reader, and the one that it has reached."""


def is_of_spark(found: object) -> bool:
    """Whether an object is a class of stream readers or data sources of Spark. If it is, their module is loaded."""
    known = _known()
    if known is None or not isinstance(found, type):
        return False
    return issubclass(found, (known.DataSource, known.DataSourceStreamReader, known.SimpleDataSourceStreamReader))


def _known() -> ModuleType | None:
    return sys.modules.get("pyspark.sql.datasource")


@attrs.define
class SparkReader:
    """A reader as an adapter, whose rows are all insertions."""

    reader: Any
    spec: SourceSpec
    initial: Any = None
    """The initial offset of the reader, once it was asked for."""
    committed: Any = None
    """The offset that was last committed to the reader."""

    @staticmethod
    def of(found: type, spec: SourceSpec) -> SparkReader:
        """The reader of a class: made by its data source, or as `Reader(schema, options)` or with fewer of these.

        Raises: whatever that raises; TypeError where the class takes other arguments.
        """
        known, schema, options = _known(), _schema(spec.row), _options(spec.path)
        assert known is not None
        if not issubclass(found, known.DataSource):
            return SparkReader(_made(found, schema, options), spec)
        source: Any = found(options)
        streams = type(source).streamReader is not known.DataSource.streamReader
        return SparkReader(source.streamReader(schema) if streams else source.simpleStreamReader(schema), spec)

    @property
    def replays(self) -> bool:
        """The reader's own `replays`, if it has one; otherwise whether its `commit` is the inherited one, which does
        nothing: a reader may forget what was committed, as Spark does not ask for it again."""
        known = _known()
        assert known is not None
        nothing = (known.DataSourceStreamReader.commit, known.SimpleDataSourceStreamReader.commit)
        return bool(getattr(self.reader, "replays", type(self.reader).commit in nothing))

    def latest(self, start: Any, most: int | None) -> Any:
        """An adapter is asked for the rows after an offset once that is committed, so here the reader is told of it."""
        if start is None:
            self.initial = self.reader.initialOffset() if self.initial is None else self.initial
            start = {INITIAL: self.initial, OFFSET: self.initial}
            end = self._end(self.initial, most)
            return None if end == self.initial else {**start, OFFSET: end}
        if start != self.committed:
            self.reader.commit(start[OFFSET])
            self.committed = start
        return {**start, OFFSET: self._end(start[OFFSET], most)}

    def _end(self, start: Any, most: int | None) -> Any:
        if self._is_simple:
            rows, end = self.reader.read(start)
            if end == start and next(iter(rows), None) is not None:
                raise ValueError("there are rows, and the offset after them is the one before them")
            return end
        if not inspect.signature(self.reader.latestOffset).parameters:  # the interface before Spark 4.2
            return self.reader.latestOffset()
        return self.reader.latestOffset(start, self._limit(most))

    @property
    def _is_simple(self) -> bool:
        known = _known()
        assert known is not None
        return isinstance(self.reader, known.SimpleDataSourceStreamReader)

    def _limit(self, most: int | None) -> Any:
        """The limit that the reader is given: its default one, lowered to `most` if it is a number of rows; no limit
        without `most`."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        limit = ReadAllAvailable() if most is None else self.reader.getDefaultReadLimit()
        return ReadMaxRows(min(most, limit.max_rows)) if isinstance(limit, ReadMaxRows) and most else limit

    def end(self, start: Any) -> None:
        """Prepares a reader that supports it to stop at what is there now, as Spark does for `Trigger.AvailableNow`."""
        if hasattr(self.reader, "prepareForTriggerAvailableNow"):
            self.reader.prepareForTriggerAvailableNow()

    def is_at(self, offset: Any, end: None) -> bool:
        """False: only the reader can compare offsets, so a run ends when the reader has nothing new."""
        return False

    def read(self, start: Any, end: Any) -> Iterator[tuple[Value, int]]:
        """The rows of all partitions."""
        if start == end:
            return
        begin = end[INITIAL] if start is None else start[OFFSET]
        for row in self._rows(begin, end[OFFSET]):
            yield _row(row, self.spec.row), 1

    def _rows(self, start: Any, end: Any) -> Iterator[Any]:
        if self._is_simple:
            yield from self.reader.readBetweenOffsets(start, end)
            return
        for partition in self.reader.partitions(start, end):
            for found in self.reader.read(partition):
                yield from found.to_pylist() if hasattr(found, "to_pylist") else (found,)

    def close(self) -> None:
        if not self._is_simple:
            self.reader.stop()


def _made(found: type, schema: Any, options: Any) -> Any:
    """A reader made without a data source, with as many of the arguments as its class takes."""
    for given in ((schema, options), (options,), ()):
        try:
            inspect.signature(found).bind(*given)
        except TypeError:
            continue
        return found(*given)
    raise TypeError(f"it is not made as {found.__name__}(schema, options); name its DataSource")


def _schema(row: Type) -> Any:
    """The type of the rows as a schema of Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([(name, arrow_type(t)) for name, t in row_columns(row)]))


def _options(text: str) -> Any:
    """The options in the text of a query: `path?option=value&option=value`, in which `%3F` is a `?`."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    path, _, others = text.partition("?")
    known = {"path": unquote(path)} if path else {}
    return CaseInsensitiveDict({**known, **dict(parse_qsl(others, keep_blank_values=True))})


# --- values -------------------------------------------------------------------------------------


def _row(row: Any, t: Type) -> Value:
    """A row of a reader as a value, with its columns found by name or by position."""
    names = [name for name, _ in row_columns(t)]
    if isinstance(t, ty.RecordType | ty.TupleType):
        return _value(row, t)
    (cell,) = _parts(row, names)
    return _value(cell, t)


def _value(value: Any, t: Type) -> Value:
    """A Python value, converted as Spark does. One that is not of the type is left as it is, and refused later."""
    match t:
        case _ if value is None:
            return None
        case ty.RecordType(fields):
            parts = zip(_parts(value, t.names), fields, strict=True)
            return Record({name: _value(part, item) for part, (name, item) in parts})
        case ty.TupleType(items):
            names = [name for name, _ in row_columns(t)]
            return tuple(_value(part, item) for part, item in zip(_parts(value, names), items, strict=True))
        case ty.BagType(item) if isinstance(value, list | tuple):
            return Bag(_value(part, item) for part in value)
        case ty.ListType(item) if isinstance(value, list | tuple):
            return [_value(part, item) for part in value]
        case ty.DecimalType() if isinstance(value, Decimal):
            return of_type(value, t) if value.is_finite() and of_type(value, t) == value else value
        case ty.BYTES if isinstance(value, bytearray):
            return bytes(value)
        case ty.ANY if isinstance(value, str):
            return json_text.document(json_text.read(value))
        case ty.TIMESTAMP if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case ty.DOUBLE | ty.FLOAT if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) if t == ty.DOUBLE else fn.to_single(float(value))
        case _:
            return value


def _parts(row: Any, names: tuple[str, ...] | list[str]) -> list[Any]:
    """The cells of a row, or of a struct in it, in the order of `names`.

    Raises: TypeError where it has other columns, or is not a row.
    """
    if isinstance(row, Mapping):
        found = dict(row)
    elif isinstance(row, tuple | list):
        found = dict(zip(getattr(row, "__fields__", names), row, strict=False)) if len(row) == len(names) else {}
    else:
        found = {}
    if found.keys() != {*names}:
        raise TypeError(f"{row!r} does not have the columns {', '.join(names)}")
    return [found[name] for name in names]
