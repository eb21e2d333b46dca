"""Generated sums of products, sums and differences: over joins, and under conditions."""

from __future__ import annotations

from hypothesis import strategies as st

JOINS: dict[str, tuple[str, ...]] = {
    "x in X, y in Y where x.A = y#1": ("x.D", "y#2", "x.B", "y#0"),
    "x in X, p in P where x.A = p.K": ("x.D", "p.V", "x.A", "p.K", "x.B"),
    "y in Y, z in Y where y#0 = z#0": ("y#2", "z#2", "y#1", "z#1"),
    "x in X, y in Y, p in P where x.B = y#0 and y#1 = p.K": ("x.D", "y#2", "p.V", "p.K"),
    "x in X, y in Y where x.A = y#1 and x.D < y#2": ("x.D", "y#2", "x.A"),
}
"""Joins of streams of `tests.support.queries`, with the numbers in their rows."""


@st.composite
def sum_queries(draw: st.DrawFn) -> str:
    """Sums over all rows, or over groups by a number of one side."""
    join = draw(st.sampled_from(sorted(JOINS)))
    numbers = JOINS[join]
    kind = draw(st.sampled_from(("sum", "sum", "avg", "count")))
    addend = draw(addends(numbers))
    if draw(st.booleans()):
        return f"{kind}(select {addend} from {join})"
    key = draw(st.sampled_from(numbers))
    # An expression without a variable of the group is no collection.
    aggregates = [f"{name}({numbers[0]} * {of})" for name, of in ((kind, addend), ("sum", draw(addends(numbers))))]
    return f"select (k, {', '.join(aggregates)}) from {join} group by k: {key}"


def addends(numbers: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Addends: products, sums and differences, and numbers alone."""
    leaves = st.sampled_from((*numbers, *numbers, "1", "0.5"))
    return st.recursive(
        leaves,
        lambda inner: st.tuples(inner, st.sampled_from("*+-"), inner).map(lambda parts: f"({' '.join(parts)})"),
        max_leaves=4,
    )


STREAM_NUMBERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "X": ("x", ("x.A", "x.B", "x.D")),
    "Y": ("y", ("y#0", "y#1", "y#2")),
    "P": ("p", ("p.K", "p.V")),
}
"""Streams of `tests.support.queries`, with a variable for their rows and the numbers in these."""


@st.composite
def guarded_sums(draw: st.DrawFn) -> str:
    """Aggregations that are asked for only under a condition: with `having` or `if`, or for the rows of another stream.
    If values are extreme, aggregations that are not asked for overflow."""
    (stream, (row, numbers)), (other, (outer, keys)) = draw(
        st.permutations(sorted(STREAM_NUMBERS.items())).map(lambda drawn: drawn[:2])
    )
    kind, addend = draw(st.sampled_from(("sum", "sum", "avg", "max"))), draw(addends(numbers))
    group, key = f"{row} in {stream} group by k: {draw(st.sampled_from(numbers))}", draw(st.sampled_from(keys))
    over = f"{numbers[0]} * {addend}"  # an expression without a variable of the group is no collection
    few = draw(st.sampled_from((f"max({numbers[0]}) < 3", f"count({row}) < 2", f"min({numbers[1]}) > 0")))
    match draw(st.sampled_from(("having", "if", "nested", "nested if", "all"))):
        case "having":
            return f"select (k, {kind}({over}), sum({numbers[0]})) from {group} having {few}"
        case "if":
            return f"select (k, if {few} then {kind}({over}) else 0) from {group}"
        case "nested":
            inner = f"select {addend} from {row} in {stream} where {numbers[0]} = {key}"
            return f"select ({key}, {kind}({inner})) from {outer} in {other} where {key} < 3"
        case "nested if":
            inner = f"select {addend} from {row} in {stream} where {numbers[0]} = {key}"
            return f"select ({key}, if {key} < 3 then {kind}({inner}) else 0) from {outer} in {other}"
        case _:
            rows = f"from {row} in {stream}"
            return f"if max(select {numbers[0]} {rows}) < 3 then max(select {addend} {rows}) else 0"
