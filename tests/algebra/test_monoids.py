"""The laws of every monoid: those that it declares hold, those that it does not declare fail somewhere."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from functools import reduce as fold_left

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.merge import combine, unit, zero
from mrql.algebra.monoids import (
    Aggregate,
    BagUnion,
    Invariant,
    Keyed,
    ListAppend,
    Monoid,
    ProductMonoid,
    is_commutative,
    is_group,
    is_idempotent,
    result_type,
)
from mrql.algebra.notation.parser import parse_monoid, parse_type
from mrql.algebra.values.values import Bag, Value, canonical, same
from mrql.algebra.values.zset import ZSet

Weighted = Value
"""A monoid's carrier with weights in place of multiplicities: numbers, Z-sets, tuples and dictionaries of such."""

BASIC: list[Monoid] = [*map(Aggregate, mo.OPS.values()), mo.BAG, mo.LIST]
PRODUCTS: list[Monoid] = [
    ProductMonoid(()),
    ProductMonoid((mo.SUM, mo.SUM)),
    ProductMonoid((mo.SUM, mo.MAX)),
    ProductMonoid((mo.MIN, mo.MAX, mo.OR)),
    ProductMonoid((mo.BAG, mo.LIST)),
    ProductMonoid((mo.SUM, ProductMonoid((mo.BAG, mo.SUM)))),
]
KEYED: list[Monoid] = [Keyed(m) for m in (*BASIC, *PRODUCTS, mo.INVARIANT)]
NESTED: list[Monoid] = [
    Keyed(Keyed(mo.SUM)),
    Keyed(Keyed(mo.BAG)),
    Keyed(ProductMonoid((mo.SUM, Keyed(mo.MIN)))),
    ProductMonoid((Keyed(mo.SUM), Keyed(mo.LIST))),
]
MONOIDS = [*BASIC, *PRODUCTS, *KEYED, *NESTED]

every_monoid = pytest.mark.parametrize("m", MONOIDS, ids=str)
few = settings(max_examples=10, deadline=None, database=None)
searching = settings(max_examples=2000, database=None, derandomize=True, phases=[Phase.generate])


@cache
def elements(m: Monoid) -> st.SearchStrategy[Value]:
    """The elements of a collection that `⊕` reduces."""
    match m:
        case Aggregate():
            return st.none() | (st.integers(-3, 3) if result_type(m, ty.INT) is not None else st.booleans())
        case BagUnion() | ListAppend():
            return st.none() | st.integers(0, 3)
        case ProductMonoid(items):
            return st.tuples(*map(elements, items))
        case Keyed(value):
            return st.tuples(keys(), carrier(value))
        case Invariant():
            return st.just("fixed")


def keys() -> st.SearchStrategy[Value]:
    return st.sampled_from(["a", "b", None])


@cache
def carrier(m: Monoid) -> st.SearchStrategy[Value]:
    """The values that `⊕` combines: units of elements, combined."""
    if m == mo.INVARIANT:
        return elements(m)
    return st.lists(elements(m), max_size=3).map(lambda xs: reduced(m, xs))


def reduced(m: Monoid, items: list[Value]) -> Value:
    return fold_left(lambda a, b: combine(m, a, b), [unit(m, x) for x in items], zero(m))


def has_witness(strategy: st.SearchStrategy[Value], condition: Callable[[Value], bool]) -> bool:
    """Whether some example has the property; `find` raises when it sees none."""
    return condition(find(strategy, condition, settings=searching))


# --- the laws of a monoid -----------------------------------------------------------------------


@every_monoid
@few
@given(st.data())
def test_associativity(m: Monoid, data: st.DataObject) -> None:
    """`(x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)`."""
    x, y, z = (data.draw(carrier(m)) for _ in range(3))
    assert same(combine(m, combine(m, x, y), z), combine(m, x, combine(m, y, z)))


@every_monoid
@few
@given(st.data())
def test_identity(m: Monoid, data: st.DataObject) -> None:
    """`0 ⊕ x = x = x ⊕ 0`."""
    x = data.draw(carrier(m))
    assert same(combine(m, zero(m), x), x)
    assert same(combine(m, x, zero(m)), x)


