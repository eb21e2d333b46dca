"""A groupBy, and each side of a join, holds only the parts that are used, and aggregations instead of groups."""

from __future__ import annotations

import pytest

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.terms import CoGroup, element_type
from mrql.algebra.values.values import Bag, Record, close
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.normalize.prune_columns import prune_columns
from mrql.rewrite.pipeline import normal_form
from tests.support.incremental_cases import STREAMS

TOTALS = "totals = select <k: k, sum: sum(b), most: max(b)> from (a, b) in S group by k: a; "
SMALL = {
    "a sum that is compared and shown": TOTALS
    + "select (p.K, r.sum) from p in P, r in totals where r.k = p.K and r.sum > 3",
    "several aggregations": TOTALS + "select (p.K, r.sum, r.most) from p in P, r in totals where r.k = p.K",
    "two groups": TOTALS + "select (r.sum, q.most) from r in totals, q in totals where r.k = q.k and r.sum <> q.most",
    "through two joins": TOTALS
    + "select (p.K, r.sum) from p in P, r in totals, (c, d) in T where r.k = p.K and c = p.V and d < r.sum",
    "a count of nested bags": "select (a, count(p.I)) from (a, b) in S, p in P where b = p.K",
    "under a condition of its own": "select a from (a, b) in S, r in (select (k, s) from (k, s) in "
    "(select (c, (select d from (c1, d) in T where c1 = c)) from (c, e) in T group by c)) where a = r#0 and "
    "b > count(select x from x in r#1 where x > 2)",
}
"""Joins with groups of which only aggregations are used."""
DATA = {
    "S": Bag([(1, 7), (1, 9), (2, -4), (7, 1)]),
    "T": Bag([(1, 3), (1, 5), (7, 2), (9, 9)]),
    "P": Bag([Record({"K": k, "V": v, "I": Bag([Record({"U": u}) for u in us])}) for k, v, us in
              [(1, 7, [1, 1]), (7, 1, []), (9, 1, [3])]]),
}  # fmt: skip


@pytest.mark.parametrize("text", SMALL.values(), ids=SMALL.keys())
def test_a_group_is_aggregated_before_it_is_joined(text: str) -> None:
    """No side of a join holds a group, and the query means the same."""
    term = mrql.compile(text, **STREAMS).term
    found = normal_form(term)
    for part in subterms(found):
        if isinstance(part, CoGroup):
            assert not any(ty.has_collection(element_type(side)) for side in (part.left, part.right))
    assert close(evaluate(found, DATA), evaluate(term, DATA))


WHOLE = {
    "the group is an answer, too": TOTALS.replace("<k: k,", "<k: k, all: b,")
    + "select (r.all, r.sum) from p in P, r in totals where r.k = p.K and r.sum > 3",
    "an aggregation that may fail": "select p.K from p in P, r in (select (a, b) from (a, b) in S group by a) "
    "where r#0 = p.K and p.V < sum(select 10 / x from x in r#1)",
    "an aggregation of both sides": "select count(select x from x in r#1 where x > p.V) from p in P, "
    "r in (select (a, b) from (a, b) in S group by a) where r#0 = p.K",
}
"""Joins that need the group itself."""


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE.keys())
def test_a_group_that_is_needed_stays(text: str) -> None:
    """A group that the query needs itself, or aggregates only for partners, is joined as it is."""
    term = mrql.compile(text, **STREAMS).term
    found = normal_form(term)
    sides = [side for part in subterms(found) if isinstance(part, CoGroup) for side in (part.left, part.right)]
    assert any(ty.has_collection(element_type(side)) for side in sides)
    assert close(evaluate(found, DATA), evaluate(term, DATA))


def test_what_is_no_longer_used_does_not_come_back() -> None:
    """`prune_columns` does not change its own result."""
    term = normal_form(mrql.compile(SMALL["through two joins"], **STREAMS).term)
    assert prune_columns(term) == term


LETS = {
    "let r = <A: x * x, B: x> in if r.A > 1L then {r.A + r.B} else {}:{long}": (
        "let A = x * x in if A > 1L then {A + x} else {}:{long}"
    ),
    "let (a, b) = (<A: x * x>, x) in {a.A + a.A + b}": "let A = x * x in {A + A + x}",
    "let r = (x, <A: (x * x, x)>) in {r#1.A#0 + r#1.A#0}": "let v = x * x in {v + v}",
    "let r = <A: x * x> in {(r, r)}": "let A = x * x in {(<A: A>, <A: A>)}",
    "let A = x + 1L in let r = <A: A * A> in {r.A + r.A + A}": (
        "let A = x + 1L in let A1 = A * A in {A1 + A1 + A}"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), LETS.items())
def test_a_let_of_parts(text: str, wanted: str) -> None:
    """A `let` of a tuple or record becomes one of the parts that are used."""
    assert normalize(parse(text, {}, {"x": ty.LONG})) == parse(wanted, {}, {"x": ty.LONG})
