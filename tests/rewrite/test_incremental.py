"""`docs/incremental.md`: its table says what happens, and each query in it follows insertions and deletions exactly."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.evaluate import evaluate
from mrql.algebra.values import Bag, Record, Value, close
from mrql.algebra.zset import ZSet
from mrql.runtime.reference import ReferenceView
from tests.incremental_cases import CONSTRUCTS, DOCUMENT, STREAMS, Construct, document, plan_of

LONGS = st.none() | st.integers(-2, 3)
ROWS: dict[str, st.SearchStrategy[Value]] = {
    "S": st.tuples(LONGS, LONGS),
    "T": st.tuples(LONGS, LONGS),
    "P": st.builds(
        lambda k, v, us: Record({"K": k, "V": v, "I": Bag(Record({"U": u}) for u in us)}),
        LONGS,
        LONGS,
        st.lists(LONGS, max_size=2),
    ),
}

each_construct = pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)


@st.composite
def histories(draw: st.DrawFn, streams: list[str]) -> list[dict[str, ZSet]]:
    """Batches that insert rows and delete some of those that are there, those of the same batch included."""
    present: dict[str, list[Value]] = {name: [] for name in streams}
    arrived = []
    for _ in range(draw(st.integers(1, 4))):
        batch = {}
        for name in streams:
            new = draw(st.lists(ROWS[name], max_size=3))
            present[name] += new
            gone = draw(st.sets(st.integers(0, len(present[name]) - 1), max_size=3)) if present[name] else set()
            batch[name] = ZSet.of(new) + ZSet.of([present[name][i] for i in sorted(gone)], -1)
            present[name] = [row for i, row in enumerate(present[name]) if i not in gone]
        arrived.append(batch)
    return arrived


def test_the_table_is_up_to_date() -> None:
    """The document says what the plans are."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == document(text), "python -m tests.regenerate"


@each_construct
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_construct_follows_its_streams(construct: Construct, data: st.DataObject) -> None:
    """After each batch the answer is that of a single evaluation over what is left."""
    query = mrql.compile(construct.query, **STREAMS).term
    plan = plan_of(construct)
    streams = sorted(plan.streams)
    view = ReferenceView(plan)
    present = {name: ZSet() for name in streams}
    for batch in data.draw(histories(streams)):
        view.apply(batch)
        present = {name: rows + batch[name] for name, rows in present.items()}
        expected = evaluate(query, {name: rows.bag() for name, rows in present.items()})
        assert close(view.answer(), expected), f"{view.answer()!r}, not {expected!r}"
