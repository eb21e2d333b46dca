"""Shared by `joins` and `unnest`: finding the equalities in conditions that link two sides, and joining on them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import may_overflow
from mrql.algebra.analysis.variables import alpha_equal, free_vars, source_names
from mrql.algebra.evaluation.may_fail import may_fail
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
    Term,
    Tup,
)

TRUE = Lit(True, ty.BOOL)


def reads_sources(term: Term) -> bool:
    """Whether a stream or a static table occurs in the term."""
    return bool(source_names(term))


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
    """`(a and b) or (a and c)` as `a and (b or c)`; None where the sides share no condition, or a guard would be lost.

    This holds with missing values too: `and` is the minimum and `or` the maximum in the order false, missing, true.
    """
    lefts, rights = conjuncts(left), conjuncts(right)
    shared = [a for a in lefts if any(alpha_equal(a, b) for b in rights)]
    if not shared or any(_goes_before_a_guard(side, shared) for side in (lefts, rights)):
        return None
    rests = [[c for c in side if not any(alpha_equal(c, a) for a in shared)] for side in (lefts, rights)]
    if not all(rests):
        return conjunction(shared)
    either = Prim(OR, (conjunction(rests[0]), conjunction(rests[1])), span=left.span)
    return conjunction([*shared, either])


def _goes_before_a_guard(side: tuple[Term, ...], shared: list[Term]) -> bool:
    """Whether a shared condition that may fail, or overflow, comes after one that is not shared."""
    kinds = [(any(alpha_equal(c, a) for a in shared), may_fail(c) or may_overflow(c)) for c in side]
    own = next((i for i, (is_shared, _) in enumerate(kinds) if not is_shared), len(kinds))
    return any(is_shared and fails for is_shared, fails in kinds[own:])


def guard(conditions: Iterable[Term], then: Term) -> Term:
    """`if c and … then e else {}`."""
    condition = conjunction(conditions)
    return then if condition == TRUE else If(condition, then, Empty(then.type))


def unguarded(body: Term) -> tuple[tuple[Term, ...], Term]:
    """The conditions of `if c and … then e else {}`, and `e`: the inverse of `guard`."""
    match body:
        case If(condition, then, Empty()):
            conditions, head = unguarded(then)
            return (*conjuncts(condition), *conditions), head
        case _:
            return (), body


@attrs.frozen
class Link:
    """The join keys of two sides, `left = right`, part by part, and the conditions that are not such equalities."""

    left: Term
    right: Term
    rest: tuple[Term, ...]

    @property
    def on_keys(self) -> bool:
        """Whether there is an equality at all; without one both keys are `()` and the join is a product."""
        return self.left != Tup(())


def link(conditions: Iterable[Term], left: frozenset[str], right: frozenset[str]) -> Link:
    """Finds the equalities between terms over the variables of the left and of the right side.

    A key is computed for all elements of a side, so a term that may fail is no key where an earlier condition guards
    it.
    """
    keys: list[tuple[Term, Term]] = []
    rest: list[Term] = []
    before: list[Term] = []
    for condition in conditions:
        sides = _sides(condition, left, right)
        if sides is None or _is_guarded(sides[0], before, left) or _is_guarded(sides[1], before, right):
            rest.append(condition)
        else:
            keys.append(sides)
        before.append(condition)
    if len(keys) == 1:
        return Link(*keys[0], tuple(rest))
    return Link(Tup(tuple(a for a, _ in keys)), Tup(tuple(b for _, b in keys)), tuple(rest))


def key_parts(key: Term) -> tuple[Term, ...]:
    """The parts of a key: the items of a tuple term, or the key itself."""
    return key.items if isinstance(key, Tup) else (key,)


def apart(conditions: Iterable[Term], side: frozenset[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The conditions on one side of a join alone that can be evaluated before the others, and the others."""
    own, others = list[Term](), list[Term]()
    for condition in conditions:
        is_own = free_vars(condition) and free_vars(condition) <= side and not reads_sources(condition)
        (own if is_own and not _is_guarded(condition, others, side) else others).append(condition)
    return tuple(own), tuple(others)


def _is_guarded(term: Term, before: Iterable[Term], side: frozenset[str]) -> bool:
    """Whether a term over the variables of a side may fail, and a condition before it may guard it: one on variables of
    that side, or one that reads a source, which may guard all rows."""
    return may_fail(term) and any(free_vars(condition) & side or reads_sources(condition) for condition in before)


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
    """Both terms cast to a common type, so that `1 = 1.0` joins too; None if there is none, or it has collections."""
    joined = ty.join_types(a.type, b.type)
    if joined is None or ty.has_collection(joined) or joined == ty.NOTHING:
        return None
    return tuple(e if e.type == joined else Cast(e, joined, span=e.span) for e in (a, b))  # type: ignore[return-value]


def keyed(key: Term, pattern: Pattern, value: Term, source: Term, *, drop_null_keys: bool) -> Term:
    """`{(key, value) | p ∈ source}`; with `drop_null_keys`, without the rows whose key has a missing part."""
    return CMap(Lambda(pattern, with_key(key, value, drop_null_keys=drop_null_keys)), source)


def with_key(key: Term, value: Term, *, drop_null_keys: bool) -> Term:
    """`{(key, value)}`; with `drop_null_keys`, `{}` where the key has a missing part."""
    pair = Single(Tup((key, value)))
    if drop_null_keys and key != Tup(()):
        return guard((joins_with_something(key),), pair)
    return pair


def joins_with_something(key: Term) -> Term:
    """The test that no part of a join key is missing."""
    return Prim(NOT, (Prim(HAS_NULL, (key,)),))


def is_test_of_a_key(condition: Term) -> bool:
    """Whether a condition has the form that `joins_with_something` returns."""
    match condition:
        case Prim(function, (Prim(inner, _),)):
            return (function, inner) == (NOT, HAS_NULL)
        case _:
            return False


def drops_null_keys(term: Term) -> bool:
    """Whether no pair of a bag has a key with a missing part: the key is tested, or cannot be missing."""
    match term:
        case CMap(Lambda(_, body), _):
            return drops_null_keys(body)
        case If(condition, Single(Tup((key, _))), Empty()):
            return joins_with_something(key) in conjuncts(condition)
        case Single(Tup((Lit(value, _), _))):
            return value is not None
        case Single(Tup((Tup(()), _))):
            return True
        case _:
            return False


def co_grouped(left: Term, right: Term, xs: PVar, ys: PVar, key: PVar, body: Term) -> Term:
    """`cMap(λ(k, (xs, ys)). body, coGroup(left, right))`."""
    return CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right))
