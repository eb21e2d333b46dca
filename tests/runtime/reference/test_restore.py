"""States of the reference engine that are saved and restored are the same, for every construct."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.data import Data, Element
from mrql.algebra.values.values import Document, close
from mrql.algebra.values.zset import ZSet
from mrql.api import Query
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.values import from_plain, to_plain
from mrql.runtime.reference.checkpoint import ReferenceStates
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.checkpoint_layouts import type_from_json, type_to_json
from tests.runtime.spark.test_equivalence import HISTORY
from tests.support import loop_queries
from tests.support.histories import Batch
from tests.support.incremental_cases import CONSTRUCTS, Construct
from tests.support.incremental_cases import STREAMS as TYPES
from tests.support.planning import planned
from tests.support.queries import STREAMS, histories, queries, streams_of
from tests.support.saved_states import Saved


def assert_restored_in_the_reference(
    query: Query, streams: list[str], batches: list[dict[str, ZSet]], home: Path
) -> None:
    """Asserts that a view that is restored after each batch, with all of its states or with some, has the answers of
    the query."""
    plan = planned(query.term, shrinking=frozenset(streams)).plan
    saved = Saved.of(plan, home)
    view = ReferenceView(plan)
    states = ReferenceStates(view, saved.known)
    present = {name: ZSet() for name in streams}
    for number, batch in enumerate(batches):
        view.apply(batch)
        present = {name: rows + batch.get(name, ZSet()) for name, rows in present.items()}
        saved.write(states)
        lost = (None, 0, 1)[number % 3]
        restored = saved.restored(plan, lost=lost)
        view = ReferenceView(plan, start=False)
        states = ReferenceStates(view, saved.known)
        states.load(restored)
        view.resume(restored.states, {} if lost is None else present)
        expected = evaluate(query.term, {name: rows.bag() for name, rows in present.items()})
        assert close(view.answer(), expected)
    saved.store.close()


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_every_construct_in_the_reference(
    construct: Construct, small: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queries of `docs/incremental.md` have the right answers if they are restored after each batch."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", small)
    query = mrql.compile(construct.query, **TYPES)
    streams = sorted(query.trace().plan.streams)
    batches = [
        {name: ZSet.of(batch[name][0]) - ZSet.of(batch[name][1]) for name in streams if name in batch}
        for batch in HISTORY
    ]
    assert_restored_in_the_reference(query, streams, batches, tmp_path)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries(), st.data())
def test_generated_queries(tmp_path_factory: pytest.TempPathFactory, text: str, data: st.DataObject) -> None:
    """Generated queries over generated batches with deletions have the right answers if they are restored after each
    batch."""
    arrived: list[Batch] = data.draw(histories(text, deletions=True, fewest=2))
    query = mrql.compile(text, **STREAMS)
    batches = [batch.changes() for batch in arrived]
    assert_restored_in_the_reference(query, list(streams_of(text)), batches, tmp_path_factory.mktemp("saved"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(loop_queries.adding_loops(), loop_queries.edge_histories())
def test_loops(tmp_path_factory: pytest.TempPathFactory, text: str, batches: list[dict[str, ZSet]]) -> None:
    """Fixpoints, which a stage that reads itself keeps up to date, have the right answers if they are restored after
    each batch."""
    query = mrql.compile(text, **loop_queries.STREAMS)
    streams = sorted(query.trace().plan.streams)
    read = [{name: rows for name, rows in batch.items() if name in streams} for batch in batches]
    assert_restored_in_the_reference(query, streams, read, tmp_path_factory.mktemp("saved"))


def test_recursive_data(tmp_path: Path) -> None:
    """Values of a recursive type are restored as such, and the type by its name."""
    tree = "data Tree = Node: (Tree, Tree) | Leaf: long;"
    text = f"{tree} select (t, count(x)) from (x, y) in S group by t: Node(Leaf(x), Leaf(y))"
    query = mrql.compile(text, **TYPES)
    batches = [{"S": ZSet.of([(1, 2), (1, 2)])}, {"S": ZSet.of([(3, 4)]) - ZSet.of([(1, 2)])}]
    assert_restored_in_the_reference(query, ["S"], batches, tmp_path)
    for value in (Data('{"is": "Leaf", "Leaf": 1}'), Element('{"CData":"x"}'), Document("1")):
        read = from_plain(to_plain(value))
        assert type(read) is type(value)
        assert read == value
    t = ty.BagType(ty.Basic(ty.Kind.DATA, "Tree"))
    assert type_from_json(type_to_json(t)) == t
