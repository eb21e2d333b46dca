"""Generated queries and histories have in them what the properties over them are about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import mrql
from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.values.values import Bag, Record, Value, canonical
from mrql.parser.parser import parse_program
from mrql.translate.builtin_aggregates import AGGREGATIONS
from tests.support.histories import Batch, net
from tests.support.queries import STREAMS, Tables, histories, queries, rows_of, several_queries, streams_of, tables
from tests.support.sum_queries import guarded_sums, sum_queries
from tests.support.wild import KINDS, overflows_without_need

many = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None, max_examples=400
)


def nodes(node: syntax.Node) -> Iterator[syntax.Node]:
    yield node
    for child in syntax.children(node):
        yield from nodes(child)


def occurrences(select: syntax.Select) -> int:
    """The number of occurrences of streams in the generators of a select, nested ones included."""
    return sum(
        isinstance(node, syntax.Name) and node.name in STREAMS
        for generator in select.generators
        for node in nodes(generator.source)
    )


def group_depth(node: syntax.Node) -> int:
    """How deep group-bys are nested, each over the result of the next."""
    inner = max((group_depth(child) for child in syntax.children(node)), default=0)
    if not isinstance(node, syntax.Select):
        return inner
    sources = max(group_depth(generator) for generator in node.generators)
    return max(inner, sources + (node.group is not None))


def features(text: str) -> Iterator[str]:
    """The constructs that a query has."""
    program = parse_program(text)
    yield f"{min(group_depth(program), 3)} group-bys"
    yield from (["a date"] if re.search(r"\.E\b", text) else [])
    yield from (["a tuple or bag as a key"] if re.search(r"group by (\w+: )?\w+\.[TBIW]\b(?!#)", text) else [])
    yield from (["a bag as a key"] if re.search(r"group by (\w+: )?\w+\.[BIW]\b(?!#)", text) else [])
    yield from (["one group"] if re.search(r"group by \w+: \(\)", text) else [])
    yield from (["a join by tuples or bags"] if re.search(r"\.([TBIW]) = \w+\.\1\b(?!#)", text) else [])
    for node in nodes(program):
        match node:
            case syntax.Call(function) if function in AGGREGATIONS:
                yield function
            case syntax.Select():
                yield f"{min(occurrences(node), 4)} occurrences"
                having = node.group.having if node.group is not None else None
                for place, part in (("head", node.head), ("where", node.where), ("having", having)):
                    if part is not None and any(isinstance(inner, syntax.Select) for inner in nodes(part)):
                        yield f"a select in {place}"
                yield from (["distinct"] if node.distinct else [])
                yield from (["several expressions"] if re.match(r"select [\w.]+,", node.span.text) else [])
                sources = (inner for generator in node.generators for inner in nodes(generator.source))
                if any(isinstance(i, syntax.Select) and i.order and i.order.limit is not None for i in sources):
                    yield "a limit in from"
                if node.order is not None:
                    yield "order by" if node.order.limit is None else "limit"
            case syntax.Binary(syntax.BinaryOp.UNION):
                yield "union"
            case _:
                pass


WANTED = {
    *AGGREGATIONS,
    *("2 occurrences", "3 occurrences", "4 occurrences", "1 group-bys", "2 group-bys", "3 group-bys"),
    *(
        "a date",
        "a tuple or bag as a key",
        "a bag as a key",
        "one group",
        "a join by tuples or bags",
        "a limit in from",
    ),
    *(
        "several expressions",
        "a select in head",
        "a select in where",
        "a select in having",
        "distinct",
        "order by",
        "limit",
        "union",
    ),
}
"""The features that 400 queries must have, each in five of them at least. New forms of queries are listed here."""


def test_generated_queries_have_everything_in_them() -> None:
    """Each wanted feature is in five of the generated queries at least."""
    found: Counter[str] = Counter()

    @seed(3)
    @many
    @given(queries())
    def generate(text: str) -> None:
        found.update(set(features(text)))

    generate()
    assert {feature: found[feature] for feature in WANTED if found[feature] < 5} == {}


def test_several_queries_are_one_program() -> None:
    """A tuple of queries has the number of parts asked for, whatever they define."""

    @seed(1)
    @settings(many, max_examples=30)
    @given(several_queries(3))
    def generate(text: str) -> None:
        *_, last = parse_program(text).statements
        assert isinstance(last, syntax.ExprStatement)
        assert isinstance(last.expr, syntax.TupleExpr)
        assert len(last.expr.items) == 3

    generate()


def test_generated_histories_have_everything_in_them() -> None:
    """Histories have duplicates, missing and negative values, empty batches, and keys that vanish and return."""
    found: Counter[str] = Counter()

    @seed(1)
    @many
    @given(st.data())
    def generate(data: st.DataObject) -> None:
        history = data.draw(histories("select x from x in X, y in Y", deletions=True))
        found.update(set(happenings(history)))

    generate()
    wanted = (
        *("duplicates", "missing", "negative", "an empty batch", "a key returns", "gone at once", "nothing left"),
        *("a row passes by", "a group is emptied"),
    )
    assert {what: found[what] for what in wanted if found[what] < 8} == {}


def happenings(history: list[Batch]) -> Iterator[str]:
    """What happens to the stream X in a history."""
    seen: set[Value] = set()
    before: set[Value] = set()
    for n, batch in enumerate(history, start=1):
        rows = list(net(history[:n], ["X", "Y"])["X"])
        keys = {row["A"] for row in rows}
        if len({canonical(row) for row in rows}) < len(rows):
            yield "duplicates"
        if None in keys:
            yield "missing"
        if any(row["D"] is not None and row["D"] < 0 for row in rows):
            yield "negative"
        if not any(batch.inserted.values()) and not any(batch.deleted.values()):
            yield "an empty batch"
        if (keys - before) & seen:
            yield "a key returns"
        if {canonical(row) for row in batch.inserted.get("X", ())} & {canonical(r) for r in batch.deleted.get("X", ())}:
            yield "gone at once"
        if seen and not rows:
            yield "nothing left"
        come, gone = (Counter(map(canonical, side.get("X", ()))) for side in (batch.inserted, batch.deleted))
        if any(come[row] == gone[row] for row in come):
            yield "a row passes by"
        if rows and before - keys:
            yield "a group is emptied"
        seen |= keys
        before = keys


def test_generated_tables() -> None:
    """Each stream of a query is a static table now and then, but never are all of them."""
    found: Counter[tuple[str, ...]] = Counter()

    @seed(1)
    @settings(many, max_examples=200)
    @given(tables("select (x, y, p) from x in X, y in Y, p in P"))
    def generate(drawn: Tables) -> None:
        found[tuple(drawn)] += 1

    generate()
    assert {*found} == {(), ("P",), ("X",), ("Y",), ("P", "X"), ("P", "Y"), ("X", "Y")}
    assert min(found.values()) >= 5


@pytest.mark.parametrize("wild", sorted(KINDS))
def test_generated_wild_values(wild: str) -> None:
    """All values of a kind are drawn, beside tame ones."""
    found: Counter[str] = Counter()

    @seed(1)
    @many
    @given(st.tuples(*(rows_of(name, wild) for name in STREAMS)))
    def generate(drawn: tuple[Value, ...]) -> None:
        found.update(map(repr, atoms_in(drawn)))

    generate()
    values = {repr(value) for kind in KINDS[wild].values() for value in kind}
    assert {value: found[value] for value in (*values, "1") if found[value] < 8} == {}


def test_generated_rows_lack_parts() -> None:
    """Each tuple, record and collection in a row is missing now and then, and so is each element of a bag of such."""
    found: Counter[str] = Counter()

    @seed(1)
    @many
    @given(st.tuples(*(rows_of(name, None) for name in STREAMS)))
    def generate(drawn: tuple[Value, ...]) -> None:
        for (name, t), row in zip(STREAMS.items(), drawn, strict=True):
            assert isinstance(t, ty.BagType)
            found.update({place for place, value in parts_of(row, t.item, name) if value is None})

    generate()
    places = {place for name, t in STREAMS.items() for place, _ in parts_of(None, t.item, name)}
    assert len(places) > 5
    assert {place: found[place] for place in places if found[place] < 8} == {}


def parts_of(value: Value, t: ty.Type, place: str) -> Iterator[tuple[str, Value]]:
    """The parts of a value, or of its type if the value is missing, that are not basic, each with its place."""
    match t:
        case ty.BagType(item) | ty.ListType(item):
            for part in [None] if value is None else value:
                yield from ((at, each) for at, each in _part(part, item, f"{place}[]", known=value is not None))
        case ty.TupleType(items):
            for i, item in enumerate(items):
                yield from _part(None if value is None else value[i], item, f"{place}#{i}", known=value is not None)
        case ty.RecordType(fields):
            for name, item in fields:
                part = None if value is None else value[name]
                yield from _part(part, item, f"{place}.{name}", known=value is not None)


def _part(value: Value, t: ty.Type, place: str, *, known: bool) -> Iterator[tuple[str, Value]]:
    if isinstance(t, ty.Basic | ty.DecimalType):
        return
    yield place, value if known else ...
    yield from parts_of(value, t, place)


def atoms_in(value: Value) -> Iterator[Value]:
    match value:
        case Record():
            yield from (atom for part in value.fields.values() for atom in atoms_in(part))
        case tuple() | Bag():
            yield from (atom for part in value for atom in atoms_in(part))
        case _:
            yield value


def test_sums_over_joins_are_queries() -> None:
    """Generated sums over joins are well-typed, and most have products in them."""
    found: Counter[bool] = Counter()

    @seed(1)
    @settings(many, max_examples=200)
    @given(sum_queries())
    def generate(text: str) -> None:
        mrql.compile(text, **STREAMS)
        found["*" in text] += 1

    generate()
    assert found[True] > found[False]


def test_sums_that_are_not_always_asked_for_are_queries() -> None:
    """Generated guarded sums are well-typed, and each form of them occurs."""
    found: Counter[str] = Counter()

    @seed(1)
    @settings(many, max_examples=100)
    @given(guarded_sums())
    def generate(text: str) -> None:
        mrql.compile(text, **STREAMS)
        found.update(form for form in ("having", "(k, if", "where", "else", "if max(select") if form in text)

    generate()
    assert min(found.values()) > 5
    assert len(found) == 5


def test_streams_of_a_query() -> None:
    """The streams of a query are those that it names, and no others."""
    assert streams_of("select (x.D, P1) from x in X, y in Y, P1 in {X}") == ("X", "Y")


@pytest.mark.parametrize(
    ("text", "without_need", "on_spark"),
    [
        ("select x.A + 1 from x in X where x.A + 1 = 2", False, False),
        ("sum(select x.A * y#1 from x in X, y in Y where x.B = y#0)", False, True),
        ("select x from x in X, y in Y where x.A + 1 = y#1", True, True),
        ("select x from x in X, y in Y where x.A = y#1 and x.A + 1 > 2", True, True),
        ("select sum(select y#1 + 1 from y in Y where y#0 = x.B and y#1 * 2 > 3) from x in X", False, True),
        ("select x from x in X where x.A in (select y#1 + 1 from y in Y)", True, True),
    ],
)
def test_where_overflows_may_be_without_need(text: str, without_need: bool, on_spark: bool) -> None:
    """Extremes alone overflow without need: in terms for rows without a partner, or on Spark for rows that are gone."""
    assert overflows_without_need(text, "extremes") == without_need
    assert overflows_without_need(text, "extremes", gone=True) == on_spark
    assert not any(overflows_without_need(text, wild, gone=True) for wild in KINDS if wild != "extremes")
