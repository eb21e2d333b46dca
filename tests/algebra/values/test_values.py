"""Values: one equality and one order for all of them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra.values.values import Bag, Record, Value, canonical, close, has_null, same
from tests.support.strategies import types, values

any_value = types().flatmap(values)
three_values = types().flatmap(lambda t: st.tuples(values(t), values(t), values(t)))

ORDERED: list[Value] = [
    None,
    False,
    True,
    -math.inf,
    -1,
    0,
    0.5,
    1,
    2**53,
    2**53 + 1,
    math.inf,
    math.nan,
    "",
    "A",
    "a",
    (),
    (None,),
    (1,),
    (1, 2),
    (2,),
    Record({}),
    Record({"A": 1}),
    Record({"A": 2}),
    Record({"B": 1}),
    [],
    [None],
    [1],
    [1, 1],
    [2],
    Bag(),
    Bag([1, 2]),
    Bag([1, 3]),
]


def test_the_order_of_values() -> None:
    """Missing values first, then by kind; NaN after all numbers; tuples, lists and bags part by part."""
    backwards = ORDERED[::-1]
    assert sorted(backwards, key=canonical) == ORDERED
    for a, b in itertools.pairwise(ORDERED):
        assert canonical(a) < canonical(b)


@given(three_values)
def test_order_is_total(triple: tuple[Value, Value, Value]) -> None:
    """Of two values of one type exactly one of `<`, `=`, `>` holds, and `<` is transitive."""
    a, b, c = sorted(map(canonical, triple))
    assert (a < b) + (a == b) + (b < a) == 1
    assert a <= b <= c
    assert a <= c


@given(any_value)
def test_equal_values_have_equal_hashes(value: Value) -> None:
    """The canonical form of a value can be the key of a dictionary."""
    assert {canonical(value): 1}[canonical(value)] == 1
    assert same(value, value)


@given(st.lists(types().flatmap(values), max_size=4).flatmap(lambda xs: st.tuples(st.just(xs), st.permutations(xs))))
def test_bags_have_no_order(pair: tuple[list[Value], list[Value]]) -> None:
    """A bag equals each of its permutations; a list does not."""
    items, shuffled = pair
    assert Bag(items) == Bag(shuffled)
    assert hash(Bag(items)) == hash(Bag(shuffled))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (math.nan, math.nan, True),
        (2**53 + 1, float(2**53), False),
        (1, True, False),
        (0, False, False),
        (None, 0, False),
        (None, None, True),
        ([1, 2], [2, 1], False),
        (Bag([1, 1]), Bag([1]), False),
        (Bag([1]), [1], False),
        ((1,), [1], False),
        (Record({"A": 1, "B": 2}), Record({"B": 2, "A": 1}), False),
        (Record({"A": 1}), (1,), False),
        (Bag([Bag([1, 2]), Bag()]), Bag([Bag(), Bag([2, 1])]), True),
    ],
)
def test_same(a: Value, b: Value, equal: bool) -> None:
    """Equality crosses number types and nothing else; NaN equals itself, multiplicity counts."""
    assert same(a, b) is equal
    assert same(b, a) is equal


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        (None, True),
        ((1, None), True),
        ((1, (2, None)), True),
        (Record({"A": None}), True),
        (Record({"A": (1, None)}), True),
        (0, False),
        ("", False),
        ((), False),
        ([None], False),
        (Bag([None]), False),
        ((1, Bag([None])), False),
    ],
)
def test_has_null(value: Value, missing: bool) -> None:
    """A tuple or record with a missing part joins with nothing; elements of collections do not matter."""
    assert has_null(value) is missing


@pytest.mark.parametrize(
    ("a", "b", "near"),
    [
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.001, False),
        (1e15, 1e15 + 1, True),
        (0.0, 1e-12, True),
        (1, 1.0, True),
        (1, 2, False),
        (1, 1.0 + 1e-12, True),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, 1e308, False),
        (True, 1.0, False),
        (None, 0.0, False),
        ((1.0, "a"), (1.0 + 1e-12, "a"), True),
        ((1.0,), (1.0, 2.0), False),
        (Record({"A": 1.0}), Record({"A": 1.0 + 1e-12}), True),
        (Record({"A": 1.0}), Record({"B": 1.0}), False),
        ([1.0, 2.0], [2.0, 1.0], False),
        (Bag([1.0, 2.0]), Bag([2.0 + 1e-12, 1.0]), True),
        (Bag([1.0]), Bag([1.0, 1.0]), False),
        ("a", "a", True),
    ],
)
def test_close(a: Value, b: Value, near: bool) -> None:
    """Equality up to rounding, the same in both directions."""
    assert close(a, b) is near
    assert close(b, a) is near


@given(any_value)
def test_close_is_reflexive(value: Value) -> None:
    """Every value is close to itself."""
    assert close(value, value)


def test_bag_is_a_collection() -> None:
    """Length, iteration and `⊎`."""
    bag = Bag([1]) + Bag([2, 1])
    assert len(bag) == 3
    assert sorted(bag) == [1, 1, 2]
    assert repr(Bag([1, "a"])) == "Bag([1, 'a'])"
    assert Bag([1]) != [1]


def test_record_is_a_mapping() -> None:
    """Fields by name, in their order."""
    record = Record({"A": 1, "B": None})
    assert record["A"] == 1
    assert repr(record) == "<A: 1, B: None>"
    assert hash(record) == hash(Record({"A": 1.0, "B": None}))


def test_other_python_values_are_refused() -> None:
    """A dictionary is not a value of the language."""
    with pytest.raises(TypeError, match="not a value of the language"):
        canonical({"A": 1})