@every_monoid
@few
@given(st.data())
def test_homomorphism(m: Monoid, data: st.DataObject) -> None:
    """`reduce(⊕, X ++ Y) = reduce(⊕, X) ⊕ reduce(⊕, Y)`: the equation on which incremental evaluation rests."""
    xs, ys = (data.draw(st.lists(elements(m), max_size=4)) for _ in range(2))
    assert same(reduced(m, xs + ys), combine(m, reduced(m, xs), reduced(m, ys)))


# --- declared laws ------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [m for m in MONOIDS if is_commutative(m)], ids=str)
@few
@given(st.data())
def test_declared_commutativity(m: Monoid, data: st.DataObject) -> None:
    """`x ⊕ y = y ⊕ x`; then `reduce` does not depend on the order of the elements."""
    x, y = data.draw(carrier(m)), data.draw(carrier(m))
    assert same(combine(m, x, y), combine(m, y, x))
    xs = data.draw(st.lists(elements(m), max_size=4))
    assert same(reduced(m, xs), reduced(m, data.draw(st.permutations(xs))))


@pytest.mark.parametrize("m", [m for m in MONOIDS if not is_commutative(m)], ids=str)
def test_undeclared_commutativity(m: Monoid) -> None:
    """A monoid that is not declared commutative is not: some `x ⊕ y ≠ y ⊕ x`."""
    pairs = st.tuples(carrier(m), carrier(m))
    assert has_witness(pairs, lambda p: not same(combine(m, p[0], p[1]), combine(m, p[1], p[0])))


@pytest.mark.parametrize("m", [m for m in MONOIDS if is_idempotent(m)], ids=str)
@few
@given(st.data())
def test_declared_idempotence(m: Monoid, data: st.DataObject) -> None:
    """`x ⊕ x = x`: multiplicities do not matter."""
    x = data.draw(carrier(m))
    assert same(combine(m, x, x), x)


@pytest.mark.parametrize("m", [m for m in MONOIDS if not is_idempotent(m)], ids=str)
def test_undeclared_idempotence(m: Monoid) -> None:
    """A monoid that is not declared idempotent is not: some `x ⊕ x ≠ x`."""
    assert has_witness(carrier(m), lambda x: not same(combine(m, x, x), x))


def test_what_is_declared() -> None:
    """The basic monoids' laws, as [MRQL] §5 has them; products and keyed merges have those of their parts."""
    assert {str(m) for m in BASIC if not is_commutative(m)} == {"++"}
    assert {str(m) for m in BASIC if is_idempotent(m)} == {"min", "max", "∧", "∨"}
    assert {str(m) for m in BASIC if is_group(m)} == {"+", "⊎"}
    for law in (is_commutative, is_idempotent, is_group):
        for m in PRODUCTS:
            assert isinstance(m, ProductMonoid)
            assert law(m) is all(map(law, m.items))
        for m in KEYED:
            assert isinstance(m, Keyed)
            assert law(m) is law(m.value)


# --- groups -------------------------------------------------------------------------------------


def weigh(m: Monoid, x: Value) -> Weighted:
    """A value in the carrier with weights: bags become Z-sets ([DBSP] §2), keyed collections dictionaries."""
    match m:
        case BagUnion():
            return ZSet.of(x)
        case ProductMonoid(items):
            return tuple(weigh(item, part) for item, part in zip(items, x, strict=True))
        case Keyed(value):
            return {canonical(k): weigh(value, v) for k, v in x}
        case _:
            return x


def add(m: Monoid, a: Weighted, b: Weighted) -> Weighted:
    match m:
        case ProductMonoid(items):
            return tuple(add(item, x, y) for item, x, y in zip(items, a, b, strict=True))
        case Keyed(value):
            # A key that only one side has keeps its value: its value on the other side is the zero.
            return {k: add(value, a[k], b[k]) if k in a and k in b else a.get(k, b.get(k)) for k in a | b}
        case Aggregate() | Invariant():
            return combine(m, a, b)
        case _:
            return a + b


def inverse(m: Monoid, a: Weighted) -> Weighted:
    match m:
        case ProductMonoid(items):
            return tuple(inverse(item, x) for item, x in zip(items, a, strict=True))
        case Keyed(value):
            return {k: inverse(value, v) for k, v in a.items()}
        case Aggregate(op):
            assert op.inverse is not None
            return op.inverse(a)
        case Invariant():
            return a  # what does not change is its own inverse
        case _:
            return -a


