"""Groups and distinct values of a collection within one row, as Catalyst expressions of `n log n` steps.

Pairs are sorted by key, so that a group is a run of equal keys. To search all pairs for each key takes `n²` steps, and
so does Spark's search for distinct values that are not atoms. Keys are sorted together with the places of their pairs,
not with the elements, which may be large; the elements of one key keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.sql_text import begins_sql
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.casts import canonical, cast_array
from mrql.runtime.spark.expressions.layout import Atom, to_sql

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Expressions


@attrs.frozen
class KeyedArray:
    """An array of pairs, and the type of its keys."""

    pairs: str
    key: Type


def grouped_sql(expressions: Expressions, side: KeyedArray) -> str:
    """The array of `(k, group)` of an array of pairs; missing keys are equal to each other."""
    fresh = expressions.fresh
    m = fresh("m")

    def groups(pairs: str) -> str:
        keys = _keys_at_places(expressions, attrs.evolve(side, pairs=pairs), 0, side.key)
        return _runs(fresh, keys, lambda s, run: f"transform({run}, {m} -> get({pairs}, get({s}, {m}).i)._2)")

    return let(fresh, side.pairs, groups)


def co_grouped_sql(expressions: Expressions, left: KeyedArray, right: KeyedArray, key: Type) -> str:
    """The array of `(k, (group, group))` of two arrays of pairs, whose keys are widened to one type."""
    fresh = expressions.fresh

    def groups(xs: str, ys: str) -> str:
        sides = (attrs.evolve(left, pairs=xs), attrs.evolve(right, pairs=ys))
        keys = (_keys_at_places(expressions, side, number, key) for number, side in enumerate(sides))

        def both(s: str, run: str) -> str:
            parts = (_of_side(fresh, s, run, number, side.pairs) for number, side in enumerate(sides))
            return "named_struct('_1', {}, '_2', {})".format(*parts)

        return _runs(fresh, f"concat({', '.join(keys)})", both)

    return let(fresh, left.pairs, lambda xs: let(fresh, right.pairs, lambda ys: groups(xs, ys)))


def keys_sql(expressions: Expressions, side: KeyedArray) -> str:
    """The array of the distinct keys. Spark looks atoms up, but compares other values with all that it has found."""
    fresh, p = expressions.fresh, expressions.fresh("p")
    keys = f"transform({side.pairs}, {p} -> {_own_key(expressions, p, side.key)})"
    if isinstance(side.key, ty.Basic):
        return f"array_distinct({keys})"
    i = fresh("i")
    return let(fresh, f"sort_array({keys})", lambda s: f"transform({_firsts(fresh, s)}, {i} -> get({s}, {i}))")


def _own_key(expressions: Expressions, pair: str, key: Type) -> str:
    return to_sql(canonical(expressions, Atom(f"{pair}._1", key)))


def _keys_at_places(expressions: Expressions, side: KeyedArray, number: int, wide: Type) -> str:
    """The keys of a side, each with the number of the side and its place in the array."""
    p, i = expressions.fresh("p"), expressions.fresh("i")
    own = f"transform({side.pairs}, {p} -> {_own_key(expressions, p, side.key)})"
    keys = cast_array(own, ty.ListType(side.key), ty.ListType(wide))
    return f"transform({keys}, ({p}, {i}) -> named_struct('k', {p}, 's', {number}, 'i', {i}))"


def _runs(fresh: Fresh, keys: str, made: Callable[[str, str], str]) -> str:
    """`(k, …)` for each run of equal keys; `made` is given the sorted keys and the array of the places of the run."""
    f, j = fresh("f"), fresh("j")

    def over(s: str, firsts: str) -> str:
        run = f"sequence({f}, coalesce(get({firsts}, {j} + 1), size({s})) - 1)"
        return f"transform({firsts}, ({f}, {j}) -> named_struct('_1', get({s}, {f}).k, '_2', {made(s, run)}))"

    return let(fresh, f"sort_array({keys})", lambda s: let(fresh, _firsts(fresh, s, ".k"), lambda fs: over(s, fs)))


def _firsts(fresh: Fresh, s: str, part: str = "") -> str:
    """The places in a sorted array where a new value begins."""
    x, i = fresh("x"), fresh("i")
    return f"filter(transform({s}, ({x}, {i}) -> {i}), {i} -> {begins_sql(s, i, part)})"


def _of_side(fresh: Fresh, s: str, run: str, number: int, pairs: str) -> str:
    m = fresh("m")
    own = f"filter({run}, {m} -> get({s}, {m}).s = {number})"
    return f"transform({own}, {m} -> get({pairs}, get({s}, {m}).i)._2)"
