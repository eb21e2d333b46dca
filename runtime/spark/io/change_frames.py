"""DataFrames whose rows are changes (`runtime.sources.formats.envelopes`), as insertions and deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from mrql.algebra import types as ty
from mrql.algebra.envelope import Envelope
from mrql.algebra.errors import UserError
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import Type
from mrql.runtime.sources.formats.envelopes import ENVELOPES
from mrql.runtime.spark.expressions.layout import quote
from mrql.runtime.spark.io.arrow_frames import column_names, parts_of_column, spark_frame


@attrs.frozen
class Wrapping:
    """How a frame holds changes: their envelope, and the column that contains it, where its fields are not columns."""

    envelope: Envelope
    inside: str | None = None

    @property
    def column(self) -> str:
        """The column by which a frame is known to be one of changes."""
        return self.inside or self.envelope.op


def wrapping_of(rows: DataFrame | Any, row: Type) -> Wrapping | None:
    """How a frame holds changes of rows of a type; None where it does not. It does if it has the fields of an envelope
    as columns, or as fields of a struct `payload`, and none of them is a field of the rows.

    Only columns are looked at, in Spark or in this process, and the values of a column `payload` of pandas.
    """
    if not isinstance(row, ty.RecordType):
        return None
    if isinstance(rows, DataFrame):
        return _wrapping(rows.columns, lambda column: _parts(rows, column), row)
    return _wrapping(column_names(rows), lambda column: parts_of_column(rows, column), row)


def _wrapping(columns: Collection[str], parts: Callable[[str], Collection[str]], row: ty.RecordType) -> Wrapping | None:
    others = {*columns} - {*row.names}
    for envelope in ENVELOPES.values():
        if envelope.fields <= others:
            return Wrapping(envelope)
    for envelope in ENVELOPES.values():
        inside = envelope.payload
        if inside in others and envelope.op not in others and envelope.fields <= {*parts(inside)} - {*row.names}:
            return Wrapping(envelope, inside)
    return None


def _parts(df: DataFrame, column: str) -> Collection[str]:
    """The fields of a column that is a struct."""
    types = [field.dataType for field in df.schema.fields if field.name == column]
    return types[0].names if len(types) == 1 and isinstance(types[0], spark_types.StructType) else ()


def _looked_at(wrapping: Wrapping, columns: Collection[str], row: ty.RecordType) -> ty.RecordType:
    """The columns of a frame that are read, as a record, with the types of those that are part of the row."""
    if wrapping.inside is not None:
        return ty.RecordType(((wrapping.inside, ty.UNIT),))
    fields = dict(wrapping.envelope.whole(row).fields)
    more = [(name, ty.UNIT) for name in columns if name in wrapping.envelope.beside and name not in fields]
    return ty.RecordType((*fields.items(), *more))


@attrs.frozen
class ChangeFeed:
    """A DataFrame of changes, each in an envelope."""

    name: str
    """The name of the stream, for error messages."""
    df: DataFrame
    envelope: Envelope
    row: ty.RecordType

    @staticmethod
    def of(name: str, rows: DataFrame | Any, wrapping: Wrapping, row: Type, spark: SparkSession) -> ChangeFeed:
        """The changes of rows of a type in a frame, of Spark or in this process, as `wrapping` says (`wrapping_of`).

        Raises: UserError where a column is missing, or cannot be given to Spark.
        """
        assert isinstance(row, ty.RecordType)
        envelope, inside = wrapping.envelope, wrapping.inside
        if not isinstance(rows, DataFrame):
            rows = spark_frame(rows, _looked_at(wrapping, column_names(rows), row), f"`{name}`", spark)
        return ChangeFeed(name, rows if inside is None else rows.selectExpr(f"{quote(inside)}.*"), envelope, row)

    def come(self) -> DataFrame:
        """The rows that are inserted.

        Raises: UserError where a row cannot be found in a change.
        """
        return self._side(self.envelope.after, self.envelope.comes)

    def gone(self, *, keyed: bool) -> DataFrame:
        """The rows that are deleted; if `keyed`, only by changes after which there is no row with the key.

        Raises: UserError where a row cannot be found in a change.
        """
        return self._side(self.envelope.before, self.envelope.taken_away(keyed=keyed))

    def _side(self, side: str | None, kinds: frozenset[str]) -> DataFrame:
        rows = self.df.where(self._is_one(side, kinds))
        if side is None:
            return rows
        columns = [f"{sql} AS {quote(field)}" for field, sql in self._fields_of(side).items()]
        for field in self.row.names:
            if field in self.envelope.metadata:
                columns.append(f"{self._metadata(self.envelope.metadata[field])} AS {quote(field)}")
        return rows.selectExpr(*columns)

    def _fields_of(self, side: str) -> dict[str, str]:
        """The fields of the row before or after, in SQL. A column without a type, such as one of pandas in which all
        values are missing, has no row."""
        have = self.df.schema[side].dataType
        if isinstance(have, spark_types.NullType):
            return dict.fromkeys(self.envelope.inner(self.row).names, "NULL")
        if isinstance(have, spark_types.StructType):
            return {field: f"{quote(side)}.{quote(field)}" for field in have.names}
        raise UserError(f"`{side}` of the changes of `{self.name}` is no struct", hint="from_json makes one of a text")

    def _metadata(self, path: tuple[str, ...]) -> str:
        """A field of the change that the row asks for, in SQL."""
        column, *inside = path
        if column not in self.df.columns:
            hint = f"its columns: {', '.join(self.df.columns)}"
            raise UserError(f"the changes of `{self.name}` have no column `{column}`", hint=hint)
        have = self.df.schema[column].dataType
        if isinstance(have, spark_types.NullType):
            return "NULL"
        if inside and not (isinstance(have, spark_types.StructType) and inside[0] in have.names):
            raise UserError(f"`{column}` of the changes of `{self.name}` has no field `{inside[0]}`")
        return ".".join(map(quote, path))

    def _is_one(self, side: str | None, kinds: frozenset[str]) -> str:
        """Whether a change is of one of some kinds; an error where its kind is unknown, or it lacks the row."""
        op = quote(self.envelope.op)
        known = ", ".join(sorted(self.envelope.known))
        unknown = _raised(
            f"`{self.envelope.op}` of a change of `{self.name}` is none of {known}: ", f"coalesce({op}, 'NULL')"
        )
        there = "true"
        if side is not None:
            lacking = _raised(f"a change of `{self.name}` without `{side}`: ", op)
            there = f"if({quote(side)} IS NULL, {lacking}, true)"
        return (
            f"CASE WHEN {self._is_tombstone()} THEN false WHEN {op} IN ({_texts(kinds)}) THEN {there} "
            f"WHEN {op} IN ({_texts(self.envelope.known)}) THEN false ELSE {unknown} END"
        )

    def _is_tombstone(self) -> str:
        """Whether a change is the message without a value that Debezium writes after a deletion: `from_json` makes a
        row of nulls of it."""
        if self.envelope.payload is None:
            return "false"
        of_changes = {*self.envelope.whole(self.row).names, *self.envelope.beside}
        return " AND ".join(f"{quote(column)} IS NULL" for column in self.df.columns if column in of_changes)


def _raised(message: str, value: str) -> str:
    return f"CAST(raise_error(concat({text_sql(message)}, {value})) AS BOOLEAN)"


def _texts(kinds: frozenset[str]) -> str:
    return ", ".join(map(text_sql, sorted(kinds)))
