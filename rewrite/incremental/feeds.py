"""The rows from which the components of a stage are computed, and the share of each row in each component.

*Equation*: `h` of a single row is its share, and `h(A ⊎ B) = h(A) ⊕ h(B)`. So a row x adds the share `e({x})` to a
component `e(s)` over a group s, and a row (x, y) of the join of a coGroup's two groups adds `e({x}, {y})` to a
component `e(xs, ys)`.

*Requires*: a component merges in each group that it uses, the other unchanged, which `split` ensures.

*Source*: [MRQL] §8.1 (what a batch merges), [DBSP] Thm 3.4 (rows that are linear in each input), [CU] §3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from mrql.algebra.analysis.missing import there
from mrql.algebra.analysis.variables import Names, free_vars, substitute, var_of
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    Pattern,
    PTuple,
    PVar,
    Reduce,
    Single,
    Term,
    Tup,
    Var,
    element_type,
    pair_type,
)
from mrql.rewrite.analysis.multilinear import Multilinear, summands
from mrql.rewrite.normalize.group_functions import function_parts
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.plan import Feed


class Feeds:
    """Makes the feeds of stages, with fresh names."""

    def __init__(self, names: Names, multilinear: Callable[[Term], Multilinear]) -> None:
        self.names = names
        self.multilinear = multilinear
        """Separates rows into their inputs and what joins them."""

    def of_bag(self, h: Term) -> Feed:
        """The feed of a bag: the share of each element is the element itself."""
        x = PVar(self.names.fresh("x"), element_type(h))
        return self._feed(_under_unit(h, x), PTuple(()), x, [(0, Single(var_of(x)))])

    def of_total(self, h: Reduce) -> tuple[Feed, ...]:
        """The feeds of a total: the elements of the reduced bag, one feed for each part of a union."""
        return tuple(self._of_part(h, part) for part in summands(h.source))

    def _of_part(self, h: Reduce, part: Term) -> Feed:
        x = PVar(self.names.fresh("x"), element_type(part))
        return self._feed(_under_unit(part, x), PTuple(()), x, [(0, Reduce(h.monoid, Single(var_of(x))))])

    def of_groups(self, h: CMap, ranged: int | None) -> tuple[Feed, ...]:
        """The rows from which the components of a keyed `h` are computed.

        `ranged` is the index of the group that the function ranges over, if any: a key without elements in it has no
        answer.
        """
        key, groups, stored = function_parts(h)
        assert isinstance(stored, Single)
        assert isinstance(stored.item, Tup)
        value = stored.item.items[1]
        parts = _values(value)
        match h.source, groups:
            case GroupBy(source), PVar() as s:
                return tuple(self._of_side(key, s, parts, part, supports=True) for part in summands(source))
            case CoGroup(left, right), PTuple((PVar() as xs, PVar() as ys)):
                return self._of_sides(key, (xs, ys), parts, (left, right), ranged)
            case _:
                raise InternalError("feeds", "a keyed stage over neither a groupBy nor a coGroup")

    def _of_sides(
        self,
        key: Pattern,
        groups: tuple[PVar, PVar],
        parts: list[tuple[int, Term]],
        sides: tuple[Term, Term],
        ranged: int | None,
    ) -> tuple[Feed, ...]:
        feeds = []
        names = [group.name for group in groups]
        for i, (group, side) in enumerate(zip(groups, sides, strict=True)):
            own = [(n, e) for n, e in parts if free_vars(e) & set(names) == {group.name}]
            supports = ranged is None or ranged == i
            if own or supports:
                feeds += [self._of_side(key, group, own, part, supports=supports) for part in summands(side)]
        both = [(n, e) for n, e in parts if set(names) <= free_vars(e)]
        if both:
            for left in summands(sides[0]):
                for right in summands(sides[1]):
                    feeds.append(self._of_join(key, groups, both, left, right))
        return tuple(feeds)

    def _of_side(
        self, key: Pattern, group: PVar, parts: Iterable[tuple[int, Term]], rows: Term, *, supports: bool
    ) -> Feed:
        x = PVar(self.names.fresh("x"), pair_type(rows)[1])
        units = [(i, substitute(e, {group.name: Single(var_of(x))})) for i, e in parts]
        return attrs.evolve(self._feed(there(rows), key, x, units), supports=supports)

    def _of_join(
        self, key: Pattern, groups: tuple[PVar, PVar], parts: list[tuple[int, Term]], left: Term, right: Term
    ) -> Feed:
        """The feed of a join: each element of the left group with each of the right one."""
        xs, ys = groups
        x = PVar(self.names.fresh("x"), element_type(var_of(xs)))
        y = PVar(self.names.fresh("y"), element_type(var_of(ys)))
        k = PVar(self.names.fresh("k"), pair_type(CoGroup(left, right))[0])
        pair: Term = Single(Tup((var_of(k), Tup((var_of(x), var_of(y))))))
        pair = CMap(Lambda(x, CMap(Lambda(y, pair), var_of(ys))), var_of(xs))
        rows = CMap(Lambda(PTuple((k, PTuple((xs, ys)))), pair), CoGroup(left, right))
        units = [(i, substitute(e, {xs.name: Single(var_of(x)), ys.name: Single(var_of(y))})) for i, e in parts]
        return attrs.evolve(self._feed(rows, key, PTuple((x, y)), units), supports=False)

    def _feed(self, rows: Term, key: Pattern, element: Pattern, units: Iterable[tuple[int, Term]]) -> Feed:
        own, t = pair_type(rows)
        if own != key.type:
            # The keys of a coGroup may be of a wider type than those of one side.
            k, v = PVar(self.names.fresh("k"), own), PVar(self.names.fresh("v"), t)
            wide = Single(Tup((Cast(var_of(k), key.type), var_of(v))))
            rows = normalize(CMap(Lambda(PTuple((k, v)), wide), rows))
        return Feed(self.multilinear(rows), key, element, tuple((i, normalize(unit)) for i, unit in units))


def _values(value: Term) -> list[tuple[int, Term]]:
    """The components of a stored value, numbered; a single component is the value itself."""
    return list(enumerate(value.items)) if isinstance(value, Tup) else [(0, value)]


def ranged_over(body: Term, groups: Pattern) -> int | None:
    """The index of the group that a function is a cMap over, if any: where that group is empty, so is the result."""
    match body, groups:
        case CMap(_, Var(name, _)), PTuple((PVar(xs, _), PVar(ys, _))):
            return {xs: 0, ys: 1}.get(name)
        case _:
            return None


def _under_unit(bag: Term, x: PVar) -> Term:
    """`{((), x) | x ∈ X}`."""
    return normalize(CMap(Lambda(x, Single(Tup((Tup(()), var_of(x))))), bag))