def is_zero(m: Monoid, a: Weighted) -> bool:
    match m:
        case ProductMonoid(items):
            return all(is_zero(item, x) for item, x in zip(items, a, strict=True))
        case Keyed(value):
            return all(is_zero(value, v) for v in a.values())
        case Invariant():
            return True
        case _:
            return bool(a == weigh(m, zero(m)))


GROUPS = [m for m in MONOIDS if is_group(m)]


@pytest.mark.parametrize("m", GROUPS, ids=str)
@few
@given(st.data())
def test_weights_are_a_homomorphism(m: Monoid, data: st.DataObject) -> None:
    """Giving weights first or combining first makes no difference: `w(x ⊕ y) = w(x) + w(y)`."""
    x, y = data.draw(carrier(m)), data.draw(carrier(m))
    assert weigh(m, combine(m, x, y)) == add(m, weigh(m, x), weigh(m, y))


@pytest.mark.parametrize("m", GROUPS, ids=str)
@few
@given(st.data())
def test_group_inverse(m: Monoid, data: st.DataObject) -> None:
    """`x ⊕ y ⊕ -y = x` with weights: a deletion undoes an insertion, and `x ⊕ -x` consists of zeros."""
    x, y = weigh(m, data.draw(carrier(m))), weigh(m, data.draw(carrier(m)))
    assert is_zero(m, add(m, x, inverse(m, x)))
    back = add(m, add(m, x, y), inverse(m, y))
    assert is_zero(m, add(m, back, inverse(m, x)))


def test_a_zero_value_is_not_an_absent_key() -> None:
    """`⇑+` leaves a key with the sum 0: its support, not its value, says whether it exists ([MRQL] Def. 6)."""
    m = Keyed(mo.SUM)
    assert combine(m, Bag([("k", 5)]), Bag([("k", -5)])) == Bag([("k", 0)])


@pytest.mark.parametrize("m", [m for m in MONOIDS if not is_group(m)], ids=str)
def test_undeclared_inverse(m: Monoid) -> None:
    """Without a group some deletion has no answer: `x ⊕ y = x' ⊕ y` with `x ≠ x'`, or no list can be emptied."""
    if "++" in str(m):
        # Lists can be cancelled but not emptied: no list that is not empty has an inverse.
        assert has_witness(
            st.tuples(carrier(m), carrier(m)), lambda p: not same(p[0], zero(m)) and _grows(m, p[0], p[1])
        )
        return
    triples = st.tuples(carrier(m), carrier(m), carrier(m))
    assert has_witness(triples, lambda t: not same(t[0], t[1]) and same(combine(m, t[0], t[2]), combine(m, t[1], t[2])))


def _grows(m: Monoid, x: Value, y: Value) -> bool:
    return canonical(combine(m, x, y)) != canonical(y)


# --- □ ------------------------------------------------------------------------------------------


def test_invariant_keeps_what_is_equal() -> None:
    """`x □ x = x`, by the equality of values.  Source: [MRQL] §7."""
    assert combine(mo.INVARIANT, (1, "a"), (1.0, "a")) == (1, "a")
    assert unit(mo.INVARIANT, "a") == "a"
    assert is_commutative(mo.INVARIANT)
    assert is_idempotent(mo.INVARIANT)


def test_invariant_refuses_change() -> None:
    """`x □ y` is an error where `x ≠ y`, and there is no value that an absent key could have."""
    with pytest.raises(InternalError, match="two different values: 1 and 2"):
        combine(mo.INVARIANT, 1, 2)
    with pytest.raises(InternalError, match="no zero"):
        zero(mo.INVARIANT)


# --- units, types, names ------------------------------------------------------------------------


@pytest.mark.parametrize("op", mo.OPS.values(), ids=str)
def test_missing_values_are_skipped(op: mo.Op) -> None:
    """`unit(null)` is the zero of every aggregation."""
    assert unit(Aggregate(op), None) == zero(Aggregate(op)) == op.zero


@pytest.mark.parametrize("op", mo.OPS.values(), ids=str)
def test_every_row_of_the_table_is_written_read_and_sent(op: mo.Op) -> None:
    """An operation is written and read by its sign, in a term and when it is pickled."""
    assert mo.OPS[op.sign] is op
    assert parse_monoid(op.sign) == Aggregate(op)
    assert pickle.loads(pickle.dumps(op)) is op
    assert op.meaning


