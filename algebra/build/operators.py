"""The operators of relational and streaming systems, as combinators over the terms.

Names are those of [ST] (*How it works*) and [RZ] (2.9). Operators that are linear there are linear here; the others are
the usual terms for them, which the rewrites recognize.

    >>> from mrql.algebra import build as b
    >>> S = b.stream("S", "{(long, string)}")
    >>> b.distinct(b.map(lambda n, _name: n, S))
    cMap(λ(x, _). {x}, groupBy(cMap(λx. {(x, ())}, cMap(λ(n, _). {n}, S))))
"""

from __future__ import annotations

import inspect as signatures

from mrql.algebra.build.expression import Expr, Operand, expr, tup
from mrql.algebra.build.lambdas import Body
from mrql.algebra.build.terms import (
    call,
    cmap,
    co_group,
    count,
    group_by,
    if_,
    null,
    order_by,
    reduce,
    repeat,
    single,
    take,
    union,
    where,
)
from mrql.algebra.build.terms import filter as filter_
from mrql.algebra.errors import UserError
from mrql.algebra.functions import HAS_NULL, ONLY, TRACE
from mrql.algebra.monoids import Monoid
from mrql.algebra.terms import element_type
from mrql.algebra.types import TupleType

# --- element by element -------------------------------------------------------------------------


def map(f: Body, source: Operand) -> Expr:
    """`{f(x) | x ∈ source}`: linear.  Source: [RZ] 2.9.7."""
    return cmap(_named_as(f, lambda *parts: single(f(*parts))), source)


def map_many(f: Body, source: Operand) -> Expr:
    """`cMap` under its name in [ST]: linear."""
    return cmap(f, source)


def index_with(key: Body, source: Operand) -> Expr:
    """The elements as pairs with their keys: linear.  Source: [RZ] 2.9.5.

    >>> from mrql.algebra import build as b
    >>> b.index_with(lambda x: x[0], b.stream("S", "{(int, int, int)}"))
    cMap(λx. {(x#0, x)}, S)
    """
    return cmap(_named_as(key, lambda *parts: single(tup(key(*parts), _whole(parts)))), source)


def inspect(source: Operand) -> Expr:
    """The same collection, which is also printed whenever it is computed.  Source: [RZ] 2.9.6."""
    return call(TRACE, source)


def make_set(item: Operand) -> Expr:
    """`{item}`, under its name in [ST]."""
    return single(item)


def make_scalar(source: Operand) -> Expr:
    """The only value of a bag."""
    return call(ONLY, source)


# --- by key -------------------------------------------------------------------------------------


def distinct(source: Operand) -> Expr:
    """Each element once.  Source: [RZ] 2.9.3; [MRQL] §5."""
    pairs = cmap(lambda x: single(tup(x, tup())), source)
    return cmap(lambda x, _units: single(x), group_by(pairs))


def aggregate(f: Body, indexed: Operand) -> Expr:
    """`{(k, f(vs))}` for the values `vs` of each key of a collection of pairs.  Source: [RZ] 2.9.1.

    >>> from mrql.algebra import build as b
    >>> b.aggregate(b.sum, b.stream("S", "{(int, long)}"))
    cMap(λ(k, vs). {(k, reduce(+, vs))}, groupBy(S))
    """
    return cmap(lambda k, vs: single(tup(k, f(vs))), group_by(indexed))


def group_reduce(monoid: Monoid | str, by: Body, pick: Body, source: Operand) -> Expr:
    """`{(k, reduce(⊕, vs))}`, with a key and a value of each element: `group_reduce_flatten` of [ST]."""
    pairs = cmap(_named_as(by, lambda *parts: single(tup(by(*parts), pick(*parts)))), source)
    return aggregate(lambda vs: reduce(monoid, vs), pairs)


# --- of two collections -------------------------------------------------------------------------


