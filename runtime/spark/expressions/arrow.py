"""Values of the language in Arrow's columns, and terms evaluated over batches of them.

This is what Spark's Python workers run. A tuple is a struct of `_1`, `_2`, …, one without parts is `true`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.span import Span
from mrql.algebra.terms import PVar, Term
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import unsigned
from mrql.algebra.values.values import Document, Value
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import labels

_BASIC = {
    ty.BOOL: "bool_",
    ty.INT: "int32",
    ty.LONG: "int64",
    ty.FLOAT: "float32",
    ty.DOUBLE: "float64",
    ty.STRING: "string",
    ty.DATE: "date32",
    ty.ANY: "string",
    ty.XML: "string",
    ty.NOTHING: "bool_",
}


def arrow_type(t: Type) -> Any:
    """The Arrow type of a type."""
    import pyarrow as pa

    match t:
        case ty.TIMESTAMP:
            return pa.timestamp("us")
        case ty.Basic(ty.Kind.DATA):
            return pa.string()
        case ty.Basic() | ty.Nothing():
            return getattr(pa, _BASIC[t])()
        case ty.BagType(item) | ty.ListType(item):
            return pa.list_(arrow_type(item))
        case ty.TupleType(()) | ty.RecordType(()):
            return pa.bool_()
        case _:
            return pa.struct([pa.field(name, arrow_type(item)) for name, item in labels(t)])


def to_plain(value: Value, t: Type) -> object:
    """A value as Arrow takes it."""
    if value is None:
        return None
    match t:
        case ty.TupleType(()) | ty.RecordType(()):
            return True
        case ty.TupleType(items):
            parts = zip(labels(t), value, items, strict=True)
            return {name: to_plain(v, item) for (name, _), v, item in parts}
        case ty.RecordType(fields):
            return {name: to_plain(value[name], item) for name, item in fields}
        case ty.BagType(item) | ty.ListType(item):
            return [to_plain(v, item) for v in value]
        case ty.DOUBLE | ty.FLOAT:
            return unsigned(value)
        case _:
            return value.text if isinstance(value, Document) else value


@attrs.frozen
class OverArrow:
    """A term as a function of the columns that hold its free variables."""

    term: Term
    params: tuple[PVar, ...]

    def function(self) -> Callable[..., Any]:
        """The function, from Arrow arrays to one. Without variables it is given a column all the same."""

        def evaluated(*columns: Any) -> Any:
            import pyarrow as pa

            result = [to_plain(self._value(row), self.term.type) for row in zip(*map(_values, columns), strict=True)]
            return pa.array(result, arrow_type(self.term.type))

        # PySpark reads in annotations what a function takes, if there are any.
        evaluated.__annotations__.clear()
        return evaluated

    def _value(self, row: tuple[Any, ...]) -> Value:
        env = {p.name: from_spark(value, p.type) for p, value in zip(self.params, row, strict=False)}
        try:
            return evaluate(self.term, {}, env)
        except UserError as error:
            raise RuntimeError(_sent(error)) from None


def _values(column: Any) -> Any:
    return column.to_pylist()


_ERROR = re.compile(r"⟦mrql (\{.*?\})⟧")


def _sent(error: UserError) -> str:
    """An error on its way from a Python worker, on one line."""
    span = error.span
    place = None if span is None else [span.start, span.end, span.source.name if span.source.included else None]
    return f"⟦mrql {json.dumps({'message': error.message, 'place': place, 'hint': error.hint})}⟧"


def received(text: str, source_of: Callable[[str | None], Any]) -> UserError | None:
    """The error of the query in what Spark says of a failed worker, if there is one.

    `source_of` gives the text of an included file by its name, and that of the query for None.
    """
    found = _ERROR.search(text)
    if found is None:
        return None
    said = json.loads(found[1])
    span = None
    if said["place"] is not None:
        start, end, file = said["place"]
        source = source_of(file)
        span = None if source is None else Span(source, start, end)
    return UserError(said["message"], span, said["hint"])
