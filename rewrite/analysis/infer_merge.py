"""Monoid inference: which terms are homomorphisms, and with which merge.

The judgement `ρ ⊢ e : ⊕` says that `e` merges with `⊕` when the variables and streams of `ρ` grow by their own monoids:

    ρ = [x: ⊎]     e(x ⊎ x') = e(x) ⊕ e(x')

Variables and streams that `ρ` does not name are invariant, `□`.

*Rules*: [MRQL] §7, Fig. 2 (5a)–(5h), and Lemma 1. To them we add, each by the same structural argument:

- `cMap(f, X) : ⊎` where X is □ and f(x) : ⊎ (the union over an invariant bag of growing bags grows by union);
- `coGroup(X, Y) : ⇑(⊎ × □)` where only X grows, exact, since an unchanged Y gives each key the same group;
- `{}` merges with any bag monoid; `if c then e else e'` with the monoid of both branches, c invariant;
- `let`, tuples and projections, component by component.

*Per stream*: the paper judges all streams together, `[S1: ⊎, …, Sn: ⊎] ⊢ h : ⊗`, and so loses the pairs whose
partners arrive in different batches. We judge each by itself with the others invariant, `[Si: ⊎, others: □] ⊢ h : ⊗`
for every i: then h is *multilinear*, which is what the delta rule needs ([DBSP] Thm 3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars, pattern_vars, stream_names
from mrql.algebra.monoids import BAG, INVARIANT, Keyed, Monoid, ProductMonoid
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
)

Growth = Mapping[str, Monoid | None]
"""ρ: how variables and streams grow. A name that is not in it is invariant; one with None changes in an unknown way."""


def infer(term: Term, growth: Growth) -> Monoid | None:
    """The monoid `⊕` with `growth ⊢ term : ⊕`, or None when no rule derives one.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.types import BagType, LONG
    >>> term = parse("reduce(+, cMap(λx. {x * 2L}, S))", {"S": BagType(LONG)})
    >>> print(infer(term, {"S": BAG}))
    +
    """
    if not _grows(term, growth):
        return INVARIANT  # (5b)
    match term:
        case Var(name, _) | Stream(name, _):
            return growth[name]  # (5a)
        case Reduce(monoid, source):
            return monoid if infer(source, growth) == BAG else None  # (5c)
        case Union(left, right):
            return _same(_fit(left, growth, BAG), _fit(right, growth, BAG))  # (5d)
        case CMap():
            return _infer_cmap(term, growth)
        case GroupBy(source):
            return Keyed(BAG) if infer(source, growth) == BAG else None  # (5f)
        case CoGroup(left, right):
            sides = infer(left, growth), infer(right, growth)
            if all(side in (BAG, INVARIANT) for side in sides):
                return Keyed(ProductMonoid((sides[0], sides[1])))  # type: ignore[arg-type]  # (5g), and ours
            return None
        case If(condition, then, otherwise):
            return None if _grows(condition, growth) else _infer_branches(then, otherwise, growth)
        case Let(pattern, value, body):
            merged = infer(value, growth)
            return None if merged is None else infer(body, _bind(growth, pattern, merged))
        case Tup(items):
            return _product([infer(item, growth) for item in items])
        case Nth(inner, index):
            merged = infer(inner, growth)
            return merged.items[index] if isinstance(merged, ProductMonoid) else None
        case Single(Tup((key, value))):
            merged = infer(value, growth)
            keyed = not _grows(key, growth) and merged is not None
            return Keyed(merged) if keyed and merged is not None else None
        case Single() | ListOf() | OrderBy() | Take() | Rec() | Get() | Prim() | Cast() | Lit() | Empty() | Repeat():
            return None
        case _:
            assert_never(term)


def _infer_cmap(term: CMap, growth: Growth) -> Monoid | None:
    param, body = term.function.param, term.function.body
    inner = {name: m for name, m in growth.items() if name not in {v.name for v in pattern_vars(param)}}
    match infer(term.source, growth):
        case None:
            return None
        case source if source == INVARIANT:
            return _fit(body, inner, BAG)
        case source if source == BAG:
            return BAG if not _grows(body, inner) else None  # (5e)
        case Keyed(value):
            match param:
                case PTuple((_, group)):
                    return _infer_by_key(body, _bind(inner, group, value), param)
                case _:
                    return None
        case _:
            return None


def _infer_by_key(body: Term, growth: Growth, param: PTuple) -> Monoid | None:
    """(5h), (9a), (9b): a function of a key and its group.

    It may return a bag (`⊎`), or pairs with a new key (`⇑⊗`), which must contain the old one to stay unique.
    """
    if not _grows(body, growth):
        return None  # one value for each key, whatever the size of its group: not a union
    merged = _fit(body, growth, BAG)
    if merged is not None:
        return merged
    merged = infer(body, growth)
    keeps_key = isinstance(body, Single) and isinstance(body.item, Tup) and _holds(body.item.items[0], param.items[0])
    return merged if isinstance(merged, Keyed) and keeps_key else None


def _holds(key: Term, pattern: Pattern) -> bool:
    """Whether a new key determines the old one."""
    names = {v.name for v in pattern_vars(pattern)}
    parts = key.items if isinstance(key, Tup) else (key,)
    return names <= {part.name for part in parts if isinstance(part, Var)} | _nested_names(parts)


def _nested_names(parts: tuple[Term, ...]) -> set[str]:
    return {t.name for part in parts if isinstance(part, Tup) for t in subterms(part) if isinstance(t, Var)}


def _infer_branches(then: Term, otherwise: Term, growth: Growth) -> Monoid | None:
    for branch, other in ((then, otherwise), (otherwise, then)):
        merged = infer(branch, growth)
        if merged is not None and merged != INVARIANT:
            return _same(merged, _fit(other, growth, merged))
    return None


def _fit(term: Term, growth: Growth, wanted: Monoid) -> Monoid | None:
    """`wanted`, when the term merges with it; `{}` merges with every bag monoid."""
    if isinstance(term, Empty) and (wanted == BAG or isinstance(wanted, Keyed)):
        return wanted
    if isinstance(term, If) and isinstance(term.then, Empty) and isinstance(term.otherwise, Empty):
        return wanted
    return wanted if infer(term, growth) == wanted else None


def _same(a: Monoid | None, b: Monoid | None) -> Monoid | None:
    return a if a == b else None


def _product(parts: list[Monoid | None]) -> Monoid | None:
    return None if None in parts else ProductMonoid(tuple(m for m in parts if m is not None))


def _bind(growth: Growth, pattern: Pattern, merged: Monoid) -> Growth:
    """ρ[p: ⊕]: the parts of a tuple grow by the parts of its monoid."""
    match pattern, merged:
        case PVar(name, _), _:
            return {**growth, name: merged}
        case PAny(), _:
            return growth
        case PTuple(items), ProductMonoid(parts):
            for item, part in zip(items, parts, strict=True):
                growth = _bind(growth, item, part)
            return growth
        case PTuple(), _:
            # The parts of a value that is merged as a whole do not merge by themselves, unless it does not change at
            # all.
            known = merged if merged == INVARIANT else None
            return {**growth, **{v.name: known for v in pattern_vars(pattern)}}
        case _:
            assert_never(pattern)


def _grows(term: Term, growth: Growth) -> bool:
    """Whether anything in the term changes."""
    growing = {name for name, m in growth.items() if m != INVARIANT}
    return not growing.isdisjoint(free_vars(term)) or not growing.isdisjoint(stream_names(term))


def is_linear(term: Term, variable: str) -> bool:
    """Whether `[variable: ⊎] ⊢ term : ⊎`."""
    return infer(term, {variable: BAG}) == BAG


def joins_elements(function: Term, groups: Pattern) -> bool:
    """Whether a function of a coGroup's two groups joins them element by element: it is linear in each."""
    match groups:
        case PTuple((PVar(xs, _), PVar(ys, _))):
            return {xs, ys} <= free_vars(function) and is_linear(function, xs) and is_linear(function, ys)
        case _:
            return False