def join(left: Operand, right: Operand, on_left: Body, on_right: Body) -> Expr:
    """`{(x, y) | x ∈ left, y ∈ right, on_left(x) = on_right(y)}`: bilinear. A missing key joins with nothing.

    Source: [RZ] 2.9.12; [DBSP] §4.
    """

    def partners(x: Expr) -> Expr:
        return filter_(lambda y: _applied(on_right, y) == _applied(on_left, x), right)

    return cmap(lambda x: map(lambda y: tup(x, y), partners(x)), left)


def outer_join(left: Operand, right: Operand, on_left: Body, on_right: Body, *, lone: str = "both") -> Expr:
    """The join, and a pair with null for each element without partner: of `both` sides, or only the `left` or the
    `right` one. It is a `coGroup`, of which a batch only touches its own keys.  Source: [ST] `outer_join`.
    """
    if lone not in ("both", "left", "right"):
        raise UserError(f"{lone!r} is no side", hint="both, left or right")
    none, nothing = null(element_type(expr(right).term)), null(element_type(expr(left).term))
    keeps_left, keeps_right = lone != "right", lone != "left"

    def rows(k: Expr, sides: Expr) -> Expr:
        xs, ys = sides
        lefts = _or_one(xs, nothing) if keeps_right else xs
        rights = _or_one(ys, none) if keeps_left else ys
        partners = cmap(lambda x: map(lambda y: tup(x, y), rights), lefts)
        alone = [map(lambda x: tup(x, none), xs)] if keeps_left else []
        alone += [map(lambda y: tup(nothing, y), ys)] if keeps_right else []
        return if_(call(HAS_NULL, k), union(*alone), partners)

    def keyed(key: Body, side: Operand) -> Expr:
        return map(lambda x: tup(_applied(key, x), x), side)

    return cmap(rows, co_group(keyed(on_left, left), keyed(on_right, right)))


def _or_one(side: Expr, stand_in: Expr) -> Expr:
    """The elements of a side of a group, or the stand-in if there are none."""
    return if_(count(side) == 0, single(stand_in), side)


def plus(left: Operand, right: Operand) -> Expr:
    """`⊎`, which adds multiplicities: linear.  Source: [RZ] 2.9.15, `add` of [ST]."""
    return union(left, right)


# --- order and loops ----------------------------------------------------------------------------


def first_n(n: Operand, by: Body, source: Operand, *directions: str) -> Expr:
    """The list of the first `n` elements in the order of `by`; a direction, `asc` or `desc`, for each part of it.

    >>> from mrql.algebra import build as b
    >>> b.first_n(2, lambda x: -x, b.stream("S", "{int}"))
    take(2, orderBy(cMap(λx. {((-x,), x)}, S); asc))
    """

    def keyed(*parts: Expr) -> Expr:
        key = expr(by(*parts))
        return single(tup(key if isinstance(key.type, TupleType) else tup(key), _whole(parts)))

    pairs = cmap(_named_as(by, keyed), source)
    key = element_type(pairs.term).items[0]  # type: ignore[union-attr]
    assert isinstance(key, TupleType)
    return take(n, order_by(pairs, *(directions or ["asc"] * len(key.items))))


def transitive_closure(edges: Operand) -> Expr:
    """All pairs `(a, d)` with a path from `a` to `d`, each once: the least fixpoint of `w ∪ (w ⋈ edges)`.

    Source: [ST] `transitive_closure`; [DBSP] §5.
    """

    def step(w: Expr) -> Expr:
        longer = cmap(lambda a, b: cmap(lambda c, d: where(b == c, single(tup(a, d))), edges), w)
        return distinct(union(w, longer))

    return repeat(step, edges)


# --- inside -------------------------------------------------------------------------------------


def _applied(f: Body, x: Expr) -> Expr:
    """A function applied to an element, or to its parts if the function has several parameters."""
    return expr(f(x) if len(signatures.signature(f).parameters) == 1 else f(*x))


def _whole(parts: tuple[Expr, ...]) -> Operand:
    return parts[0] if len(parts) == 1 else parts


def _named_as(f: Body, g: Body) -> Body:
    """`g`, with its variables named as those of `f`."""
    g.__signature__ = signatures.signature(f)  # type: ignore[attr-defined]
    return g
