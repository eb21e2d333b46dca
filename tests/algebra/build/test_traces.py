"""The operators of streams as terms: they give what those over iterables give, and refuse other types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql import streams
from mrql.algebra import build as b
from mrql.algebra.build import Expr
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.explain import require_incremental
from tests.algebra.build.test_operators import names_of, nested
from tests.support.operator_cases import CLOCK, LETTERS, NESTED, NUMBERS, OTHER, TRACE, zset
from tests.support.planning import planned

few = settings(max_examples=50, deadline=None, database=None)

weighted = st.dictionaries(st.one_of(st.none(), st.integers(0, 2)), st.integers(-2, 2), max_size=4).map(zset)
some_streams = st.lists(weighted, max_size=4)
TRACES = st.lists(st.tuples(weighted, weighted), max_size=4)
EPOCHS = st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(weighted, min_size=n, max_size=n), max_size=3))


def trace_of(stream: Sequence[ZSet]) -> Bag:
    """The trace of a stream, with weights split into rows of weight 1 or −1."""
    return Bag((x, t, w // abs(w)) for t, rows in enumerate(stream) for x, w in rows for _ in range(abs(w)))


def stream_of(trace: Value, length: int) -> list[ZSet]:
    """The rows of a trace at each time; asserts that it has no other times."""
    assert isinstance(trace, Bag)
    assert all(0 <= row[1] < length for row in trace)
    return [ZSet.weighted((x, w) for x, t, w in trace if t == time) for time in range(length)]


OPERATORS: dict[str, tuple[Expr, Callable[[list[ZSet]], Iterable[ZSet]]]] = {
    "delay": (b.delay(TRACE, CLOCK), streams.delay),
    "integrate": (b.integrate(TRACE, CLOCK), streams.integrate),
    "differentiate": (b.differentiate(TRACE, CLOCK), streams.differentiate),
    "distinct_trace": (b.distinct_trace(TRACE), streams.incremental(streams.lift(streams.distinct))),
    "negate": (b.negate(TRACE), streams.lift(lambda rows: -rows)),
}
"""A term over a trace, and the operator over the stream of the trace."""


@few
@given(some_streams)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_term_over_a_trace_is_the_operator_over_the_stream(name: str, s: list[ZSet]) -> None:
    """[DBSP] §2: the term gives what the operator gives, also at times without rows and for missing elements."""
    built, operator = OPERATORS[name]
    found = evaluate(built.term, {"S": trace_of(s), "clock": Bag(range(len(s)))})
    assert stream_of(found, len(s)) == list(operator(s))


@few
@given(EPOCHS)
def test_a_trace_in_two_directions_of_time(epochs: list[list[ZSet]]) -> None:
    """[RZ] 2.9.11: `distinct` of the integral over epochs and iterations, differentiated in both."""
    rows = Bag(
        (x, (e, i), w) for e, iterations in enumerate(epochs) for i, rows in enumerate(iterations) for x, w in rows
    )
    found = evaluate(b.distinct_trace(NESTED).term, {"S": rows})
    whole = nested(streams.integrate)(epochs)
    expected = nested(streams.differentiate)([[streams.distinct(rows) for rows in row] for row in whole])
    assert isinstance(found, Bag)
    assert ZSet.weighted(((x, time), w) for x, time, w in found) == ZSet.weighted(
        ((x, (e, i)), w) for e, row in enumerate(expected) for i, rows in enumerate(row) for x, w in rows
    )


@few
@given(TRACES)
def test_minus_and_consolidate(s: list[tuple[ZSet, ZSet]]) -> None:
    """[RZ] 2.9.14 and 2.9.2."""
    left, right = [x for x, _ in s], [y for _, y in s]
    sources = {"S": trace_of(left), "T": trace_of(right)}
    less = evaluate(b.minus(TRACE, OTHER).term, sources)
    assert stream_of(less, len(s)) == [x - y for x, y in s]
    assert evaluate(b.consolidate(TRACE).term, sources) == Bag(streams.consolidate(left))


def test_at_what_times() -> None:
    """Results are at the times of the clock, each once, also without rows; a late row counts from its time on."""
    late = {"S": Bag([("a", 0, 1), ("b", 2, 1), ("a", 1, -1), ("c", 7, 1)]), "clock": Bag([0, 1, 1, 2, 3])}
    whole = Bag([("a", 0, 1), ("b", 2, 1), ("b", 3, 1)])
    assert evaluate(b.integrate(LETTERS, CLOCK).term, late) == whole
    assert evaluate(b.differentiate(LETTERS, CLOCK).term, {**late, "S": whole}) == Bag(
        [("a", 0, 1), ("a", 1, -1), ("b", 2, 1)]
    )


def test_they_are_incremental() -> None:
    """A view of them recomputes nothing from a whole state; only a new time of an integral meets all rows."""
    for built in (
        b.delay(TRACE, CLOCK),
        b.integrate(TRACE, CLOCK),
        b.differentiate(TRACE, CLOCK),
        b.distinct_trace(TRACE),
        b.distinct_trace(NESTED),
        b.consolidate(TRACE),
        b.minus(TRACE, OTHER),
    ):
        require_incremental(planned(built.term, shrinking=frozenset(names_of(built))).plan)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: b.consolidate(NUMBERS), r"bag of rows \(element, time, weight\) .* not \{int\}"),
        (lambda: b.negate(b.stream("S", "{(int, int, double)}")), "whole numbers as weights"),
        (lambda: b.minus(TRACE, b.count(NUMBERS)), "not long"),
        (lambda: b.distinct_trace(b.stream("S", "[(int, int, int)]")), r"not \[\(int, int, int\)\]"),
        (lambda: b.distinct_trace(b.stream("S", "{(int, string, int)}")), "a pair of them, not string"),
        (lambda: b.delay(NESTED, CLOCK), r"a time is a whole number, not \(int, int\)"),
        (lambda: b.integrate(TRACE, 3), "a clock is a bag of whole numbers, not int"),
        (lambda: b.differentiate(TRACE, LETTERS), "a clock is a bag of whole numbers, not {"),
    ],
)
def test_what_is_refused(build: Callable[[], Expr], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build()
