"""The guarantee for sums: the answer is that of the query as written, for all values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.values.values import Bag, Value
from mrql.runtime.reference.view import ReferenceView
from tests.support.histories import Batch, histories, net
from tests.support.planning import planned
from tests.support.wild import outcome

LONGS, DOUBLES, WIDE = "bag((long, long))", "bag((long, double))", "bag((long, long, long))"
MOST, LEAST = 2**63 - 1, -(2**63)
INF, NAN = math.inf, math.nan

OVERFLOW = "integer overflow"


@attrs.frozen
class Case:
    """A query over two streams, batches, and the expected answer after each."""

    name: str
    query: str
    types: tuple[str, str]
    history: Sequence[Batch]
    answers: Sequence[Value]


def come(**rows: list[Value]) -> Batch:
    return Batch(rows)


def go(**rows: list[Value]) -> Batch:
    return Batch({}, rows)


def over(head: str, columns: str = "(c, d)") -> str:
    return f"sum(select {head} from (a, b) in S, {columns} in T where a = c)"


CASES = (
    Case(
        "a square of a difference is not taken apart",
        over("(b - d) * (b - d)"),
        (DOUBLES, DOUBLES),
        [come(S=[(1, 100000001.0), (1, 100000003.0)], T=[(1, 100000002.0)])],
        [2.0],
    ),
    Case(
        "a product with a difference does not overflow on the way",
        over("(d - b) * p", "(c, d, p)"),
        (LONGS, WIDE),
        [come(S=[(1, 1_700_000_000_000_000)], T=[(1, 1_700_000_000_000_010, 10_000)])],
        [100_000],
    ),
    Case(
        "nor without a partner",
        over("(d - b) * p", "(c, d, p)"),
        (LONGS, WIDE),
        [come(S=[(1, 1)], T=[(2, 1_700_000_000_000_000, 10_000_000)])],
        [0],
    ),
    Case(
        "a missing factor times an infinite one",
        over("b * d"),
        (DOUBLES, DOUBLES),
        [come(S=[(1, None)], T=[(1, INF)])],
        [0.0],
    ),
    Case(
        "the largest doubles come and go",
        over("b * d"),
        (DOUBLES, DOUBLES),
        [
            come(S=[(1, 1.5e308), (1, 1.5e308)], T=[(1, 0.25)]),
            go(S=[(1, 1.5e308)]),
            come(T=[(1, NAN)]),
            go(T=[(1, NAN)]),
            come(T=[(1, INF)], S=[(1, 0.0)]),
            go(S=[(1, 0.0)]),
            go(T=[(1, INF)]),
        ],
        [7.5e307, 3.75e307, NAN, 3.75e307, NAN, INF, 3.75e307],
    ),
    Case("rows that never join", over("b + 1"), (LONGS, LONGS), [come(S=[(1, MOST)], T=[(2, 1)])], [0]),
    Case("nor for a product", over("b * b + b"), (LONGS, LONGS), [come(S=[(1, MOST)], T=[(2, 1)])], [0]),
    Case(
        "rows that join, at the end of the range",
        over("b + 1"),
        (LONGS, LONGS),
        [come(S=[(1, MOST)], T=[(1, 1)])],
        [OVERFLOW],
    ),
    Case(
        "an emptied group has nothing left",
        "select (k, sum(x)) from (k, x) in S group by k",
        (DOUBLES, LONGS),
        [
            come(S=[(1, 0.1), (1, 1e16), (2, INF)]),
            go(S=[(1, 0.1), (1, 1e16), (2, INF)]),
            come(S=[(1, 5.0), (2, 5.0)]),
        ],
        [Bag([(1, 1e16), (2, INF)]), Bag(), Bag([(1, 5.0), (2, 5.0)])],
    ),
    Case(
        "an emptied total has nothing left",
        "sum(select x from (k, x) in S)",
        (DOUBLES, LONGS),
        [come(S=[(1, 0.1), (1, 3e19)]), go(S=[(1, 0.1), (1, 3e19)]), come(S=[(1, 5.0)])],
        [3e19, 0.0, 5.0],
    ),
    Case(
        "a huge number leaves the others as they were",
        "select (k, sum(x)) from (k, x) in S group by k",
        (DOUBLES, LONGS),
        [
            come(S=[(1, 1e300), (1, 1e20), (1, 3e26), (2, -1e40), (2, 2.5), (3, 1e60), (3, -1e60), (3, 7e22)]),
            go(S=[(1, 1e300), (2, -1e40), (3, -1e60)]),
            go(S=[(1, 3e26), (3, 1e60)]),
        ],
        [
            Bag([(1, 1e300), (2, -1e40), (3, 7e22)]),
            Bag([(1, 3e26 + 1e20), (2, 2.5), (3, 1e60)]),
            Bag([(1, 1e20), (2, 2.5), (3, 7e22)]),
        ],
    ),
    Case(
        "huge numbers of one side go without a trace",
        over("b"),
        (DOUBLES, DOUBLES),
        [
            come(S=[(1, 2.0**100 * (1 + 2.0**-52)), (1, 2.0**101), (1, 1.0)], T=[(1, 0.0), (1, 2.0)]),
            go(S=[(1, 2.0**100 * (1 + 2.0**-52))]),
            go(S=[(1, 2.0**101)]),
        ],
        [6 * 2.0**100, 2.0**102, 2.0],
    ),
    Case(
        "a value of a group goes as it came",
        "sums = select (a, sum(b)) from (a, b) in S group by a; "
        "select (k, sum(x * d)) from (k, x) in sums, (c, d) in T where k = c group by k",
        (DOUBLES, DOUBLES),
        [
            come(S=[(1, 1.1)], T=[(1, 0.7), (1, 0.2)]),
            come(S=[(1, 1e15 + 0.25)]),
            come(T=[(1, 0.37)]),
            go(S=[(1, 1e15 + 0.25)]),
        ],
        [Bag([(1, 0.99)]), Bag([(1, 9e14)]), Bag([(1, 1.27e15)]), Bag([(1, 1.397)])],
    ),
    *(
        Case(
            f"what goes of a join of two sides that change leaves nothing, of {head}",
            f"select (a, {head}) from (a, b) in S, (c, d) in T where a = c group by a",
            (DOUBLES, DOUBLES),
            [
                come(S=[(1, 1.1)], T=[(1, 0.7), (1, 0.2)]),
                come(S=[(1, 1e15 + 0.25), (1, 3.7e12), (1, 7e25)]),
                come(T=[(1, 0.37)]),
                go(S=[(1, 1e15 + 0.25), (1, 7e25)]),
                go(S=[(1, 3.7e12)], T=[(1, 0.7)]),
            ],
            [Bag([(1, x)]) for x in answers],
        )
        for head, answers in (
            ("sum(b * d)", (0.99, 6.3e25, 8.89e25, 4.699e12 + 1.397, 0.627)),
            ("sum(b)", (2.2, 1.4e26, 2.1e26, 1.11e13 + 3.3, 2.2)),
            ("avg(b * 0.5)", (0.55, 7e25 / 8, 7e25 / 8, 9.25e11 + 0.275, 0.55)),
            ("sum(b * (1.0 - d))", (1.21, 7.7e25, 1.211e26, 6.401e12 + 1.903, 1.573)),
        )
    ),
    Case(
        "nor does a huge product change those that stay",
        over("b * d"),
        (DOUBLES, DOUBLES),
        [
            come(S=[(1, 1e300), (1, 1e17), (1, 1e10)], T=[(1, 2.0)]),
            go(S=[(1, 1e300)]),
            come(T=[(1, 1e200)]),
            go(T=[(1, 1e200)]),
        ],
        [2e300, 2e17 + 2e10, 1e217 + 1e210, 2e17 + 2e10],
    ),
    Case(
        "either zero takes the other one back",
        "select (x, sum(k)) from (k, x) in S group by x",
        (DOUBLES, LONGS),
        [come(S=[(1, -0.0), (2, 0.0), (4, 1.0)]), go(S=[(1, 0.0)]), go(S=[(2, -0.0)]), come(S=[(8, -0.0)])],
        [Bag([(0.0, 3), (1.0, 4)]), Bag([(0.0, 2), (1.0, 4)]), Bag([(1.0, 4)]), Bag([(0.0, 8), (1.0, 4)])],
    ),
    Case(
        "what is no number is taken back",
        "select (k, sum(x)) from (k, x) in S group by k",
        (DOUBLES, LONGS),
        [come(S=[(1, 0.5), (1, NAN), (1, INF), (1, -INF)]), go(S=[(1, NAN)]), go(S=[(1, -INF)]), go(S=[(1, INF)])],
        [Bag([(1, NAN)]), Bag([(1, NAN)]), Bag([(1, INF)]), Bag([(1, 0.5)])],
    ),
    Case(
        "the least long comes and goes",
        "select (k, sum(x)) from (k, x) in S group by k",
        (LONGS, LONGS),
        [come(S=[(1, LEAST), (1, 5)]), go(S=[(1, LEAST)])],
        [Bag([(1, LEAST + 5)]), Bag([(1, 5)])],
    ),
    Case(
        "equal sums of different keys count twice",
        "select (d, sum(b)) from (a, b) in S, (c, d) in T where a = c group by d",
        (DOUBLES, LONGS),
        [come(S=[(1, 0.25), (2, 0.25)], T=[(1, 7), (2, 7)]), go(S=[(1, 0.25)])],
        [Bag([(7, 0.5)]), Bag([(7, 0.25)])],
    ),
    Case(
        "equal sums of longs count twice",
        "select (d, sum(b)) from (a, b) in S, (c, d) in T where a = c group by d",
        (LONGS, LONGS),
        [come(S=[(1, 2**40), (2, 2**40)], T=[(1, 7), (2, 7)]), go(S=[(1, 2**40)])],
        [Bag([(7, 2**41)]), Bag([(7, 2**40)])],
    ),
    Case(
        "rows that are never there together fail for nobody",
        over("6 / (b - d)"),
        (LONGS, LONGS),
        [
            come(S=[(1, 3)], T=[(1, 1)]),
            Batch({"T": [(1, 3)]}, {"S": [(1, 3)]}),
            Batch({"S": [(1, 3), (1, 5)]}, {"T": [(1, 3)]}),
            go(T=[(1, 1)]),
            come(T=[(1, 2)]),
            go(S=[(1, 5)]),
            come(T=[(1, 5)]),
        ],
        [3, 0, 4, 0, 8, 6, 3],
    ),
    Case(
        "nor do sums of such",
        "select (a, (sum(b * b), sum(b - d))) from (a, b) in S, (c, d) in T where a = c group by a",
        (LONGS, LONGS),
        [
            come(S=[(1, 2**62)]),
            Batch({"T": [(1, LEAST)]}, {"S": [(1, 2**62)]}),
            Batch({"S": [(1, 9)], "T": [(1, 7)]}, {"T": [(1, LEAST)]}),
            come(S=[(1, 7)]),
        ],
        [Bag(), Bag(), Bag([(1, (81, 2))]), Bag([(1, (130, 2))])],
    ),
    Case(
        "nor do rows that a condition is over",
        "select (a, count(b)) from (a, b) in S, (c, d) in T where a = c and b - d > 0 group by a",
        (LONGS, LONGS),
        [
            come(S=[(1, 2**62)]),
            Batch({"T": [(1, LEAST)]}, {"S": [(1, 2**62)]}),
            Batch({"S": [(1, 9)], "T": [(1, 7)]}, {"T": [(1, LEAST)]}),
        ],
        [Bag(), Bag(), Bag([(1, 1)])],
    ),
    Case(
        "longs do not overflow on the way",
        "(sum(select x from (k, x) in S), avg(select x from (k, x) in S))",
        (LONGS, LONGS),
        [come(S=[(1, 2**62), (1, 2**62), (1, -(2**62))]), go(S=[(1, 2**62)]), come(S=[(1, MOST), (1, MOST)])],
        [(2**62, 2**62 / 3), (0, 0.0), OVERFLOW],
    ),
    Case(
        "the average of the greatest longs",
        "avg(select x from (k, x) in S)",
        (LONGS, LONGS),
        [come(S=[(1, MOST), (1, MOST)])],
        [float(MOST)],
    ),
    Case(
        "a product of sums that is wider than a long",
        over("b * d"),
        (LONGS, LONGS),
        [come(S=[(1, 2**62), (1, 2**62)], T=[(1, 1), (1, -1)]), come(T=[(1, 1)])],
        [0, OVERFLOW],
    ),
)  # fmt: skip


def is_as(found: Value, expected: Value) -> bool:
    """Equality, but sums of doubles may be rounded."""
    if isinstance(expected, Bag):
        return (
            isinstance(found, Bag) and len(found) == len(expected) and all(map(is_as, sorted(found), sorted(expected)))
        )
    if isinstance(expected, tuple):
        return all(map(is_as, found, expected))
    if isinstance(expected, float):
        return (
            found == expected
            or (found != found and expected != expected)
            or math.isclose(found, expected, rel_tol=1e-9)
        )
    return bool(found == expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_is_that_of_the_query(case: Case) -> None:
    """After each batch, the reference engine and a single evaluation give the expected answer."""
    query = mrql.compile(case.query, S=case.types[0], T=case.types[1])
    streams = [*query.trace().plan.streams]
    view = ReferenceView(planned(query.term, shrinking=frozenset(streams)).plan)
    for n, (batch, expected) in enumerate(zip(case.history, case.answers, strict=True), start=1):
        data = net(case.history[:n], ["S", "T"])
        for found in (
            attempt(lambda batch=batch: after(view, batch)),
            attempt(lambda data=data: evaluate(query.term, data)),
        ):
            assert is_as(found, expected), found


def after(view: ReferenceView, batch: Batch) -> Value:
    view.apply(batch.changes())
    return view.answer()


def attempt(compute: Callable[[], Value]) -> Value:
    """A value, or the message of the error."""
    try:
        return compute()
    except UserError as error:
        return error.message


# --- generated sums ---------------------------------------------------------------------------------------------------

INTEGERS = st.sampled_from([None, 0, 1, -1, 3, 2**31, -(2**40), 2**62, -(2**62), MOST, LEAST])
NUMBERS = st.sampled_from(
    [None, 0.0, -0.0, 0.1, -0.7, 1.5, 1e16, -3e9, 1e20, -1e40, 1e60, 1e308, -1e308, 5e-324, INF, -INF, NAN]
)
KEYS = st.sampled_from([1, 1, 1, 2, 2, None])
ROWS = {
    "S": st.tuples(KEYS, INTEGERS, NUMBERS),
    "T": st.tuples(KEYS, INTEGERS, NUMBERS),
    "U": st.tuples(KEYS, INTEGERS, NUMBERS),
}
TYPES = dict.fromkeys(ROWS, "bag((long, long, double))")

SOURCES = {
    "(k, i, x) in S": ("i", "x", "i + 1", "x - 0.1", "i * i", "x * x", "2 * i", "if i > 0 then x else 1.0"),
    "(k, i, x) in S, (l, j, y) in T where k = l": (
        "i", "y", "i * j", "x * y", "i - j", "x + y", "(x - y) * x", "i * (j + 1)", "x * (1.0 - y)", "i * y",
        "(i * j) * 3", "if j > 0 then x else 0.5", "if j > 0 then x else 0.0", "if i > j then x * y else 0",
        "j + 1", "i * j * i", "i * i",
        "i * 2 * j", "(if i > 0 then 1 else 0) * (if j > 0 then 1 else 2)",
    ),
    "(k, i, x) in S, (l, j, y) in T, (m, n, z) in U where k = l and l = m": (
        "i * j * n", "x * z", "i * (j * n)", "z", "x * y * z", "n - j", "i * n",
    ),
}  # fmt: skip


SIZES = "sum(if is_nan(1.0 * {0}) then 0.0 else abs(1.0 * {0}))"


@st.composite
def sums(draw: st.DrawFn) -> tuple[str, tuple[str, ...], str]:
    """A source, the numbers over it to add up, and the group key: none, the key of the join, or another column."""
    source = draw(st.sampled_from([*SOURCES]))
    return (
        source,
        tuple(draw(st.lists(st.sampled_from(SOURCES[source]), min_size=1, max_size=2))),
        draw(st.sampled_from(["", "k", "i", "if is_null(i) then 0 else 1"])),
    )


def queries(source: str, numbers: Sequence[str], key: str, monoid: str = "sum({})") -> str:
    heads = ", ".join(monoid.format(number) for number in numbers)
    grouped = f" group by g: {key}" if key else " group by g: 1"
    return f"select (g, ({heads}, 0)) from {source}{grouped}"


def assert_kept(found: Value, expected: Value, sizes: Value) -> None:
    """The guarantee: longs are exact; doubles are within 1e-9 of the summed sizes, or the same infinity or NaN."""
    if isinstance(expected, str):
        # If an addend overflows, the view may have a number all the same.
        assert OVERFLOW in expected
        assert not isinstance(found, str) or OVERFLOW in found
        return
    found, expected, sizes = dict(found), dict(expected), dict(sizes)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        for got, wanted, size in zip(found[key], row, sizes[key], strict=True):
            if isinstance(wanted, float) and math.isfinite(wanted) and math.isfinite(got):
                assert abs(got - wanted) <= 1e-9 * size + 1e-300, (got, wanted, size)
            else:
                assert got == wanted or (got != got and wanted != wanted), (got, wanted)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=sums(), data=st.data())
def test_generated_sums_keep_the_promise(drawn: tuple[str, tuple[str, ...], str], data: st.DataObject) -> None:
    """The guarantee holds over one, two and three streams, with deletions, for all kinds of numbers."""
    source, numbers, key = drawn
    term = mrql.compile(queries(source, numbers, key), **TYPES).term
    sized = mrql.compile(queries(source, numbers, key, SIZES), **TYPES).term
    streams = [name for name in ROWS if f"in {name}" in source]
    view = ReferenceView(planned(term, shrinking=frozenset(streams)).plan)
    history = data.draw(histories({name: ROWS[name] for name in streams}, deletions=True, largest=3))
    for n, batch in enumerate(history, start=1):
        contents = net(history[:n], streams)
        expected = attempt(lambda contents=contents: evaluate(term, contents))
        found = attempt(lambda batch=batch: after(view, batch))
        assert_kept(found, expected, None if isinstance(expected, str) else evaluate(sized, contents))
        if isinstance(found, str):
            break


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("reduce(*, cMap(λ(a, b). {b}, S))", [MOST, OVERFLOW, 0]),
        ("cMap(λ(k, g). if k < 3L then {(k, reduce(*, g))} else {}:{(long, long)}, groupBy(S))", [Bag(), Bag(), Bag()]),
    ],
)
def test_a_product_that_is_too_large_is_an_error_where_it_is_read(text: str, answers: Sequence[Value]) -> None:
    """A product that overflows is an error only where it is read; a 0 in any batch makes it 0."""
    term = parse(text, {"S": "{(long, long)}"})
    view = ReferenceView(planned(term).plan)
    rows: list[Value] = []
    for row, expected in zip(((5, MOST), (5, -2), (5, 0)), answers, strict=True):
        rows.append(row)
        view.apply(come(S=[row]).changes())
        assert _answered(view.answer) == expected
        assert _answered(lambda: evaluate(term, {"S": Bag(rows)})) == expected


def _answered(answer: Callable[[], Value]) -> Value:
    found = outcome(answer)
    return found.message if isinstance(found, UserError) else found