def infer_multilinear(term: Term) -> Monoid | None:
    """The one monoid `⊕` with `[Si: ⊎, others: □] ⊢ term : ⊕` for every stream occurrence Si, or None.

    The occurrences must have distinct names, so that each side of a self-join is judged by itself.
    """
    judged = {infer(term, {name: BAG}) for name in stream_names(term)}
    return judged.pop() if len(judged) == 1 else None


def infer_merge(term: Term) -> Monoid | None:
    """The merge of a homomorphism whose components may depend on different streams.

    A component that does not depend on a stream is judged `□` for it; its merge is determined by the other streams.
    """
    merged: Monoid | None = INVARIANT
    for name in stream_names(term):
        judged = infer(term, {name: BAG})
        merged = None if merged is None or judged is None else overlay(merged, judged)
    return merged


def overlay(a: Monoid, b: Monoid) -> Monoid | None:
    """`a` and `b` as one monoid, in which the other replaces a `□`; None where they differ otherwise."""
    match a, b:
        case _ if a == b or b == INVARIANT:
            return a
        case _ if a == INVARIANT:
            return b
        case Keyed(x), Keyed(y):
            value = overlay(x, y)
            return None if value is None else Keyed(value)
        case ProductMonoid(xs), ProductMonoid(ys) if len(xs) == len(ys):
            return _product([overlay(x, y) for x, y in zip(xs, ys, strict=True)])
        case _:
            return None
