"""Operators built in Python, in the reference engine: the examples of the documents, and the laws of streams."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra import build as b
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.build import Expr
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Stream
from mrql.algebra.values.values import Bag
from mrql.algebra.values.zset import ZSet
from mrql.explain import require_incremental
from mrql.streams import (
    consolidate,
    delay,
    differentiate,
    distinct,
    incremental,
    inspect,
    integrate,
    lift,
    maintained,
    query,
)
from tests.support.operator_cases import EXAMPLES, JOINED, NAMESAKES, NUMBERS, Example, Rows, by_name, zset
from tests.support.planning import planned

few = settings(max_examples=25, deadline=None, database=None)


def names_of(built: Expr) -> list[str]:
    return sorted({term.name for term in subterms(built.term) if isinstance(term, Stream)})


def from_scratch(built: Expr, batches: Sequence[Mapping[str, ZSet]]) -> list[ZSet]:
    """`Q^Δ` by its definition."""
    names, ask = names_of(built), query(built)
    operator_ = lift(lambda *sources: ask(**dict(zip(names, sources, strict=True))))
    return list(incremental(operator_)(*([batch.get(n, ZSet()) for batch in batches] for n in names)))


@pytest.mark.parametrize("example", EXAMPLES, ids=by_name)
def test_examples_of_the_documents(example: Example) -> None:
    """By its definition and in a view, the answer changes as the document says."""
    batches = [{name: zset(rows) for name, rows in batch.items()} for batch in example.batches]
    expected = [zset(rows) for rows in example.changes]
    assert from_scratch(example.built, batches) == expected
    assert list(maintained(example.built, batches)) == expected


# --- operators of one time ----------------------------------------------------------------------


def test_consolidate() -> None:
    """[RZ] 2.9.2."""
    weights = [(0, 0, 1), (0, 0, -1), (0, 1, 1), (0, 1, 1), (1, 2, 2), (1, 3, 1), (1, 3, -1), (1, 4, -1), (2, 2, 1)]
    trace = [zset({(key, value): weight}) for key, value, weight in [*weights, (2, 4, 1)]]
    assert consolidate(trace) == zset({(0, 1): 2, (1, 2): 2, (1, 4): -1, (2, 2): 1, (2, 4): 1})


def test_distinct() -> None:
    """[RZ] 2.9.3."""
    assert distinct(zset({0: 1, 1: 2, 2: -1, 3: 0})) == zset({0: 1, 1: 1})


@pytest.mark.parametrize(
    ("trace", "changes"), [({0: 1}, {2: 1}), ({2: 1, 3: 1}, {0: 1, 3: -1}), ({0: -1}, {0: 1, 2: 1})]
)
def test_distinct_incremental(trace: Rows, changes: Rows) -> None:
    """[RZ] 2.9.18."""
    _, found = incremental(lift(distinct))([zset(trace), zset({0: 2, 2: 1, 3: -1})])
    assert found == zset(changes)


def nested(op: Callable[[list[ZSet]], object]) -> Callable[[list[list[ZSet]]], list[list[ZSet]]]:
    """An operator over the iterations of each epoch, and then over the epochs of each iteration."""

    def both(rows: list[list[ZSet]]) -> list[list[ZSet]]:
        inner = [list(op(row)) for row in rows]  # type: ignore[call-overload]
        outer = [list(op(list(column))) for column in zip(*inner, strict=True)]  # type: ignore[call-overload]
        return [list(row) for row in zip(*outer, strict=True)]

    return both


def test_distinct_trace() -> None:
    """[RZ] 2.9.11: the same in two directions of time, epochs and the iterations in each."""
    b00, b01, b10 = {0: 1, 2: 1, 3: -1}, {5: 1}, {5: 1}
    b11 = {0: 1, 1: 1, 2: -1, 3: 1, 4: -1}
    epochs = [[zset(b00), zset(b01)], [zset(b10), zset(b11)]]

    whole = nested(integrate)(epochs)
    found = nested(differentiate)([[distinct(rows) for rows in row] for row in whole])
    assert found == [[zset({0: 1, 2: 1}), zset({5: 1})], [zset({5: 1}), zset({1: 1, 2: -1, 5: -1})]]


def test_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    """[RZ] 2.9.6: `inspect` shows the rows that pass through, of a stream and in a term."""
    rows, seen = [zset({0: 1, 1: 1})], list[ZSet]()
    assert list(inspect(seen.append, rows)) == rows == seen
    assert evaluate(b.inspect(NUMBERS).term, {"S": Bag([0, 1])}) == Bag([0, 1])
    assert "trace: {0, 1}" in capsys.readouterr().err


def test_negate() -> None:
    """[RZ] 2.9.8."""
    assert -zset({0: 1, 1: -1, 2: -2}) == zset({0: -1, 1: 1, 2: 2})


def test_minus_and_plus() -> None:
    """[RZ] 2.9.14 and 2.9.15."""
    left, right = zset({0: 1, 1: 1, 2: 2, 3: 1}), zset({0: 1, 1: -1, 2: 1})
    assert left - right == zset({1: 2, 2: 1, 3: 1})
    assert left + right == zset({0: 2, 2: 3, 3: 1})


def test_arithmetic() -> None:
    """[ST] Representing changes to the database."""
    more = zset({(24, "Bob"): 3, (4, "Steve"): -1})
    assert zset({(24, "Bob"): 1}) + more == zset({(24, "Bob"): 4, (4, "Steve"): -1})
    assert more + more + more == zset({(24, "Bob"): 9, (4, "Steve"): -3})


def test_delay() -> None:
    """[ST] Delays; [RZ] 2.9.9 and 2.9.10."""
    assert list(delay([zset({"first": 1}), zset({"second": 1})])) == [ZSet(), zset({"first": 1})]


def test_integrate_and_differentiate() -> None:
    """[ST] Integration, Differentiation; [RZ] 2.9.16 and 2.9.17."""
    changes = [zset({"a": 1}), zset({"b": -1}), zset({"a": 4})]
    whole = [zset({"a": 1}), zset({"a": 1, "b": -1}), zset({"a": 5, "b": -1})]
    assert list(integrate(changes)) == whole
    assert list(differentiate(whole)) == changes


def test_what_is_no_query_over_weighted_bags() -> None:
    """A number, a term with a free variable, negative weights and a wrong side of an outer join are refused."""
    with pytest.raises(UserError, match="gives a bag, not long"):
        query(b.count(NUMBERS))
    with pytest.raises(UserError, match="n is not bound"):
        next(maintained(b.filter(lambda x: x > b.var("n", "int"), NUMBERS), []))
    with pytest.raises(ValueError, match="more often"):
        query(NUMBERS)(S=zset({1: -1}))
    with pytest.raises(UserError, match="no side"):
        b.outer_join(NUMBERS, NUMBERS, lambda x: x, lambda x: x, lone="neither")


# --- laws ---------------------------------------------------------------------------------------

weighted = st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(-2, 2), max_size=4).map(zset)
streams = st.lists(weighted, max_size=5)
two_streams = st.lists(st.tuples(weighted, weighted), max_size=4)


def keyed_pairs(left: ZSet, right: ZSet) -> ZSet:
    """`left ⋈ right` of pairs by their first parts: weights are multiplied."""
    return ZSet.weighted(((k, (v, w)), m * n) for (k, v), m in left for (other, w), n in right if k == other)


def added(*streams_: object) -> list[ZSet]:
    return list(lift(operator.add)(*streams_))


@few
@given(streams)
def test_differentiation_is_the_inverse_of_integration(s: list[ZSet]) -> None:
    """`D(I(s)) = s = I(D(s))`.  Source: [DBSP] Thm. 2.20."""
    assert list(differentiate(integrate(s))) == s == list(integrate(differentiate(s)))


@few
@given(streams)
def test_integration_is_a_fixpoint(s: list[ZSet]) -> None:
    """`I(s) = s + z⁻¹(I(s))`, and `D(s) = s − z⁻¹(s)`.  Source: [DBSP] §2.2."""
    whole = list(integrate(s))
    assert whole == added(s, delay(whole))
    assert list(differentiate(s)) == list(lift(operator.sub)(s, delay(s)))


@few
@given(streams)
def test_the_chain_rule(s: list[ZSet]) -> None:
    """`(Q₁ ∘ Q₂)^Δ = Q₁^Δ ∘ Q₂^Δ`.  Source: [DBSP] Prop. 3.2."""
    first, second = lift(distinct), lift(lambda z: ZSet.weighted(((v, k), n * n) for (k, v), n in z))
    assert list(incremental(lambda x: first(second(x)))(s)) == list(incremental(first)(incremental(second)(s)))


@few
@given(two_streams)
def test_the_sum_rule(s: list[tuple[ZSet, ZSet]]) -> None:
    """`(Q₁ + Q₂)^Δ = Q₁^Δ + Q₂^Δ`.  Source: [DBSP] Prop. 3.2."""
    left, right = [x for x, _ in s], [y for _, y in s]
    first, second = lift(keyed_pairs), lift(lambda x, y: distinct(x + y))
    whole = incremental(lambda x, y: added(*map(list, _twice(first, second, x, y))))(left, right)
    assert list(whole) == added(incremental(first)(left, right), incremental(second)(left, right))


def _twice(first: Callable[..., object], second: Callable[..., object], x: object, y: object) -> list[object]:
    xs, ys = list(x), list(y)  # type: ignore[call-overload]
    return [first(xs, ys), second(xs, ys)]


@few
@given(streams)
def test_the_linear_rule(s: list[ZSet]) -> None:
    """`Q^Δ = Q` where `Q` is linear.  Source: [DBSP] Thm. 3.3."""
    linear = lift(lambda z: ZSet.weighted((v, n) for (k, v), n in z if k > 0))
    assert list(incremental(linear)(s)) == list(linear(s))
    assert list(incremental(delay)(s)) == list(delay(s))


@few
@given(two_streams)
def test_the_bilinear_rule(s: list[tuple[ZSet, ZSet]]) -> None:
    """`(a ⋈ b)^Δ = a ⋈ b + z⁻¹(I(a)) ⋈ b + a ⋈ z⁻¹(I(b)) = I(a) ⋈ b + a ⋈ I(z⁻¹(b))`.

    Source: [DBSP] Thm. 3.4; [RZ] 2.9.13 `incremental_join`; [ST] Incrementalizing join efficiently.
    """
    x, y, join = [x for x, _ in s], [y for _, y in s], lift(keyed_pairs)
    found = list(incremental(join)(x, y))
    three = added(added(join(x, y), join(delay(integrate(x)), y)), join(x, delay(integrate(y))))
    two = added(join(integrate(x), y), join(x, integrate(delay(y))))
    assert found == three == two


@few
@given(st.lists(st.tuples(weighted, weighted), min_size=1, max_size=3), st.sampled_from(["join", "outer", "closure"]))
def test_what_is_kept_up_to_date_is_the_definition(s: list[tuple[ZSet, ZSet]], which: str) -> None:
    """Over batches whose integrals are bags a view computes `D ∘ Q ∘ I`.  Source: [DBSP] §3."""
    C, D = (b.stream(name, "{(int, int)}") for name in "CD")

    def first(k: Expr, _v: Expr) -> Expr:
        return k

    built = {
        "join": b.distinct(b.join(C, D, first, first)),
        "outer": b.outer_join(C, D, first, first, lone="left"),
        "closure": b.transitive_closure(b.plus(C, D)),
    }[which]
    # The rows after each batch, as a bag; the batches are the differences.
    present = [{"C": ZSet.of(dict(left).keys()), "D": ZSet.of(dict(right).keys())} for left, right in s]
    batches = [
        {name: now[name] - before.get(name, ZSet()) for name in now}
        for now, before in zip_longest(present, [{}, *present[:-1]])
    ]
    assert list(maintained(built, batches)) == from_scratch(built, batches)


def test_static_tables_do_not_change() -> None:
    """A static table is given once, and joined with every batch."""
    table = b.table("T", "{int}")
    built = b.join(NUMBERS, table, lambda x: x, lambda x: x)
    assert list(maintained(built, [{"S": zset({1: 2, 3: 1})}], T=Bag([1]))) == [zset({(1, 1): 2})]


def test_joins_are_incremental() -> None:
    """A view of them recomputes nothing from a whole state."""
    for built in (JOINED, NAMESAKES, b.distinct(NUMBERS)):
        names = frozenset(names_of(built))
        require_incremental(planned(built.term, shrinking=names).plan)


def test_missing_keys_have_no_partner() -> None:
    """Elements with a missing key are alone in an outer join, and not in a join at all."""
    pairs = [b.stream(name, "{(string, int)}") for name in "AB"]

    def key(k: Expr, _v: Expr) -> Expr:
        return k

    batch = {"A": zset({(None, 1): 1, ("k", 2): 1}), "B": zset({(None, 3): 1, ("k", 4): 1})}
    partners = {(("k", 2), ("k", 4)): 1}
    left, right = {((None, 1), None): 1}, {(None, (None, 3)): 1}
    assert list(maintained(b.join(*pairs, key, key), [batch])) == [zset(partners)]
    for lone, alone in (("left", left), ("right", right), ("both", {**left, **right})):
        found = list(maintained(b.outer_join(*pairs, key, key, lone=lone), [batch]))
        assert found == [zset({**partners, **alone})]
