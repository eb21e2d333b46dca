"""Unusual values that occur in real data, by kinds, and how answers over them are compared.

A history has values of one kind at most, since they hide each other: if there is a NaN, all sums are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TypeVar

import attrs

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.evaluate_measured import evaluate_measured
from mrql.algebra.terms import Term
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.parser.parser import parse_program
from mrql.rewrite.pipeline import normal_form
from mrql.verify.rounding import Rounding
from tests.support.histories import Batch, net

KINDS: Mapping[str, Mapping[str, tuple[Value, ...]]] = {
    "not finite": {"double": (math.nan, math.inf, -math.inf, 0.1), "float": (math.nan, math.inf, -math.inf, 0.25)},
    "zeros": {"double": (0.0, -0.0, 1e-3), "float": (0.0, -0.0)},
    "far apart": {"double": (0.1, 1e8, 1e8 + 0.1, 1e16, -1e16, 1e16 + 2)},
    "far apart and huge": {"double": (0.1, 1e16, 1e20, -1e27, 1e60, 1e60 + 1e50, -1e150)},
    "small and large": {
        "double": (5e-324, 2.2250738585072014e-308, 1e308, -1e308, 1.7976931348623157e308),
        "float": (2.0**-149, 2.0**127, -(2.0**127), (2 - 2.0**-23) * 2.0**127),
    },
    "extremes": {
        "int": (2**31 - 1, -(2**31), 2**30),
        "long": (2**63 - 1, -(2**63), 2**62, -(2**62), 2**53 + 1),
        "money": (Decimal("9999999999.99"), Decimal("-9999999999.99"), Decimal("5000000000.00"), Decimal("0.01")),
        "timestamp": (datetime.min, datetime.max, datetime.max - timedelta(microseconds=1)),
    },
    "texts": {"string": ("\ufffd", "\U0001f600", "\U0010ffff", "e\u0301", "\t", "null", "NaN")},
}
"""By kind, values of some basic types."""

OVERFLOWING = frozenset({"extremes"})
"""The kinds over which integers overflow."""

OVERFLOW = "overflow"
"""A word in the messages of all overflows."""

T = TypeVar("T")

Outcome = Value | UserError
"""A value, or the error instead of it."""


def outcome(compute: Callable[[], T]) -> T | UserError:
    try:
        return compute()
    except UserError as error:
        return error


def overflows_without_need(text: str, wild: str, *, gone: bool = False) -> bool:
    """Whether a batch may be refused because of an overflow of a term that the query as written does not compute.

    Keys, and conditions on one side of a join, are computed for rows without a partner, too; on Spark, terms over one
    input of a join alone are also computed for rows that are `gone` (decision 0022). No other terms are.
    """
    selects = [node for node in _nodes(parse_program(text)) if isinstance(node, syntax.Select)]
    joins = [select for select in selects if len(select.generators) > 1]
    linked = selects if len(selects) > 1 else joins
    computed = any(_computes(select.where, equalities=select not in joins) for select in linked)
    return wild in OVERFLOWING and (computed or bool((len(selects) > 1 or joins) and gone))


def _computes(condition: syntax.Expr | None, *, equalities: bool) -> bool:
    """Whether a condition has arithmetic in it, or with `equalities`, whether one of its equalities has."""
    if condition is None:
        return False
    if not equalities:
        return any(isinstance(n, syntax.Call) or _is_arithmetic(n) for n in _nodes(condition))
    equal = (n for n in _nodes(condition) if isinstance(n, syntax.Binary) and n.op in _EQUALITIES)
    sides = (side for key in equal for side in (key.left, key.right))
    return any(isinstance(part, syntax.Call) or _is_arithmetic(part) for side in sides for part in _nodes(side))


_EQUALITIES = (syntax.BinaryOp.EQUAL, syntax.BinaryOp.IN)
_ARITHMETIC = (syntax.BinaryOp.ADD, syntax.BinaryOp.SUBTRACT, syntax.BinaryOp.MULTIPLY, syntax.UnaryOp.NEGATE)


def _is_arithmetic(node: syntax.Node) -> bool:
    return isinstance(node, syntax.Binary | syntax.Unary) and node.op in _ARITHMETIC


def _nodes(node: syntax.Node) -> Iterator[syntax.Node]:
    yield node
    for child in syntax.children(node):
        yield from _nodes(child)


@attrs.frozen
class Oracle:
    """The expected answer to a query, over static tables and the rows that streams have received.

    A term that no value depends on need not be computed (docs/language.md): if the query as written has no value, its
    normal form may have one.
    """

    query: Term
    static: Mapping[str, Bag]
    streams: Sequence[str]
    shown: Callable[[Value], Value] = lambda value: value
    """The form in which answers are compared."""

    @classmethod
    def of(
        cls,
        query: Term,
        tables: Mapping[str, Sequence[Value]],
        streams: Sequence[str],
        shown: Callable[[Value], Value] = lambda value: value,
    ) -> Oracle:
        return cls(query, bags(tables), streams, shown)

    @cached_property
    def normal(self) -> Term:
        """The normal form, computed on demand: most queries have a value as written."""
        return normal_form(self.query)

    def answers(self, arrived: Sequence[Batch]) -> tuple[Outcome, Outcome, float]:
        """The answer to the query as written, the answer that it may have instead, and the size of its sums."""
        contents = self.static | net(arrived, self.streams)
        try:
            value, size = evaluate_measured(self.query, contents)
        except UserError as error:
            return error, outcome(lambda: self.shown(evaluate(self.normal, contents))), 0.0
        return self.shown(value), self.shown(value), size


def follow(
    apply: Callable[[Batch], object],
    answer: Callable[[], Value],
    oracle: Oracle,
    arriving: Sequence[Batch],
    rounding: Rounding,
    *,
    may_overflow: bool = False,
) -> None:
    """Applies batches to a view, and asserts that its answer is the expected one after each of them.

    If the query has no value, the batch is refused, or there is no answer. A refused batch changes nothing: the view
    goes on as if it had not arrived. With `may_overflow`, a batch may be refused for an overflow without need.
    """
    accepted: list[Batch] = []
    for n, batch in enumerate(arriving, start=1):
        if not _is_possible([*accepted, batch]):
            continue
        before, (wanted, besides, size) = outcome(answer), oracle.answers([*accepted, batch])
        known = attrs.evolve(rounding)
        rounding.seen(size)
        refused = _refusal(apply, batch)
        if refused is not None:
            is_right = isinstance(wanted, UserError) or (may_overflow and OVERFLOW in refused.message)
            is_right |= rounding.excuses(refused)
            assert is_right, f"batch {n} is refused: {refused.message}, not {_shown(wanted)}"
            rounding = known
            _require_equal(outcome(answer), before, rounding, f"batch {n}, which was refused,")
        else:
            accepted.append(batch)
            found = outcome(answer)
            is_error = isinstance(found, UserError)
            if not is_error and rounding.by_sides and isinstance(besides, UserError) and OVERFLOW in besides.message:
                continue  # a sum that is kept by sides has a value where one of its addends overflows
            if not (is_error and rounding.excuses(found)):
                _require_equal(found, wanted if is_error else besides, rounding, f"batch {n}")


def begun(make: Callable[[], T], value: Callable[[], Value], *, may_overflow: bool) -> T | None:
    """A view, or None if there is none because the query has no `value` over its tables alone."""
    made = outcome(make)
    if isinstance(made, UserError):
        is_right = isinstance(outcome(value), UserError) or (may_overflow and OVERFLOW in made.message)
        assert is_right, f"there is no view: {made.message}"
        return None
    return made


def _refusal(apply: Callable[[Batch], object], batch: Batch) -> UserError | None:
    try:
        apply(batch)
    except UserError as error:
        return error
    return None


def _is_possible(arrived: Sequence[Batch]) -> bool:
    """Whether the rows that the last batch deletes are there, and were not in a batch that was refused."""
    total: dict[str, ZSet] = {}
    for batch in arrived:
        for name, change in batch.changes().items():
            total[name] = total.get(name, ZSet()) + change
    return all(weight > 0 for rows in total.values() for _, weight in rows)


def _require_equal(found: Outcome, expected: Outcome, rounding: Rounding, when: str) -> None:
    if isinstance(expected, UserError):
        assert isinstance(found, UserError), f"after {when}: {_shown(found)}, not the error {expected.message}"
    else:
        assert not isinstance(found, UserError), f"after {when}: the error {_shown(found)}, not {_shown(expected)}"
        assert rounding.close(found, expected), f"after {when}: {_shown(found)}, not {_shown(expected)}"


def _shown(found: Outcome) -> str:
    return found.message if isinstance(found, UserError) else show_value(found)


def bags(tables: Mapping[str, Sequence[Value]]) -> dict[str, Bag]:
    """The rows of tables, in the form that the oracle takes."""
    return {name: Bag(rows) for name, rows in tables.items()}
