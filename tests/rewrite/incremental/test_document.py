"""`docs/incremental.md`: its table agrees with the plans, and its queries follow insertions and deletions exactly."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.algebra.values.xml_elements import element, text_node
from mrql.runtime.reference.view import ReferenceView
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.calls import WINDOWS
from mrql.translate.collection_functions import DERIVED
from tests.support.histories import histories, net
from tests.support.incremental_cases import CONSTRUCTS, DOCUMENT, STREAMS, Construct, document, plan_of

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
    "J": st.builds(
        lambda k, a, items: Record({"K": k, "V": of_value(Record({"A": a, "I": items}))}),
        LONGS,
        LONGS | st.sampled_from(["1", 1.0, 1.5]),
        st.none() | st.lists(LONGS, max_size=2),
    ),
    "X": st.builds(
        lambda year, names: element(
            "book", ["year"], [year], [element("author", [], [], [text_node(n)]) for n in names]
        ),
        st.sampled_from(["2005", "2006", None]),
        st.lists(st.sampled_from(["Ann", "Bob", ""]), max_size=2),
    ),
}

each_construct = pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)


def test_the_table_is_up_to_date() -> None:
    """The table of the document is the one generated from the plans."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == document(text), "python -m tests.regenerate"


def test_each_aggregation_is_in_the_table() -> None:
    """Each aggregation, function over a collection and window function is in a query of the table."""
    queries = " ".join(construct.query for construct in CONSTRUCTS)
    for name in (*AGGREGATIONS, *DERIVED, *WINDOWS):
        assert re.search(rf"\b{name}\b", queries), name


@each_construct
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_construct_follows_its_streams(construct: Construct, data: st.DataObject) -> None:
    """The answer to each construct is exact over ten histories; `make soak` takes more."""
    assert_construct_follows(construct, data)


def assert_construct_follows(construct: Construct, data: st.DataObject) -> None:
    """After each batch the answer is that of a single evaluation over the current rows."""
    query = mrql.compile(construct.query, **STREAMS).term
    plan = plan_of(construct)
    view = ReferenceView(plan)
    rows = {name: ROWS[name] for name in sorted(plan.streams)}
    history = data.draw(histories(rows, deletions=True, largest=3))
    for n, batch in enumerate(history, start=1):
        view.apply(batch.changes())
        expected = evaluate(query, net(history[:n], rows))
        assert close(view.answer(), expected), f"{view.answer()!r}, not {expected!r}"
