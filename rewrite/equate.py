"""What `joins` and `unnest` share: finding the equalities of a condition that link two sides, and joining on them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from mrql.algebra import types as ty
from mrql.algebra.binders import alpha_equal, free_vars
from mrql.algebra.functions import AND, EQ, HAS_NULL, NOT, OR
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    If,
    Lambda,
    Lit,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Single,
    Stream,
    Term,
    Tup,
)
from mrql.algebra.traversal import subterms

TRUE = Lit(True, ty.BOOL)


def reads_sources(term: Term) -> bool:
    """Whether a stream or a static table occurs in the term."""
    return any(isinstance(t, Stream) for t in subterms(term))


def conjuncts(condition: Term) -> tuple[Term, ...]:
    """The parts of a conjunction, left to right."""
    match condition:
        case Prim(function, (left, right)) if function == AND:
            return conjuncts(left) + conjuncts(right)
        case Lit(True, _):
            return ()
        case _:
            return (condition,)


def conjunction(conditions: Iterable[Term]) -> Term:
    result: Term | None = None
    for condition in conditions:
        result = condition if result is None else Prim(AND, (result, condition), span=condition.span)
    return TRUE if result is None else result


def factored(left: Term, right: Term) -> Term | None:
    """`(a and b) or (a and c)` as `a and (b or c)`, None where the sides have no condition in common.

    It holds with missing values too: `and` is the lesser and `or` the greater of false, missing and true.
    """
    lefts, rights = conjuncts(left), conjuncts(right)
    shared = [a for a in lefts if any(alpha_equal(a, b) for b in rights)]
    if not shared:
        return None
    rests = [[c for c in side if not any(alpha_equal(c, a) for a in shared)] for side in (lefts, rights)]
    if not all(rests):
        return conjunction(shared)
    either = Prim(OR, (conjunction(rests[0]), conjunction(rests[1])), span=left.span)
    return conjunction([*shared, either])


def guard(conditions: Iterable[Term], then: Term) -> Term:
    """`if c and … then e else {}`."""
    condition = conjunction(conditions)
    return then if condition == TRUE else If(condition, then, Empty(then.type))


@attrs.frozen
class Link:
    """The join keys of two sides: `left = right`, part by part, and the conditions that are no such equality."""

    left: Term
    right: Term
    rest: tuple[Term, ...]

    @property
    def on_keys(self) -> bool:
        """Whether there is an equality at all; without one both keys are `()` and the join is a product."""
        return self.left != Tup(())


def link(conditions: Iterable[Term], left: frozenset[str], right: frozenset[str]) -> Link:
    """Finds the equalities between terms over the variables of the left and of the right side."""
    keys: list[tuple[Term, Term]] = []
    rest: list[Term] = []
    for condition in conditions:
        sides = _sides(condition, left, right)
        if sides is None:
            rest.append(condition)
        else:
            keys.append(sides)
    if len(keys) == 1:
        return Link(*keys[0], tuple(rest))
    return Link(Tup(tuple(a for a, _ in keys)), Tup(tuple(b for _, b in keys)), tuple(rest))


def _sides(condition: Term, left: frozenset[str], right: frozenset[str]) -> tuple[Term, Term] | None:
    if not isinstance(condition, Prim) or condition.function != EQ:
        return None
    if reads_sources(condition):
        return None  # a key is computed from one element
    for a, b in (condition.args, condition.args[::-1]):
        over_left, over_right = free_vars(a), free_vars(b)
        if over_left and over_left <= left and over_right and over_right <= right:
            return _widened(a, b)
    return None


def _widened(a: Term, b: Term) -> tuple[Term, Term] | None:
    """Both sides in one type, so that `1 = 1.0` joins too; bags are compared by value, not joined on."""
    joined = ty.join_types(a.type, b.type)
    if joined is None or ty.has_collection(joined) or joined == ty.NOTHING:
        return None
    return tuple(e if e.type == joined else Cast(e, joined, span=e.span) for e in (a, b))  # type: ignore[return-value]


def keyed(key: Term, pattern: Pattern, value: Term, source: Term, *, drop_null_keys: bool) -> Term:
    """`{(key, value) | p ∈ source}`, without the rows whose key has a missing part: they join with nothing."""
    pair: Term = Single(Tup((key, value)))
    if drop_null_keys and key != Tup(()):
        pair = guard((Prim(NOT, (Prim(HAS_NULL, (key,)),)),), pair)
    return CMap(Lambda(pattern, pair), source)


def co_grouped(left: Term, right: Term, xs: PVar, ys: PVar, key: PVar, body: Term) -> Term:
    """`cMap(λ(k, (xs, ys)). body, coGroup(left, right))`."""
    return CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right))
