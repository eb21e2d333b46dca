"""What is known of the values in the states of a plan holds for the states of the reference engine."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.analysis.missing import Known
from mrql.algebra.values.values import Bag, Record, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import PlanOptions, plan_query
from mrql.rewrite.plan.known_states import known_states
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.view import ReferenceView
from tests.support import loop_queries
from tests.support.queries import STREAMS, histories, queries, streams_of

few = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def is_as(value: Value, known: Known) -> bool:
    """Whether a value is as it is known to be."""
    match value:
        case None:
            return known.missing
        case tuple():
            return all(is_as(part, known.part(i)) for i, part in enumerate(value))
        case Record():
            return all(is_as(part, known.part(name)) for name, part in value.fields.items())
        case list() | Bag():
            return not (known.empty and len(value)) and all(is_as(item, known.element) for item in value)
        case _:
            return True


def assert_states_are_as_known(plan: Plan, batches: Iterable[dict[str, ZSet]]) -> None:
    known, view = known_states(plan), ReferenceView(plan)
    for batch in batches:
        view.apply(batch)
        for state in view.states:
            value = state.value()
            assert is_as(value, known.stages[state.stage.name].value(state.stage)), f"{state.stage.name}: {value!r}"


@few
@given(queries(), st.data())
def test_generated_queries(text: str, data: st.DataObject) -> None:
    """The keys, values and elements of all stages, after each batch."""
    arrived = data.draw(histories(text, deletions=True, fewest=2))
    plan = plan_query(mrql.compile(text, **STREAMS).term, PlanOptions(shrinking=frozenset(streams_of(text)))).plan
    assert_states_are_as_known(plan, [batch.changes() for batch in arrived])


@few
@given(loop_queries.adding_loops(), loop_queries.edge_histories())
def test_generated_loops(text: str, batches: list[dict[str, ZSet]]) -> None:
    """A stage that is made from itself."""
    plan = mrql.compile(text, **loop_queries.STREAMS).trace().plan
    assert_states_are_as_known(
        plan, [{name: rows for name, rows in batch.items() if name in plan.streams} for batch in batches]
    )


NESTED = "bag(<K: long, R: <U: long>, T: (long, <V: long>)>)"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("select (k, count(x)) from x in S group by k: (x.K, x.K)", False),
        ("select (k, count(x)) from x in S group by k: x.R", True),
        ("select (k, count(x)) from x in S group by k: (x.K, x.R)", False),
        ("select distinct x from x in S", False),
        ("select distinct y from y in ((select x.R from x in S) union {<U: 1>})", True),
        ("select (k, count(x)) from x in S where x.K > count(S) group by k: x.R", True),
    ],
)
def test_whether_a_key_may_be_missing(text: str, missing: bool) -> None:
    """A tuple that the query makes is there; one that it reads in a row may be missing; a row is there. The last stage
    may read what others have stored."""
    plan = mrql.compile(text, S=NESTED).trace().plan
    assert known_states(plan).stages[plan.stages[-1].name].key.missing == missing


def test_values_that_are_not_as_known() -> None:
    """What the properties above ask of a value can fail."""
    assert is_as(Bag([(1, None)]), Known(False, elements=Known(False)))
    assert not is_as(Bag([None]), Known(False, elements=Known(False)))
    assert not is_as(Bag([(1, None)]), Known(False, elements=Known(False, {1: Known(False)})))
