"""The conditions on elements of a group that are pushed below the grouping, and those that are not."""

from __future__ import annotations

import pytest

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.printer import show
from mrql.algebra.terms import CoGroup, GroupBy, Term
from mrql.algebra.values.values import Bag, Record, close
from mrql.rewrite.pipeline import normal_form
from tests.support.incremental_cases import STREAMS

DATA = {
    "S": Bag([(1, 7), (1, 9), (2, -4), (7, 1), (3, 3)]),
    "T": Bag([(1, 3), (1, 5), (7, 2), (9, 9), (2, 8), (7, 7)]),
    "P": Bag([Record({"K": k, "V": v, "I": Bag([Record({"U": u}) for u in us])}) for k, v, us in
              [(1, 7, [1, 1]), (7, 1, []), (9, 1, [3])]]),
}  # fmt: skip

PUSHED = {
    "of a nested select": (
        "select a from (a, b) in S where exists(select d from (c, d) in T where c = a and d > 4)",
        "d > 4",
    ),
    "of the outer rows": (
        "select a from (a, b) in S where b > 0 and exists(select d from (c, d) in T where c = a)",
        "b > 0",
    ),
    "of a nested select that counts none": (
        "select (a, count(select d from (c, d) in T where c = a and d > 4)) from (a, b) in S",
        "d > 4",
    ),
    "of a total of a group": (
        "select p.K from p in P where exists(select k from (k, s) in "
        "(select (c, sum(d)) from (c, d) in T group by c) where k = p.K and s > 7)",
        "reduce(+, s) > 7",
    ),
    "through two nested selects": (
        "select a from (a, b) in S where exists(select c from (c, d) in T where c = a and "
        "exists(select p.V from p in P where p.K = d and p.V > 0))",
        "p.V > 0",
    ),
}
"""Queries, and the condition that is pushed to the source."""


@pytest.mark.parametrize(("text", "condition"), PUSHED.values(), ids=PUSHED.keys())
def test_what_is_asked_of_one_element_is_asked_in_the_source(text: str, condition: str) -> None:
    term = mrql.compile(text, **STREAMS).term
    found = normal_form(term)
    assert any(condition in show(side) for side in _grouped(found)), show(found)
    assert close(evaluate(found, DATA), evaluate(term, DATA))


KEPT = {
    "a part of a group beside the whole": "select (a, count(select d from (c, d) in T where c = a and d > 4), "
    "count(select d from (c, d) in T where c = a)) from (a, b) in S",
    "of both sides": "select a from (a, b) in S where exists(select d from (c, d) in T where c = a and d > b)",
    "what may fail": "select a from (a, b) in S where exists(select d from (c, d) in T where c = a and 10 / d > 1)",
    "what may leave its range": "select a from (a, b) in S where exists("
    "select d from (c, d) in T where c = a and d + 1 > 4)",
    "of a group that is in the answer without elements, too": "select (a, count(select b from b in bs where b > 4)) "
    "from (a, bs) in (select (a, b) from (a, b) in S group by a)",
}
"""Queries with one comparison that stays where it is."""


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT.keys())
def test_a_condition_stays(text: str) -> None:
    term = mrql.compile(text, **STREAMS).term
    found = normal_form(term)
    assert " > " in show(found)
    assert not any(" > " in show(side) for side in _grouped(found)), show(found)
    assert close(evaluate(found, DATA), evaluate(term, DATA))


def _grouped(term: Term) -> list[Term]:
    """The sources of groupBys, and the sides of joins."""
    found = list[Term]()
    for part in subterms(term):
        match part:
            case CoGroup(left, right):
                found += [left, right]
            case GroupBy(source):
                found.append(source)
    return found