def test_missing_tuples_are_skipped() -> None:
    """In a product, a missing part and a missing tuple are skipped."""
    m = ProductMonoid((mo.SUM, mo.MAX))
    assert unit(m, (None, 3)) == (0, 3)
    assert unit(m, None) == (0, None)


def test_missing_elements_of_collections_are_kept() -> None:
    """In a bag or a list a missing value is an element like any other."""
    assert unit(mo.BAG, None) == Bag([None])
    assert unit(mo.LIST, None) == [None]


def test_extremes_of_mixed_values() -> None:
    """The order is that of `canonical`: NaN is greater than any number."""
    nan = float("nan")
    assert same(reduced(mo.MAX, [1.0, nan, None]), nan)
    assert reduced(mo.MIN, [1.0, nan, None]) == 1.0
    assert reduced(mo.MIN, []) is None
    assert reduced(mo.MAX, ["b", "a"]) == "b"


def test_keyed_merge_is_a_full_outer_join() -> None:
    """[MRQL] (5): keys of either side, the values of both merged; missing keys are one key."""
    left = Bag([("a", 1), (None, 2)])
    right = Bag([("b", 3), (None, 4)])
    assert combine(Keyed(mo.SUM), left, right) == Bag([("a", 1), ("b", 3), (None, 6)])
    inner = Keyed(Keyed(mo.BAG))
    assert combine(inner, Bag([("a", Bag([(1, Bag([7]))]))]), Bag([("a", Bag([(1, Bag([7])), (2, Bag())]))])) == Bag(
        [("a", Bag([(1, Bag([7, 7])), (2, Bag())]))]
    )


def test_group_by_is_a_keyed_merge() -> None:
    """`groupBy(X) = reduce(⇑⊎, cMap(λ(k, a). {(k, {a})}, X))`."""
    pairs = [("a", 1), ("b", 2), ("a", 1)]
    assert reduced(Keyed(mo.BAG), [(k, Bag([a])) for k, a in pairs]) == Bag([("a", Bag([1, 1])), ("b", Bag([2]))])


@pytest.mark.parametrize(
    ("m", "element", "result"),
    [
        (mo.SUM, "int", "long"),
        (mo.SUM, "float", "double"),
        (mo.SUM, "nothing", "long"),
        (mo.SUM, "string", None),
        (mo.PRODUCT, "double", "double"),
        (mo.MIN, "string", "string"),
        (mo.MAX, "(int, float)", "(int, float)"),
        (mo.AND, "bool", "bool"),
        (mo.OR, "nothing", "bool"),
        (mo.OR, "int", None),
        (mo.BAG, "int", "{int}"),
        (mo.LIST, "int", "[int]"),
        (mo.INVARIANT, "int", "int"),
        (ProductMonoid((mo.SUM, mo.BAG)), "(int, int)", "(long, {int})"),
        (ProductMonoid((mo.SUM, mo.BAG)), "(int)", None),
        (ProductMonoid((mo.SUM, mo.BAG)), "int", None),
        (ProductMonoid((mo.SUM, mo.SUM)), "(int, string)", None),
        (Keyed(mo.SUM), "(string, long)", "{(string, long)}"),
        (Keyed(mo.SUM), "long", None),
        (Keyed(mo.SUM), "(int, int, int)", None),
    ],
)
def test_result_types(m: Monoid, element: str, result: str | None) -> None:
    """The type of `reduce(⊕, {element})`: sums are widened, products go part by part."""
    assert result_type(m, parse_type(element)) == (None if result is None else parse_type(result))


def test_names() -> None:
    """A monoid prints as its sign."""
    assert str(Keyed(ProductMonoid((mo.SUM, mo.AND, Keyed(mo.LIST))))) == "⇑(+ × ∧ × ⇑++)"
    assert str(mo.INVARIANT) == "□"


def test_a_missing_pair_has_the_zero_under_a_missing_key() -> None:
    """A missing pair is merged as a missing key with the zero, as if a pattern took it apart."""
    keyed = Keyed(mo.SUM)
    found = combine(keyed, unit(keyed, None), combine(keyed, unit(keyed, (1, None)), unit(keyed, (1, 2))))
    assert found == Bag([(None, 0), (1, 2)])
