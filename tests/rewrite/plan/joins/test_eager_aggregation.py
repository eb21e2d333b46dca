"""Joins under sums keep sums of their sides: which ones, and that the answers stay the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.notation.printer import show
from mrql.algebra.values.values import Bag, Record, Value, close, same
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.multilinear import Input
from mrql.runtime.reference.view import ReferenceView
from tests.rewrite.incremental.test_document import ROWS
from tests.rewrite.incremental.test_sums import after, attempt
from tests.support.function_calls import a_decimal
from tests.support.histories import histories, net
from tests.support.incremental_cases import STREAMS
from tests.support.planning import planned

TYPES: dict[str, ty.Type] = {
    "orders": parse_type("{<key: long, rate: double, day: long, count: long, fee: decimal(9, 2)>}"),
    "items": parse_type(
        "{<key: long, price: double, tax: double, count: long, cost: decimal(12, 2), worth: decimal(38, 10)>}"
    ),
}


def inputs(text: str, *, insert_only: bool = True) -> list[Input]:
    """The inputs of the only join of a query, as they are kept."""
    plan = mrql.compile(text, **TYPES).trace(insert_only=insert_only).plan
    (feed,) = [feed for stage in plan.stages for feed in stage.feeds if len(feed.rows.inputs) > 1]
    return list(feed.rows.inputs)


def kept(text: str) -> list[tuple[str, int]]:
    return [(show(read.term).split("{", 1)[1].rsplit(" else", 1)[0], read.sums) for read in inputs(text)]


def test_the_two_maps_of_cumulus() -> None:
    """[CU]: for `sum(price × rate)` over orders and items, the sums of rates and of prices are kept by key and by
    magnitude, which bounds their product."""
    found = kept("sum(select i.price * o.rate from o in orders, i in items where o.key = i.key)")
    assert found == [
        (f"(o.key, ({magnitude('o.rate')}, 1L, {mantissa('o.rate')}))}}", 2),
        (f"(i.key, ({magnitude('i.price')}, 1L, {mantissa('i.price')}))}}", 2),
    ]


def magnitude(column: str) -> str:
    return f"magnitude({column})"


def mantissa(column: str) -> str:
    return f"if is_null(mantissa({column})) then 0.0 else mantissa({column})"


@pytest.mark.parametrize(
    ("head", "sums"),
    [
        ("sum(i.price * (1 - i.tax))", [1, 7]),
        ("sum(i.price * (1 - o.rate))", [2, 2]),
        # A difference of two sides may be small if the sides are large.
        ("sum(i.price * i.tax - o.rate)", [0, 0]),
        ("sum((i.price - o.rate) * (i.price - o.rate))", [0, 0]),
        ("sum(i.price + o.rate)", [0, 0]),
        # A product of three may be infinite or zero in between.
        ("sum(i.price * o.rate * 2.0)", [0, 0]),
        ("sum(i.count * o.count)", [3, 3]),
        ("sum(2 * i.count)", [1, 3]),
        ("sum(i.count + 1)", [1, 3]),
        ("sum(i.count - o.count)", [0, 0]),
        # A row without a partner must not cause an error.
        ("sum(i.count * i.count)", [0, 0]),
        ("avg(i.count)", [1, 4]),
        ("sum(if i.count > 1 then 1 else 0)", [1, 2]),
        ("count(i)", [0, 0]),
        ("avg(i.price)", [1, 8]),
        ("sum(i.price), min(i.tax)", [1, 7]),
        ("sum(sqrt(i.price * o.rate))", [0, 0]),
        ("min(i.price), max(o.rate)", [0, 0]),
        # Decimals are summed as their first and last digits, or as the last ones alone.
        ("sum(i.cost * (1 - i.cost))", [1, 3]),
        ("sum(i.cost), avg(i.cost)", [1, 3]),
        ("sum(i.worth), sum(o.fee)", [2, 3]),
        ("sum(if o.rate > 0.5 then i.cost else 0m)", [2, 2]),
        ("sum(i.cost * o.fee)", [0, 0]),
        ("sum(i.cost - o.fee)", [0, 0]),
        ("sum(i.worth + 1)", [0, 0]),
    ],
)
def test_what_is_kept(head: str, sums: list[int]) -> None:
    """For each side, the number of sums that are kept, including the number of rows; 0 where the rows are kept."""
    found = inputs(f"select (o.day, {head}) from o in orders, i in items where o.key = i.key group by o.day")
    assert [read.sums for read in found] == sums


@pytest.mark.parametrize(
    ("head", "sums"),
    [
        # If the sums of the sides have changed, a deletion subtracts another rounded product than its insertion added.
        ("sum(i.price * (1 - o.rate))", [0, 0]),
        ("sum(i.price * i.count), sum(i.price * o.rate)", [1, 7]),
        ("sum(i.price * (1 - i.tax))", [1, 7]),
        ("sum(i.count * o.count)", [3, 3]),
        ("avg(i.price)", [1, 8]),
    ],
)
def test_what_is_kept_where_rows_may_go(head: str, sums: list[int]) -> None:
    query = f"select (o.day, {head}) from o in orders, i in items where o.key = i.key group by o.day"
    assert [read.sums for read in inputs(query, insert_only=False)] == sums
    assert [read.sums for read in inputs(query)] != [0, 0]


def test_what_is_derived_may_lose_rows() -> None:
    """A derived stream may lose rows even without deletions: the new value of a group replaces the old one."""
    groups = "(select (k, sum(i.price)) from i in items group by k: i.key)"
    query = f"sum(select s * o.rate from o in orders, (k, s) in {groups} where o.key = k)"
    assert [read.sums for read in inputs(query)] == [0, 0]


NAMES = ("a", "b", "d", "p.V")


def numbers() -> st.SearchStrategy[str]:
    """Numbers over the columns of a join of three streams."""
    leaf = st.sampled_from([*NAMES, *NAMES, "2", "1"])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})")
        return pairs | st.tuples(inner, inner).map(lambda x: f"(if {x[0]} > 0 then {x[1]} else 1)")

    return st.recursive(leaf, larger, max_leaves=5)


@st.composite
def sums_over_joins(draw: st.DrawFn) -> str:
    """A query of sums, sometimes beside another aggregation, over a join of two or three streams."""
    three = draw(st.booleans())
    source = "(a, b) in S, (c, d) in T" + (", p in P" if three else "")
    usable = numbers().filter(lambda text: any(name in text for name in "abd") and (three or "p." not in text))
    where = draw(st.sampled_from(["a = c", "b = c", "a = c and b > d", "a = c and b > 0", "a < c"]))
    if three:
        where += draw(st.sampled_from([" and p.K = c", " and p.K = d", " and p.K = a and p.V > b"]))
    terms = [f"sum({text})" for text in draw(st.lists(usable, min_size=1, max_size=2))]
    terms += draw(st.sampled_from([[], ["count(b)"], ["avg(d)"], ["max(d)"]]))
    key = draw(st.sampled_from(["", "x: a", "x: c", "x: d", "x: a + d"]))
    if key:
        return f"select (x, {', '.join(terms)}) from {source} where {where} group by {key}"
    (text, *_) = terms
    return f"sum(select {text[4:-1]} from {source} where {where})"


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=sums_over_joins(), data=st.data())
def test_sums_over_joins_are_exact(text: str, data: st.DataObject) -> None:
    assert_sums_are_exact(text, data)


def assert_sums_are_exact(text: str, data: st.DataObject) -> None:
    """After each batch the answer is that of a single evaluation over the current rows."""
    query = mrql.compile(text, **STREAMS).term
    streams = sorted(STREAMS.keys() if " P" in text else STREAMS.keys() - {"P"})
    view = ReferenceView(planned(query, shrinking=frozenset(streams)).plan)
    history = data.draw(histories({name: ROWS[name] for name in streams}, deletions=True, largest=3))
    for n, batch in enumerate(history, start=1):
        view.apply(batch.changes())
        expected = evaluate(query, net(history[:n], streams))
        assert close(view.answer(), expected), f"{text}: {view.answer()!r}, not {expected!r}"


DIGITS = tuple(ty.DecimalType(*digits) for digits in ((15, 2), (20, 0), (20, 12), (21, 4), (38, 0), (38, 6), (38, 30)))
"""Decimal types whose values are added up as they are, in two parts, and as integers."""
TO_ADD = [
    *("x", "y", "if y > 0m then x else 0m", "if is_null(y) then null else x", "x * x", "x + 1", "x - y", "abs(x)"),
    *("x as decimal(38, 2)", "i as decimal(20, 4)", "x * 0.5m", "x * i"),
]


@st.composite
def sums_of_decimals(draw: st.DrawFn) -> tuple[dict[str, ty.Type], str]:
    """The types of two streams, one of which has decimals x, the other decimals y, and sums over their join."""
    x, y = (draw(st.sampled_from(DIGITS)) for _ in "xy")
    types: dict[str, ty.Type] = {
        name: ty.BagType(ty.TupleType((ty.LONG, t, ty.INT))) for name, t in (("S", x), ("T", y))
    }
    terms = ", ".join(f"sum({text})" for text in draw(st.lists(st.sampled_from(TO_ADD), min_size=1, max_size=2)))
    key = draw(st.sampled_from(["k", "i", "y", "1"]))
    return types, f"select (g, ({terms}, 0)) from (k, x, i) in S, (l, y, j) in T where k = l group by g: {key}"


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=sums_of_decimals(), data=st.data())
def test_sums_of_decimals_over_joins_are_exact(drawn: tuple[dict[str, ty.Type], str], data: st.DataObject) -> None:
    """Sums are exact to the last digit, up to the limits of a decimal; the view fails where the query does."""
    types, text = drawn
    try:
        query = mrql.compile(text, **types)
    except UserError:
        return  # decimals without a common type
    rows = {name: rows_of(t) for name, t in types.items()}
    streams = sorted(query.trace().plan.streams)
    view = ReferenceView(planned(query.term, shrinking=frozenset(streams)).plan)
    history = data.draw(histories(rows, deletions=True, largest=4))
    for n, batch in enumerate(history, start=1):
        contents = net(history[:n], streams)
        expected = attempt(lambda contents=contents: evaluate(query.term, contents))
        found = attempt(lambda batch=batch: after(view, batch))
        assert same(found, expected), f"{text}: {found!r}, not {expected!r}"
        if isinstance(found, str):
            break


def rows_of(t: ty.Type) -> st.SearchStrategy[Value]:
    """Rows of a key, a decimal of a type, and a small integer."""
    assert isinstance(t, ty.BagType)
    assert isinstance(t.item, ty.TupleType)
    _, number, _ = t.item.items
    assert isinstance(number, ty.DecimalType)
    decimals = st.integers(0, 2**32).map(lambda n: a_decimal(random.Random(n), number))
    return st.tuples(st.sampled_from([1, 1, 2, None]), decimals | st.none(), st.sampled_from([0, 1, None]))


PAIRED = {"A": parse_type("{<k: long, p: (long, long), v: double>}"), "B": parse_type("{<k: long, v: double>}")}
MISSING = {
    "A": Bag([Record({"k": 1, "p": None, "v": 1.0}), Record({"k": 1, "p": (None, None), "v": 2.0})]),
    "B": Bag([Record({"k": 1, "v": 2.0})]),
}


@pytest.mark.parametrize(
    "text",
    [
        "select (p, sum(b.v)) from a in A, b in B where a.k = b.k group by p: a.p",
        "select (m, sum(a.v * b.v)) from a in A, b in B where a.k = b.k group by m: is_null(a.p)",
        "select (p, count(b)) from (p, k) in (select (a.p, a.k) from a in A group by a.p, a.k), b in B "
        "where k = b.k group by p",
    ],
)
def test_a_tuple_that_is_missing_is_a_column(text: str) -> None:
    """A tuple that may be missing is not taken apart: rebuilt, it would be a tuple of missing parts."""
    query = mrql.compile(text, **PAIRED)
    view = ReferenceView(planned(query.term, shrinking=frozenset(PAIRED)).plan)
    view.apply({name: ZSet.of(rows) for name, rows in MISSING.items()})
    assert same(view.answer(), evaluate(query.term, MISSING))
