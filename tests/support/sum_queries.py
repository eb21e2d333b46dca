"""Generated sums over joins: of products, sums and differences of what both sides have."""

from __future__ import annotations

from hypothesis import strategies as st

JOINS: dict[str, tuple[str, ...]] = {
    "x in X, y in Y where x.A = y#1": ("x.D", "y#2", "x.B", "y#0"),
    "x in X, p in P where x.A = p.K": ("x.D", "p.V", "x.A", "p.K", "x.B"),
    "y in Y, z in Y where y#0 = z#0": ("y#2", "z#2", "y#1", "z#1"),
    "x in X, y in Y, p in P where x.B = y#0 and y#1 = p.K": ("x.D", "y#2", "p.V", "p.K"),
    "x in X, y in Y where x.A = y#1 and x.D < y#2": ("x.D", "y#2", "x.A"),
}
"""Joins of streams of `tests.support.queries`, with numbers of their rows."""


@st.composite
def sum_queries(draw: st.DrawFn) -> str:
    """Sums of all, or of groups by what one side has."""
    join = draw(st.sampled_from(sorted(JOINS)))
    numbers = JOINS[join]
    kind = draw(st.sampled_from(("sum", "sum", "avg", "count")))
    addend = draw(addends(numbers))
    if draw(st.booleans()):
        return f"{kind}(select {addend} from {join})"
    key = draw(st.sampled_from(numbers))
    # What has nothing of a group in it is no collection.
    aggregates = [f"{name}({numbers[0]} * {of})" for name, of in ((kind, addend), ("sum", draw(addends(numbers))))]
    return f"select (k, {', '.join(aggregates)}) from {join} group by k: {key}"


def addends(numbers: tuple[str, ...]) -> st.SearchStrategy[str]:
    """What is added up: products and differences, and numbers alone."""
    leaves = st.sampled_from((*numbers, *numbers, "1", "0.5"))
    return st.recursive(
        leaves,
        lambda inner: st.tuples(inner, st.sampled_from("*+-"), inner).map(lambda parts: f"({' '.join(parts)})"),
        max_leaves=4,
    )
