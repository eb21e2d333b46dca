"""A part of a term that may fail for some data keeps its place in the query through all passes, up to the plan."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import mrql
from mrql.algebra.analysis.integer_ranges import may_overflow
from mrql.algebra.analysis.traversal import children, subterms
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import PLUS, TIMES
from mrql.algebra.terms import Cast, Lit, Prim, Term, Var
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.plan import Plan
from tests.support.cases import Case, cases
from tests.support.incremental_cases import CONSTRUCTS, STREAMS, Construct
from tests.support.planning import planned

SUMS_OF_PRODUCTS = (
    "sum(select a * b from (k, a) in S, (l, b) in T where k = l)",
    "sum(select a * b from (k, a) in S, (l, b) in S where k = l)",
    "select (k, sum(a * b)) from (k, a) in S, (l, b) in T where k = l group by k",
    "select (k, sum(a + b), sum(a - b * 2)) from (k, a) in S, (l, b) in T where k = l group by k",
    "aggregation p(\\(x, y). x + y, 0, \\x. 10 / x, \\x. -x): long; p(select b from (a, b) in S)",
    "select (k, histogram(a, 10)) from (k, a) in S group by k",
    "histogram((select 1.0 / a from (k, a) in S), 0.5)",
)


def terms_of(plan: Plan) -> Iterator[Term]:
    yield plan.answer
    for derived in plan.derived:
        yield derived.term
    for stage in plan.stages:
        for feed in stage.feeds:
            yield feed.rows.body
            yield from (unit for _, unit in feed.units)
            yield from (read.term for read in feed.rows.inputs)


def without_a_place(term: Term) -> list[Term]:
    """The parts without a place that may fail or overflow by themselves, and not because of a part inside them."""
    return [
        part
        for part in subterms(term)
        for fails in (may_fail, may_overflow)
        if isinstance(part, Prim | Cast) and part.span is None
        if fails(part) and not any(map(fails, children(part)))
    ]


def counts(part: Term) -> bool:
    """Whether it is a number of rows or of the steps of a loop, which only plans contain: no data make it overflow."""
    return isinstance(part, Prim) and part.function in (PLUS, TIMES) and {type(arg) for arg in part.args} <= {Var, Lit}


def assert_all_have_places(term: Term) -> None:
    assert without_a_place(term) == []
    assert without_a_place(normal_form(term)) == []
    for part in terms_of(planned(term).plan):
        assert [found for found in without_a_place(part) if not counts(found)] == []


@pytest.mark.parametrize("text", SUMS_OF_PRODUCTS)
def test_sums_that_are_kept_in_parts(text: str) -> None:
    assert_all_have_places(mrql.compile(text, **STREAMS).term)


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_each_construct(construct: Construct) -> None:
    assert_all_have_places(mrql.compile(construct.query, **STREAMS).term)


@pytest.mark.parametrize("case", [case for case in cases() if case.error is None], ids=lambda case: case.name)
def test_each_case(case: Case) -> None:
    assert_all_have_places(case.compiled.term)
