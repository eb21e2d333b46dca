"""A join that feeds sums keeps sums of its sides, not their rows.

*Equation*: over a join, a sum of products is a sum, by the join's key, of products of sums:

    Σ { f(x) · g(y) | x ∈ X, y ∈ Y, k(x) = k(y) }  =  Σ { F · G | (k, F) ∈ Σf by k, (k, G) ∈ Σg by k }

So an input of the join needs only, by its join key and the columns that are *kept* (those of filters, of other join
keys, of the group-by key and of what is not a sum), the number of its rows and the sums `Σf`. A share that is a sum of
such products is taken apart to its *monomials*; a missing value makes a product missing, and sums skip it: its factor
is 0.

*Requires*: a feed with several inputs, of which one has a column that only sums use. Numbers are long or double where
factors of different inputs meet: an int would overflow for a row, and its sum would not. No factor may fail.

*Source*: [CU] (the maps of its delta rules, `sum(price × rate)`); the design's small states.

*Does not fire* where every column is kept: the rows are then stored, each once with its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.binders import Names, all_names, free_vars, match_pattern, substitute
from mrql.algebra.failing import may_fail
from mrql.algebra.monoids import SUM
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    If,
    Lambda,
    Lit,
    PAny,
    Prim,
    PTuple,
    Reduce,
    Single,
    Stream,
    Term,
    Tup,
    Var,
)
from mrql.algebra.types import Type
from mrql.rewrite.jointree import (
    Leaf,
    Reader,
    Rows,
    Stored,
    Unknown,
    Where,
    Writer,
    columns_of,
    is_stored,
    key_and_value,
    parts,
    pattern_of,
    sides,
    tuple_of,
)
from mrql.rewrite.multilinear import Input, Multilinear
from mrql.rewrite.normalize import normalize
from mrql.rewrite.stages import Component, Feed, Plan, Stage

MOST = 8
"""A share of more monomials than this is not taken apart."""


def partial(plan: Plan) -> Plan:
    """The plan with sums in the place of rows in what its joins keep.

    >>> from mrql.algebra.reader import parse
    >>> from mrql.algebra.show import show
    >>> from mrql.rewrite.passes import rewrite
    >>> types = {"O": "{(long, double)}", "L": "{(long, double)}"}
    >>> q = "reduce(+, cMap(λ(a, r). cMap(λ(b, p). if a = b then {p * r} else {}:{double}, L), O))"
    >>> (feed,) = rewrite(parse(q, types)).plan.stages[0].feeds
    >>> [read.sums for read in feed.rows.inputs], show(feed.units[0][1])
    ([2, 2], 'reduce(+, {s * s3})')
    """
    return attrs.evolve(plan, stages=tuple(_stage(stage) for stage in plan.stages))


def _stage(stage: Stage) -> Stage:
    feeds = tuple(_feed(feed, stage.components) for feed in stage.feeds)
    return attrs.evolve(stage, feeds=feeds)


# --- shares as sums of products -----------------------------------------------------------------


@attrs.frozen
class Monomial:
    """A product: a factor of each input that has one, by the number of its leaf, and of what is kept."""

    factors: Mapping[int, Term]
    kept: Term | None = None

    def times(self, other: Monomial) -> Monomial:
        both = dict(self.factors)
        for leaf, factor in other.factors.items():
            both[leaf] = _product(both.get(leaf), factor)
        return Monomial(both, self.kept if other.kept is None else _product(self.kept, other.kept))


def _product(a: Term | None, b: Term) -> Term:
    return b if a is None else Prim(fn.TIMES, (a, b))


def _product_of(factors: Iterable[Term]) -> Term:
    product: Term | None = None
    for factor in factors:
        product = _product(product, factor)
    assert product is not None
    return product


class _Expander:
    """Takes numbers apart to monomials over the inputs that are stored."""

    def __init__(self, owner: Mapping[str, int], carrier: Type) -> None:
        self.owner = owner
        self.carrier = carrier

    def expand(self, term: Term) -> list[Monomial]:
        read = {self.owner.get(name) for name in free_vars(term)}
        match list(read):
            case []:
                return [Monomial({}, self._number(term))]
            case [int(leaf)]:
                return [Monomial({leaf: self._number(term)})]
        match term:
            case _ if term.type not in (ty.LONG, ty.DOUBLE):
                pass
            case Prim(fn.PLUS, (a, b)):
                return self._few([*self.expand(a), *self.expand(b)], term)
            case Prim(fn.MINUS, (a, b)):
                minus = Monomial({}, self._number(Lit(-1, ty.LONG)))
                return self._few([*self.expand(a), *(minus.times(m) for m in self.expand(b))], term)
            case Prim(fn.TIMES, (a, b)):
                return self._few([m.times(n) for m in self.expand(a) for n in self.expand(b)], term)
            case Cast(inner, ty.DOUBLE) if inner.type == ty.LONG:
                return self.expand(inner)
        return [Monomial({}, self._number(term))]

    def _few(self, found: list[Monomial], term: Term) -> list[Monomial]:
        return found if len(found) <= MOST else [Monomial({}, self._number(term))]

    def _number(self, term: Term) -> Term:
        match term:
            case Lit(int() | float() as value):
                return Lit(value if self.carrier == ty.LONG else float(value), self.carrier)
            case _:
                return _cast(term, self.carrier)


# --- the pass -----------------------------------------------------------------------------------


@attrs.frozen
class Share:
    """What a sum gets of a row: the number, if all `conditions` hold and it is not missing."""

    component: int
    carrier: Type
    conditions: tuple[Term, ...]
    number: Term


def _feed(feed: Feed, components: tuple[Component, ...]) -> Feed:
    if len(feed.rows.inputs) < 2:
        return feed
    try:
        return _Rewriter(feed, components).feed()
    except Unknown:
        return feed


class _Rewriter:
    """The feed of a join with the sums of its inputs."""

    def __init__(self, feed: Feed, components: tuple[Component, ...]) -> None:
        self.original = feed
        self.names = Names(set(all_names(feed.rows.body)).union(*(all_names(u) for _, u in feed.units)))
        inputs = {read.label: read.term for read in feed.rows.inputs}
        self.tree, row = Reader(self.names, inputs).tree(feed.rows.body)
        self.key, element = key_and_value(row)
        self.leaves = [part for part in parts(self.tree) if isinstance(part, Leaf) and part.label is not None]
        self.keyed = frozenset(leaf.label for leaf, _ in sides(self.tree) if isinstance(leaf, Leaf) and leaf.label)
        self.owner = {column.name: i for i, leaf in enumerate(self.leaves) for column in leaf.columns}
        bound = match_pattern(feed.key, self.key) | match_pattern(feed.element, element)
        units = [(i, normalize(substitute(unit, bound))) for i, unit in feed.units]
        if not free_vars(Tup((self.key, *(unit for _, unit in units)))) <= columns_of(self.tree):
            raise Unknown
        self.shares = [share for i, unit in units if (share := _share(i, components[i], unit)) is not None]
        summed = {share.component for share in self.shares}
        self.others = [(i, unit) for i, unit in units if i not in summed]
        self.measures: list[dict[Term, Var]] = [{} for _ in self.leaves]
        """For each leaf, the numbers that it keeps the sums of."""

    def feed(self) -> Feed:
        counts = [self._measure(i, Lit(1, ty.LONG), "n") for i, _ in enumerate(self.leaves)]
        weight = _product_of(counts)
        sums = [(share.component, self._sum(share, weight)) for share in self.shares]
        kept = self._kept([*(unit for _, unit in self.others), *(unit for _, unit in sums)])
        if not any(self._dropped(leaf, kept) for leaf in self.leaves):
            return self.original
        columns = {str(leaf.label): self._columns(i, kept) for i, leaf in enumerate(self.leaves)}
        rows = Writer(self.names, lambda leaf: self._stored(leaf, columns[str(leaf.label)])).rows(self.tree)
        used = free_vars(weight).union(*(free_vars(unit) for _, unit in [*self.others, *sums]))
        element = tuple_of(tuple(column for column in rows.columns if column.name in used))
        body = normalize(rows.over(Single(Tup((self.key, element)))))
        inputs = {read.label: read for read in self.original.rows.inputs}
        return attrs.evolve(
            self.original,
            rows=Multilinear(body, tuple(self._input(i, inputs, kept) for i, _ in enumerate(self.leaves))),
            key=PAny(self.key.type),
            element=pattern_of(element),
            units=tuple(sorted([*self.others, *sums], key=lambda unit: unit[0])),
            weight=weight,
        )

    # --- sums ---------------------------------------------------------------------------------

    def _sum(self, share: Share, weight: Term) -> Term:
        """The share of a joined row of sums, whose weight is in it already."""
        zero = Lit(0 if share.carrier == ty.LONG else 0.0, share.carrier)
        local: dict[int, Term] = {}
        conditions = []
        for condition in share.conditions:
            owners = {self.owner.get(name) for name in free_vars(condition)}
            match list(owners):
                case [int(leaf)]:
                    local[leaf] = _both(local.get(leaf), condition)
                case _:
                    conditions.append(condition)
        expanded = _Expander(self.owner, share.carrier).expand(share.number)
        factors = {i: [m.factors[i] for m in expanded if i in m.factors] for i, _ in enumerate(self.leaves)}
        total = reduce(
            lambda a, b: Prim(fn.PLUS, (a, b)),
            [self._monomial(monomial, factors, local, zero) for monomial in expanded],
        )
        kept = [m.kept for m in expanded if m.kept is not None and free_vars(m.kept)]
        missing = [Prim(fn.IS_NULL, (term,)) for term in kept]
        for condition in missing:
            total = If(condition, zero, total)
        for condition in conditions:
            total = If(condition, total, zero)
        return Reduce(SUM, Single(total))

    def _monomial(
        self, monomial: Monomial, factors: Mapping[int, list[Term]], local: Mapping[int, Term], zero: Lit
    ) -> Term:
        one = Lit(1 if zero.type == ty.LONG else 1.0, zero.type)
        product = [] if monomial.kept in (None, one) else [monomial.kept]
        for i, _ in enumerate(self.leaves):
            number = monomial.factors.get(i, one)
            plain = not factors[i] and i not in local
            guarded = number
            for factor in dict.fromkeys(factors[i]):
                guarded = If(Prim(fn.IS_NULL, (factor,)), zero, guarded)
            if i in local:
                guarded = If(local[i], guarded, zero)
            count = self._measure(i, Lit(1, ty.LONG), "n")
            measure = _cast(count, zero.type) if plain else self._measure(i, guarded, "s")
            product.append(measure)
        return _product_of(product)

    def _measure(self, leaf: int, number: Term, name: str) -> Var:
        number = normalize(number)
        known = self.measures[leaf]
        if number not in known:
            known[number] = Var(self.names.fresh(name), number.type)
        return known[number]

    # --- columns ------------------------------------------------------------------------------

    def _stored(self, leaf: Leaf, columns: tuple[Var, ...]) -> Rows:
        key = self._key(leaf)
        row = tuple_of(columns)
        stream = Stream(str(leaf.label), ty.BagType(ty.TupleType((key.type, row.type))))
        param = PTuple((PAny(key.type), pattern_of(row)))
        return Rows(columns, lambda body: CMap(Lambda(param, body), stream), Stored(stream, key, columns))

    def _key(self, leaf: Leaf) -> Term:
        """What an input is stored by: the key of its join, where it is a side of one as it is."""
        return key_and_value(leaf.element)[0] if leaf.label in self.keyed else Tup(())

    def _kept(self, units: Iterable[Term]) -> frozenset[str]:
        """The columns of which the values are needed, and not only sums."""
        conditions = [part.condition for part in parts(self.tree) if isinstance(part, Where)]
        keys = [key for side, key in sides(self.tree) if not is_stored(side)]
        return free_vars(self.key).union(*map(free_vars, [*units, *conditions, *keys]))

    def _dropped(self, leaf: Leaf, kept: frozenset[str]) -> bool:
        own = free_vars(self._key(leaf))
        return any(column.name not in kept | own for column in leaf.columns)

    def _columns(self, index: int, kept: frozenset[str]) -> tuple[Var, ...]:
        columns = tuple(column for column in self.leaves[index].columns if column.name in kept)
        return (*columns, *self.measures[index].values())

    def _input(self, index: int, inputs: Mapping[str, Input], kept: frozenset[str]) -> Input:
        leaf = self.leaves[index]
        assert leaf.label is not None
        read = inputs[leaf.label]
        key = self._key(leaf)
        columns = [column for column in leaf.columns if column.name in kept]
        values = (*columns, *self.measures[index])
        row = Single(Tup((key, values[0] if len(values) == 1 else Tup(values))))
        term = normalize(CMap(Lambda(pattern_of(leaf.element), row), read.term))
        return attrs.evolve(read, term=term, sums=len(self.measures[index]))


# --- shares and conditions ----------------------------------------------------------------------


def _share(index: int, component: Component, unit: Term) -> Share | None:
    """A share of a sum, if it is one; what may fail is computed for the rows that have partners alone."""
    if component.monoid != SUM or component.type not in (ty.LONG, ty.DOUBLE) or not isinstance(unit, Reduce):
        return None
    if may_fail(unit):
        return None
    conditions: list[Term] = []
    bag = unit.source
    while isinstance(bag, If) and isinstance(bag.otherwise, Empty):
        conditions.append(bag.condition)
        bag = bag.then
    if not isinstance(bag, Single):
        return Share(index, component.type, (), unit)
    return Share(index, component.type, tuple(conditions), bag.item)


def _both(a: Term | None, b: Term) -> Term:
    return b if a is None else Prim(fn.AND, (a, b))


def _cast(term: Term, t: Type) -> Term:
    return term if term.type == t else Cast(term, t)
