"""Aggregations whose elements may leave their range, and what is kept of them for groups that are not asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.terms import Lit, Prim, Reduce, Term
from mrql.algebra.values.values import Bag, Value, same
from mrql.rewrite.analysis.guarded_aggregates import attempted, computes_out_of_range

PAIRS = ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))
AGGREGATIONS = (
    "reduce(+, cMap(λ(a, b). {a + b}, s))",
    "reduce(+, cMap(λ(a, b). {a * b - 1L}, s))",
    "reduce(+, cMap(λ(a, b). {-a}, s))",
    "reduce(+, cMap(λ(a, b). {(a * b) as double}, s))",
    "reduce(max, cMap(λ(a, b). {a * a}, s))",
    "reduce(min, cMap(λ(a, b). {a - b}, s))",
    "reduce(∨, cMap(λ(a, b). {a + b > 3L}, s))",
    "reduce(∧, cMap(λ(a, b). {not (a * 2L < b)}, s))",
    "reduce(+, cMap(λ(a, b). if a + 1L > 2L then {b} else {}:{long}, s))",
    "reduce(+, cMap(λ(a, b). if a > 0L and b * 2L > 2L then {b + a} else {a - 1L}, s))",
    "reduce(+, cMap(λ(a, b). if a = 1L or b * a > 2L then {1L} else {}:{long}, s))",
    "reduce(+, cMap(λ(a, b). if is_null(a + b) then {1L} else {b}, s))",
    "reduce(max, cMap(λ(a, b). {a + 1L} ⊎ {b}, s))",
)
NUMBERS = st.sampled_from([None, 0, 1, 2, -1, 2**62, 2**63 - 1, -(2**63)])


def found(term: Term, rows: Bag) -> Value:
    """The value, or "an overflow" if there is none."""
    try:
        return evaluate(term, {"s": rows})
    except UserError:
        return "an overflow"


@pytest.mark.parametrize("text", AGGREGATIONS)
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4).map(Bag))
def test_an_aggregation_is_an_overflow_where_one_of_its_elements_is(text: str, rows: Bag) -> None:
    term = parse(text, {"s": PAIRS})
    assert computes_out_of_range(term)
    kept = attempted(term)
    assert kept is not None
    total = kept.total if kept.missing is None else Prim(fn.NONE_MISSING, (kept.total, kept.missing))
    expected = found(term, rows)
    assert same(found(total, rows), expected)


@pytest.mark.parametrize("text", AGGREGATIONS)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4).map(Bag))
def test_what_is_kept_does_not_fail(text: str, rows: Bag) -> None:
    kept = attempted(parse(text, {"s": PAIRS}))
    assert kept is not None
    assert isinstance(kept.total, Reduce)
    elements = [kept.total.source, *([] if kept.missing is None else [kept.missing])]
    assert "an overflow" not in [found(element, rows) for element in elements]


@pytest.mark.parametrize(
    "text",
    [
        "reduce(max, cMap(λ(a, b). {abs(a - b)}, s))",
        "cMap(λ(a, b). {a + b}, s)",
        "reduce(+, cMap(λ(a, b). {reduce(+, {a} ⊎ {b})}, s))",
    ],
)
def test_other_aggregations_are_not_attempted(text: str) -> None:
    assert attempted(parse(text, {"s": PAIRS})) is None


def test_a_sum_of_sums_is_kept() -> None:
    """A sum of sums is kept as a sum, though it may overflow for a group that is not asked for."""
    term = parse("reduce(+, cMap(λx. {reduce(+, x)}, s))", {"s": ty.BagType(ty.BagType(ty.LONG))})
    assert not computes_out_of_range(term)


def test_none_missing_of_any_type() -> None:
    assert evaluate(Prim(fn.NONE_MISSING, (Lit(True, ty.BOOL), Lit(0, ty.LONG)))) is True
    with pytest.raises(UserError, match="integer overflow"):
        evaluate(Prim(fn.NONE_MISSING, (Lit("a", ty.STRING), Lit(2, ty.LONG))))
