"""A definition by `let`, or in a `from`, is inlined or kept: the answer is the same."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Record, close
from mrql.rewrite.normalize import growth
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.reference.view import ReferenceView
from tests.support.histories import histories, net
from tests.support.planning import planned

R = {"R": "bag(<k: long, v: long>)"}
LONGS = st.none() | st.integers(-2, 3)
ROWS = {"R": st.builds(lambda k, v: Record({"k": k, "v": v}), LONGS, LONGS)}


def totals(n: int) -> str:
    lets = "".join(f"let a{i} = a{i - 1} + a{i - 1} in " for i in range(1, n + 1))
    return f"let a0 = sum(R.v) in {lets}select r.k from r in R where r.v < a{n}"


def selects(n: int) -> str:
    """Each definition reads the one before twice."""
    made = "select (k, a) from (k, a) in v{0} where a > avg(select b from (j, b) in v{0})"
    lets = "".join(f"let v{i} = ({made.format(i - 1)}) in " for i in range(1, n + 1))
    return f"let v0 = (select (r.k, r.v) from r in R) in {lets}select k from (k, a) in v{n}"


def of_each_row(n: int) -> str:
    names = "".join(f", a{i} = a{i - 1} + a{i - 1}" for i in range(1, n + 1))
    return f"select (r.k, a{n}) from r in R, a0 = sum(select q.v from q in R where q.k = r.k){names}"


def of_a_pair(n: int) -> str:
    """The parts of a tuple get names of their own."""
    pair = "((select (r.k, r.v) from r in R), (select r.v from r in R))"
    return f"let (a, b) = {pair} in select (x, sum(b), count(a)) from (x, y) in a where y in b and y < {n} group by x"


SHAPES = (totals, selects, of_each_row, of_a_pair)


def term(text: str) -> Term:
    return mrql.compile(text, **R).term


def size(found: Term) -> int:
    return sum(1 for _ in subterms(found))


@pytest.mark.parametrize("shape", SHAPES[:3], ids=lambda shape: shape.__name__)
def test_names_of_names_do_not_grow_by_powers_of_two(shape: Callable[[int], str]) -> None:
    """Ten more names add about the same number of parts to the normal form, at any length."""
    grown = [size(normal_form(term(shape(n)))) for n in (20, 30, 40)]
    assert grown[2] - grown[1] <= grown[1] - grown[0] + 5 < 1_000
    assert len(planned(term(shape(40))).plan.stages) < 20


@pytest.mark.parametrize("most", [0, 60, growth.INLINED_MAX_PARTS])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_they_mean_the_same(shape: Callable[[int], str], most: int, data: st.DataObject) -> None:
    query = term(shape(3))
    with patch.object(growth, "INLINED_MAX_PARTS", most):
        normal, view = normal_form(query), ReferenceView(planned(query).plan)
    history = data.draw(histories(ROWS, deletions=True, largest=3))
    for n, batch in enumerate(history, start=1):
        view.apply(batch.changes())
        rows = net(history[:n], ROWS)
        assert close(evaluate(normal, rows), evaluate(query, rows))
        assert close(view.answer(), evaluate(query, rows))
