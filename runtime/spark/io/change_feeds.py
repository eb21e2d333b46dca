"""DataFrames whose rows are changes (`runtime.sources.formats.envelopes`), as what comes and what goes."""

from __future__ import annotations

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from mrql.algebra import types as ty
from mrql.algebra.envelope import Envelope
from mrql.algebra.errors import UserError
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import Type
from mrql.runtime.sources.formats.envelopes import ENVELOPES
from mrql.runtime.spark.expressions.layout import quote


@attrs.frozen
class ChangeFeed:
    """A DataFrame of changes, each in an envelope."""

    name: str
    """The stream that they are of, as errors have it."""
    df: DataFrame
    envelope: Envelope
    row: ty.RecordType

    @staticmethod
    def of(name: str, df: DataFrame, row: Type) -> ChangeFeed | None:
        """The changes of rows of a type, where that is what a DataFrame has: a column that says what has happened, and
        is no field of the rows."""
        if not isinstance(row, ty.RecordType):
            return None
        for envelope in ENVELOPES.values():
            needed = {envelope.op, *(side for side in (envelope.before, envelope.after) if side is not None)}
            if needed <= {*df.columns} - {*row.names}:
                return ChangeFeed(name, df, envelope, row)
        return None

    def come(self) -> DataFrame:
        """The rows that come.

        Raises: UserError where a row cannot be found in a change.
        """
        return self._side(self.envelope.after, self.envelope.comes)

    def gone(self, *, keyed: bool) -> DataFrame:
        """The rows that go; with a key, those of which only the key is looked at.

        Raises: UserError where a row cannot be found in a change.
        """
        return self._side(self.envelope.before, self.envelope.taken_away(keyed=keyed))

    def _side(self, side: str | None, kinds: frozenset[str]) -> DataFrame:
        rows = self.df.where(self._is_one(side, kinds))
        if side is None:
            return rows
        have = self.df.schema[side].dataType
        if not isinstance(have, spark_types.StructType):
            raise UserError(
                f"`{side}` of the changes of `{self.name}` is no struct", hint="from_json makes one of a text"
            )
        columns = [f"{quote(side)}.{quote(field)} AS {quote(field)}" for field in have.names]
        for field in self.row.names:
            if field in self.envelope.metadata:
                columns.append(f"{'.'.join(map(quote, self.envelope.metadata[field]))} AS {quote(field)}")
        return rows.selectExpr(*columns)

    def _is_one(self, side: str | None, kinds: frozenset[str]) -> str:
        """Whether a change is of some kinds; an error where it is of none that there is, or lacks the row."""
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
            f"CASE WHEN {op} IN ({_texts(kinds)}) THEN {there} "
            f"WHEN {op} IN ({_texts(self.envelope.known)}) THEN false ELSE {unknown} END"
        )


def _raised(message: str, value: str) -> str:
    return f"CAST(raise_error(concat({text_sql(message)}, {value})) AS BOOLEAN)"


def _texts(kinds: frozenset[str]) -> str:
    return ", ".join(map(text_sql, sorted(kinds)))
