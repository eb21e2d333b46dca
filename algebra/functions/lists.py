"""Functions of lists. Functions that bags have as well are reductions and comprehensions of the language."""

from __future__ import annotations

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, clamped, fails, version
from mrql.algebra.functions.sql_text import begins_sql, let_sql
from mrql.algebra.memory import LARGE_MIN_SIZE, LONG_BYTES, make_room
from mrql.algebra.values.values import Canonical, Value, canonical

ARRAY_MAX_ELEMENTS = 2**31 - 16
"""The number of elements that one array of Spark can hold."""


def _range(low: int, high: int) -> list[int]:
    if high - low >= ARRAY_MAX_ELEMENTS:
        raise EvaluationError(f"a range of more than {ARRAY_MAX_ELEMENTS} elements")
    if high - low > LARGE_MIN_SIZE:
        make_room((high - low + 1) * LONG_BYTES)
    return list(range(low, high + 1))


def _range_sql(low: str, high: str, at: str) -> str:
    # A difference of longs may overflow; one of doubles does not, and is exact enough.
    long = f"CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE) >= {ARRAY_MAX_ELEMENTS}"
    error = fails(at, f"a range of more than {ARRAY_MAX_ELEMENTS} elements")
    empty = "CAST(array() AS ARRAY<BIGINT>)"
    return f"CASE WHEN {high} < {low} THEN {empty} WHEN {long} THEN {error} ELSE sequence({low}, {high}) END"


def _at(items: list[Value], index: int) -> Value:
    if not 0 <= index < len(items):
        raise EvaluationError(f"there is no element {index} in a list of {len(items)}")
    return items[index]


def _at_sql(items: str, index: str, at: str) -> str:
    there = f"{index} >= 0 AND {index} < size({items})"
    error = fails(at, "there is no element {} in a list of {}", index, f"size({items})")
    return f"CASE WHEN {items} IS NULL OR {index} IS NULL THEN NULL WHEN {there} THEN {items}[{index}] ELSE {error} END"


def _slice(items: list[Value], low: int, high: int) -> list[Value]:
    return items[max(low, 0) : max(high + 1, 0)]


def _slice_sql(items: str, low: str, high: str, at: str) -> str:
    first, last = clamped(low, 0, ARRAY_MAX_ELEMENTS), clamped(high, -1, ARRAY_MAX_ELEMENTS - 1)
    cut = f"slice({items}, {first} + 1, greatest({last} - {first} + 1, 0))"
    return f"if({low} IS NULL OR {high} IS NULL, NULL, {cut})"


def _unique(items: list[Value]) -> list[Value]:
    found: dict[Canonical, Value] = {}
    for item in items:
        found.setdefault(canonical(item), item)
    return list(found.values())


def _unique_sql(items: str, at: str) -> str:
    """Sorts the elements with their places; Spark's own function compares a non-atomic element with all before it."""
    xs, s, x, i = (f"{name}__v_0" for name in ("items", "sorted", "x", "i"))
    at_places = f"sort_array(transform({xs}, ({x}, {i}) -> named_struct('x', {x}, 'i', {i})))"
    places = f"sort_array(transform(filter({s}, ({x}, {i}) -> {begins_sql(s, i, '.x')}), {x} -> {x}.i))"
    found = f"transform({places}, {i} -> get({xs}, {i}))"
    return let_sql(xs, items, let_sql(s, at_places, found))


def _index_of(items: list[Value], value: Value) -> int:
    wanted = canonical(value)
    return next((i for i, item in enumerate(items) if canonical(item) == wanted), -1)


def _flatten(items: list[Value]) -> list[Value]:
    return [x for item in items if item is not None for x in item]


def _zip_sql(left: str, right: str, at: str) -> str:
    pairs = f"zip_with({left}, {right}, (zl, zr) -> named_struct('_1', zl, '_2', zr))"
    size = f"if(size({left}) < size({right}), size({left}), size({right}))"
    return f"slice({pairs}, 1, {size})"


def _join(items: list[Value], separator: str) -> str:
    return separator.join(item for item in items if item is not None)


RANGE = Function(
    "range",
    (version("long, long -> [long]", _range, _range_sql),),
    "two integers",
    "the integers from the first to the second, both included",
    (("range(1, 3)", "[1, 2, 3]"),),
)
AT = Function(
    "at", (version("[t], long -> t", _at, _at_sql),), "a list and an integer", "the element at a place, from 0 on"
)
SLICE = Function(
    "slice",
    (version("[t], long, long -> [t]", _slice, _slice_sql),),
    "a list and two integers",
    "the elements between two places, both included",
)
SIZE = Function(
    "size", (version("[t] -> long", len, "CAST(size({0}) AS BIGINT)"),), "a list", "the number of its elements"
)
LISTS: tuple[Function, ...] = (
    RANGE,
    Function(
        "first",
        (version("[t] -> t", lambda items: items[0] if items else None, "try_element_at({0}, 1)"),),
        "a list",
        "its first element; of an empty list, missing",
        (("first([7, 8])", "7"), ("first([])", "null")),
    ),
    Function(
        "last",
        (version("[t] -> t", lambda items: items[-1] if items else None, "try_element_at({0}, -1)"),),
        "a list",
        "its last element; of an empty list, missing",
        (("last([7, 8])", "8"),),
    ),
    Function(
        "unique",
        (version("[o] -> [o]", _unique, _unique_sql),),
        "a list of ordered values",
        "each element once, where it is first",
        (("unique([2, 1, 2])", "[2, 1]"),),
    ),
    Function(
        "index_of",
        (version("[a], a -> int", _index_of, "(CAST(array_position({0}, {1}) AS INT) - 1)"),),
        "a list of atomic values and one of them",
        "the first place of a value, from 0 on; -1 where it is not",
        (('index_of(["a", "b"], "b")', "1"),),
    ),
    Function(
        "zip",
        (version("[t], [u] -> [(t, u)]", lambda a, b: list(zip(a, b, strict=False)), _zip_sql),),
        "two lists",
        "the pairs of the elements at the same places, as far as there are both",
        (('zip([1, 2, 3], ["a", "b"])', '[(1, "a"), (2, "b")]'),),
    ),
    Function(
        "flatten",
        (version("[[t]] -> [t]", _flatten, "flatten(filter({0}, inner -> inner IS NOT NULL))"),),
        "a bag of collections, or a list of lists",
        "the elements of the elements, in their order; of a bag, a bag",
        (("flatten([[1, 2], [], [3]])", "[1, 2, 3]"), ("flatten({{1}, {2, 2}})", "{1, 2, 2}")),
    ),
    Function(
        "join",
        (version("[string], string -> string", _join, "array_join({0}, {1})"),),
        "a list of strings and a separator",
        "the strings that are there, with the separator between them",
        (('join(["a", "b"], "-")', '"a-b"'),),
    ),
)
