"""Terms evaluated over batches of Arrow's columns: what Spark's Python workers run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa

from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.span import Span
from mrql.algebra.terms import PVar, Term
from mrql.algebra.values.values import Value
from mrql.runtime.engine.arrow import arrow_type, to_plain
from mrql.runtime.spark.expressions.from_spark import from_spark


@attrs.frozen
class OverArrow:
    """A term as a function of the columns that hold its free variables."""

    term: Term
    params: tuple[PVar, ...]

    def function(self) -> Callable[..., Any]:
        """The function, from Arrow arrays to one. A term without variables is given one column all the same."""

        def evaluated(*columns: Any) -> Any:
            result = [to_plain(self._value(row), self.term.type) for row in zip(*map(_values, columns), strict=True)]
            return pa.array(result, arrow_type(self.term.type))

        # PySpark derives the types of the arguments from annotations, if there are any.
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
    """The text, on one line, by which a Python worker passes on an error."""
    span = error.span
    place = None if span is None else [span.start, span.end, span.source.name if span.source.included else None]
    return f"⟦mrql {json.dumps({'message': error.message, 'place': place, 'hint': error.hint})}⟧"


def received(text: str, source_of: Callable[[str | None], Any]) -> UserError | None:
    """The error of the query in Spark's message about a failed worker, if it has one.

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
