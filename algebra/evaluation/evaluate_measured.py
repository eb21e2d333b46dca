"""The reference evaluator with a bound on the rounding errors of its sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mrql.algebra import monoids
from mrql.algebra.evaluation.evaluate import Evaluator
from mrql.algebra.stack import deep
from mrql.algebra.terms import Reduce, Term
from mrql.algebra.types import DOUBLE
from mrql.algebra.values.measured import measured
from mrql.algebra.values.values import Bag, Value


@deep
def evaluate_measured(term: Term, streams: Mapping[str, Bag]) -> tuple[Value, float]:
    """The value of a term, in which sums of doubles are measured, and their largest scale, 0 if there are none.

    A scale bounds the difference that rounding makes for the same sum in another order (`values.close`).

    Raises: UserError as `evaluate` does.
    """
    evaluator = _Measuring(streams)
    return evaluator.value(term, {}), evaluator.largest


class _Measuring(Evaluator):
    """Measures the sums of doubles, and keeps the largest scale."""

    def __init__(self, streams: Mapping[str, Bag]) -> None:
        super().__init__(streams)
        self.largest = 0.0

    def reduce(self, term: Reduce, elements: Iterable[Value]) -> Value:
        if term.monoid != monoids.SUM or term.type != DOUBLE:
            return super().reduce(term, elements)
        addends = list(elements)
        found = measured(super().reduce(term, addends), addends)
        self.largest = max(self.largest, found.scale)
        return found
