"""A batch in the reference engine counts as a whole: it is rolled back if its answer, or the function that takes the
answer, fails after the states have changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Value, close
from mrql.runtime.engine.answer import Answer
from mrql.runtime.reference.checkpoint import lines_of
from mrql.runtime.reference.engine import ReferenceEngine, reference_operators, reference_sizes
from mrql.runtime.reference.view import ReferenceView
from tests.rewrite.incremental.test_document import ROWS
from tests.support.histories import histories
from tests.support.incremental_cases import CONSTRUCTS, Construct, plan_of
from tests.support.planning import planned

S = "bag((long, long))"


class Stop(Exception):
    """The error that a function that takes answers raises."""


@attrs.frozen
class Rows:
    """A part of a batch."""

    rows: tuple[tuple[Value, int], ...]

    def changes(self, row: object) -> Iterator[tuple[Value, int]]:
        return iter(self.rows)


def all_of(view: ReferenceView) -> Any:
    """The contents of a view, and what it reports of its last batch, except for the time that it took."""
    operators = reference_operators(view, view.circuit, reference_sizes(view))
    activity = {name: attrs.evolve(each, milliseconds=None) for name, each in operators.items()}
    touched = [set(state.touched_keys) for state in view.states]
    return list(lines_of(view)), activity, touched, view.residual, dict(view.current)


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_fails_after_a_batch_takes_it_back(construct: Construct, data: st.DataObject) -> None:
    plan = plan_of(construct)
    view, other = ReferenceView(plan), ReferenceView(plan)
    rows = {name: ROWS[name] for name in sorted(plan.streams)}
    for batch in data.draw(histories(rows, deletions=True, largest=3)):
        before = all_of(view)
        with pytest.raises(Stop), view.applied(batch.changes()):
            raise Stop
        assert all_of(view) == before
        view.apply(batch.changes())
        other.apply(batch.changes())
        assert close(view.answer(), other.answer())


def engine_of(text: str) -> ReferenceEngine:
    plan = planned(mrql.compile(text, S=S).term, shrinking=frozenset({"S"})).plan
    spec = SourceSpec("S", stream=True, format=ADAPTER, path="", row=parse_type("(long, long)"))
    return ReferenceEngine(plan, {"S": spec})


def advance(engine: ReferenceEngine, *rows: tuple[Value, int], fails: bool = False) -> Value:
    found: list[Value] = []

    def put(answer: Answer) -> None:
        if fails:
            raise Stop
        found.append(answer.snapshot().collect())

    engine.advance({"S": (Rows(rows),)}, put, changes=False)
    return found[0]


def test_an_answer_that_has_no_value() -> None:
    """A batch whose answer has no value is rolled back, though the answer is computed after the states have changed."""
    engine = engine_of("select (k, 10 / sum(v)) from (k, v) in S group by k")
    assert advance(engine, ((1, 5), 1)) == Bag([(1, 2)])
    before = all_of(engine.view)
    with pytest.raises(UserError, match="division by zero"):
        advance(engine, ((2, 0), 1))
    assert all_of(engine.view) == before
    assert sorted(advance(engine, ((2, 10), 1))) == [(1, 2), (2, 1)]


def test_a_place_of_answers_that_fails() -> None:
    engine = engine_of("select (k, sum(v)) from (k, v) in S group by k")
    advance(engine, ((1, 5), 1))
    before = all_of(engine.view)
    with pytest.raises(Stop):
        advance(engine, ((1, 7), 1), fails=True)
    assert all_of(engine.view) == before
    assert advance(engine, ((1, 7), 1)) == Bag([(1, 12)])
