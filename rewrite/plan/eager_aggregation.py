"""A join that feeds sums keeps sums of its sides, not their rows.

*Equation*: over a join, a sum of products is a sum, by the join's key, of products of sums:

    Σ { f(x) · g(y) | x ∈ X, y ∈ Y, k(x) = k(y) }  =  Σ { F · G | (k, F) ∈ Σf by k, (k, G) ∈ Σg by k }

So an input of the join needs only, by its join key and the columns that are *kept* (those of filters, of other join
keys, of the group-by key and of what is not a sum), the number of its rows and the sums `Σf`. A missing value makes a
product missing, and sums skip it.

*Requires*: a feed with several inputs, of which one has a column that only sums use; and an addend that is a product of
factors over different inputs, as the query has it. A sum or a difference over several inputs is no factor: it may be
small, or in range, where its parts are not. No factor may fail for a row that has no partner. Longs are added up by
halves, wider than they are, and so computed from halves where they might overflow. Doubles are no ring: their sums are
kept by magnitude, which says of a product whether it is infinite or no number (`algebra/functions/side_sums.py`), and
products of three, which may be infinite or nothing on the way, are not taken apart. Decimals are added up as their
first digits and their last ones, each of which has room for 10¹⁷ addends; a sum over one input is so many of them times
the rows that it is joined with, and so never more than the addends that the query has. A product of two such sums has
no such bound, and is not taken apart; nor is a decimal that is computed in 38 digits, which may have no value for a row
without a partner.

*Source*: [CU] (the maps of its delta rules, `sum(price × rate)`); the design's small states.

*Does not fire* where every column is kept: the rows are then stored, each once with its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import reduce
from typing import TypeAlias

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import digits_of, has_halves, is_narrow, may_overflow
from mrql.algebra.analysis.variables import Names, all_names, free_vars, match_pattern, substitute
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions.decimals import LOW_DIGITS
from mrql.algebra.functions.function import Function
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
from mrql.algebra.values.decimals import of_type
from mrql.rewrite.analysis.multilinear import Input, Multilinear
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.join_tree import (
    FeedReader,
    JoinedRows,
    Leaf,
    StoredInput,
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
from mrql.rewrite.plan.plan import Component, Feed, Plan, Stage

MAX_FACTORS: Mapping[Type, int] = {ty.LONG: 3, ty.DOUBLE: 2}
"""Of how many factors a product is taken apart: one of doubles may be infinite, or nothing, on the way. Of decimals it
is one factor, which is added up as often as it has partners."""


def aggregate_eagerly(plan: Plan) -> Plan:
    """The plan with sums in the place of rows in what its joins keep.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.rewrite.pipeline import plan_query
    >>> types = {"O": "{(long, double)}", "L": "{(long, double)}"}
    >>> q = "reduce(+, cMap(λ(a, r). cMap(λ(b, p). if a = b then {p * r} else {}:{double}, L), O))"
    >>> (feed,) = plan_query(parse(q, types)).plan.stages[0].feeds
    >>> [read.sums for read in feed.rows.inputs], show(feed.units[0][1])
    ([2, 2], '(magnitudes(m, m1), s * s3, n * n1)')
    """
    return attrs.evolve(plan, stages=tuple(_stage(stage) for stage in plan.stages))


def _stage(stage: Stage) -> Stage:
    components = tuple(_narrow(i, component, stage.feeds) for i, component in enumerate(stage.components))
    feeds = tuple(_feed(feed, components) for feed in stage.feeds)
    return attrs.evolve(stage, components=components, feeds=feeds)


def _narrow(index: int, component: Component, feeds: tuple[Feed, ...]) -> Component:
    """The component, marked if its addends are so small that no number of them is too large for the sum."""
    units = [unit for feed in feeds for i, unit in feed.units if i == index]
    may_be = component.type == ty.LONG or isinstance(component.type, ty.DecimalType)
    narrow = component.monoid == SUM and may_be and all(map(is_narrow, units))
    return attrs.evolve(component, narrow=narrow)


# --- shares as products ---------------------------------------------------------------------------------------------


@attrs.frozen
class KeptFactor:
    """A factor of which the rows that are joined have the value."""

    term: Term


@attrs.frozen
class Factor:
    """A factor over one input, by the number of its leaf."""

    leaf: int
    term: Term


@attrs.frozen
class Times:
    """A product in the order in which the query has it, of factors over different inputs."""

    left: Product
    right: Product


Product: TypeAlias = KeptFactor | Factor | Times


def _factors(product: Product) -> Iterator[KeptFactor | Factor]:
    match product:
        case Times(left, right):
            yield from _factors(left)
            yield from _factors(right)
        case _:
            yield product


def _product(term: Term, carrier: ty.Basic, owner: Mapping[str, int]) -> Product:
    """A number as a product.

    Raises: Unknown where it is none, or has a factor that may leave its range.
    """
    owners = {owner.get(name) for name in free_vars(term)}
    match list(owners):
        case [] | [None]:
            return KeptFactor(_number(term, carrier))
        case [int(leaf)]:
            if may_overflow(term) and (carrier != ty.LONG or halves(term) is None):
                raise Unknown
            return Factor(leaf, _number(term, carrier))
    match term:
        case Prim(fn.TIMES, (a, b)) if term.type == carrier and carrier in MAX_FACTORS:
            found = Times(_product(a, carrier, owner), _product(b, carrier, owner))
            leaves = [factor.leaf for factor in _factors(found) if isinstance(factor, Factor)]
            if len(set(leaves)) == len(leaves) and len([*_factors(found)]) <= MAX_FACTORS[carrier]:
                return found
    raise Unknown


def halves(term: Term) -> tuple[Term, Term] | None:
    """The halves of a long, which leave no range on the way; None where there may be some that do.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> show(Tup(halves(parse("x + 1L", {}, {"x": ty.LONG}))))
    '(high(x) + high(1L), low(x) + low(1L))'
    """
    if not may_overflow(term):
        return Prim(fn.HIGH, (term,)), Prim(fn.LOW, (term,))
    match term:
        case Prim(function, (a, b)) if function in (fn.PLUS, fn.MINUS, fn.TIMES) and term.type == ty.LONG:
            left, right = halves(_cast(a, ty.LONG)), halves(_cast(b, ty.LONG))
            if left is None or right is None:
                return None
            if function == fn.TIMES:
                if may_overflow(a) or may_overflow(b) or not has_halves(term):
                    return None
                parts = (*left, *right)
                return Prim(fn.TIMES_HIGH, parts), Prim(fn.TIMES_LOW, parts)
            return Prim(function, (left[0], right[0])), Prim(function, (left[1], right[1]))
        case _:
            return None


def _number(term: Term, carrier: Type) -> Term:
    match term:
        case _ if isinstance(carrier, ty.DecimalType):
            return _unwidened(_cast(term, carrier))
        case Lit(int() | float() as value):
            return Lit(value if carrier == ty.LONG else float(value), carrier)
        case _:
            return _cast(term, carrier)


def _unwidened(number: Term) -> Term:
    """A decimal, of fewer digits where it was widened to more of them before the point."""
    match number:
        case Cast(inner, ty.DecimalType() as t) if isinstance(inner.type, ty.DecimalType):
            is_widened = inner.type.scale == t.scale and inner.type.precision <= t.precision
            return _unwidened(inner) if is_widened else number
        case _:
            return number


def _product_of(factors: Iterable[Term]) -> Term:
    return reduce(lambda a, b: Prim(fn.TIMES, (a, b)), factors)


# --- the pass -----------------------------------------------------------------------------------


@attrs.frozen
class SumTerm:
    """What a sum gets of a row: the number, if all `conditions` hold and it is not missing."""

    component: int
    carrier: ty.Basic
    conditions: tuple[Term, ...]
    product: Product
    narrow: bool


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
        self.tree, row = FeedReader(self.names, inputs).tree(feed.rows.body)
        self.key, element = key_and_value(row)
        self.leaves = [part for part in parts(self.tree) if isinstance(part, Leaf) and part.label is not None]
        self.keyed = frozenset(leaf.label for leaf, _ in sides(self.tree) if isinstance(leaf, Leaf) and leaf.label)
        self.owner = {column.name: i for i, leaf in enumerate(self.leaves) for column in leaf.columns}
        bound = match_pattern(feed.key, self.key) | match_pattern(feed.element, element)
        units = [(i, normalize(substitute(unit, bound))) for i, unit in feed.units]
        if not free_vars(Tup((self.key, *(unit for _, unit in units)))) <= columns_of(self.tree):
            raise Unknown
        found = [(i, unit, self._share(i, components[i], unit)) for i, unit in units]
        self.shares = [share for _, _, share in found if share is not None]
        self.others = [(i, unit) for i, unit, share in found if share is None]
        self.measures: list[dict[Term, Var]] = [{} for _ in self.leaves]
        """For each leaf, the numbers that it keeps the sums of."""
        self.magnitudes: list[dict[Term, Var]] = [{} for _ in self.leaves]
        """For each leaf, the magnitudes of numbers, by which it keeps such sums."""

    def feed(self) -> Feed:
        counts = [self._measure(i, Lit(1, ty.LONG), "n") for i, _ in enumerate(self.leaves)]
        weight = _product_of(counts)
        sums = [(share.component, self._sum(share)) for share in self.shares]
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
            totals=tuple(share.component for share in self.shares),
        )

    # --- sums ---------------------------------------------------------------------------------

    def _share(self, index: int, component: Component, unit: Term) -> SumTerm | None:
        """A share of a sum, if it is a product; what may fail is computed for the rows that have partners alone."""
        carrier = component.type
        is_taken_apart = carrier in MAX_FACTORS or isinstance(carrier, ty.DecimalType)
        if component.monoid != SUM or not is_taken_apart or not isinstance(unit, Reduce):
            return None
        assert isinstance(carrier, ty.Basic)
        conditions: list[Term] = []
        bag = unit.source
        while isinstance(bag, If) and isinstance(bag.otherwise, Empty):
            conditions.append(bag.condition)
            bag = bag.then
        if not isinstance(bag, Single) or may_fail(unit):
            return None
        item: Term | None = bag.item
        while item is not None:
            try:
                product = _product(item, carrier, self.owner)
                return SumTerm(index, carrier, tuple(conditions), product, component.narrow)
            except Unknown:
                item = _added_if(item, conditions)
        return None

    def _sum(self, share: SumTerm) -> Term:
        """What a joined row of sums adds to a total, all of its rows together."""
        local: dict[int, Term] = {}
        conditions: list[Term] = [
            Prim(fn.NOT, (Prim(fn.IS_NULL, (factor.term,)),))
            for factor in _factors(share.product)
            if isinstance(factor, KeptFactor) and free_vars(factor.term)
        ]
        for condition in share.conditions:
            owners = {self.owner.get(name) for name in free_vars(condition)}
            match list(owners):
                case [int(leaf)] if not may_overflow(condition):
                    local[leaf] = _both(local.get(leaf), condition)
                case _:
                    conditions.append(condition)
        held = reduce(_both, conditions[1:], conditions[0]) if conditions else None
        match share.product:
            case Factor(leaf, Cast(inner, ty.DOUBLE)) if inner.type == ty.LONG:
                # What is an integer is added up as one.
                longs = attrs.evolve(share, product=Factor(leaf, inner), narrow=False)
                return self._of_longs(longs, local, held)
            case _ if share.carrier == ty.DOUBLE:
                return self._of_doubles(share.product, local, held)
            case KeptFactor() | Factor() if isinstance(share.carrier, ty.DecimalType):
                return self._of_decimals(share.product, local, held)
            case _:
                return self._of_longs(share, local, held)

    def _of_longs(self, share: SumTerm, local: Mapping[int, Term], held: Term | None) -> Term:
        """A long where no addend is larger than an int, and otherwise its halves."""
        zero = Lit(0, ty.LONG)
        own = {factor.leaf for factor in _factors(share.product) if isinstance(factor, Factor)}
        times = [self._count(i, local.get(i)) for i, _ in enumerate(self.leaves) if i not in own]
        if share.narrow:
            return _where(held, _product_of([*self._narrow(share.product, local), *times]), zero)
        halves = self._halves(share.product, local)
        return Tup(tuple(_where(held, _product_of([half, *times]), zero) for half in halves))

    def _narrow(self, product: Product, local: Mapping[int, Term]) -> list[Term]:
        match product:
            case Times(left, right):
                return [*self._narrow(left, local), *self._narrow(right, local)]
            case KeptFactor(Lit(1)):
                return []
            case KeptFactor(term):
                return [term]
            case Factor(leaf, term):
                return [self._measure(leaf, _present(term, local.get(leaf)), "s")]

    def _halves(self, product: Product, local: Mapping[int, Term]) -> tuple[Term, Term]:
        """The halves of a sum of longs, each wider than that of a long."""
        match product:
            case KeptFactor(term):
                return Prim(fn.HIGH, (term,)), Prim(fn.LOW, (term,))
            case Factor(leaf, term):
                found = halves(term)
                assert found is not None
                high, low = found
                held = local.get(leaf)
                return self._measure(leaf, _present(high, held), "h"), self._measure(leaf, _present(low, held), "l")
            case Times(left, right):
                parts = (*self._halves(left, local), *self._halves(right, local))
                return Prim(fn.TIMES_HIGH, parts), Prim(fn.TIMES_LOW, parts)

    def _of_decimals(self, number: KeptFactor | Factor, local: Mapping[int, Term], held: Term | None) -> Term:
        """The first digits and the last ones, each added up as often as the number has partners: that is as often as
        the query adds it, and no more than there is room for."""
        own = {number.leaf} if isinstance(number, Factor) else set[int]()
        times = [self._count(i, local.get(i)) for i, _ in enumerate(self.leaves) if i not in own]

        def total(function: Function, name: str) -> Term:
            part: Term = Prim(function, (number.term,))
            zero = _zero(part.type)
            if function == fn.FIRST_DIGITS and digits_of(number.term) <= LOW_DIGITS:
                return zero
            if isinstance(number, Factor):
                part = self._measure(number.leaf, _present(part, local.get(number.leaf)), name)
            return _where(held, _product_of([part, *times]), zero)

        return Tup((total(fn.FIRST_DIGITS, "f"), total(fn.LAST_DIGITS, "l")))

    def _of_doubles(self, product: Product, local: Mapping[int, Term], held: Term | None) -> Term:
        """The magnitude of the addends, missing where they are; their mantissas added up; and how many there are."""
        own = {factor.leaf for factor in _factors(product) if isinstance(factor, Factor)}
        counts = [self._count(i, None if i in own else local.get(i)) for i, _ in enumerate(self.leaves)]
        magnitude, mantissa = self._parts(product, local)
        times = [_cast(count, ty.DOUBLE) for i, count in enumerate(counts) if i not in own]
        missing = Lit(None, ty.LONG)
        return Tup((_where(held, magnitude, missing), _product_of([mantissa, *times]), _product_of(counts)))

    def _parts(self, product: Product, local: Mapping[int, Term]) -> tuple[Term, Term]:
        match product:
            case KeptFactor(term):
                return Prim(fn.MAGNITUDE, (term,)), _present(Prim(fn.MANTISSA, (term,)), None)
            case Factor(leaf, term):
                number = _where(local.get(leaf), term, Lit(None, ty.DOUBLE))
                mantissa = _present(Prim(fn.MANTISSA, (term,)), local.get(leaf))
                return self._magnitude(leaf, Prim(fn.MAGNITUDE, (number,))), self._measure(leaf, mantissa, "s")
            case Times(left, right):
                a, b = self._parts(left, local), self._parts(right, local)
                return Prim(fn.MAGNITUDES, (a[0], b[0])), Prim(fn.TIMES, (a[1], b[1]))

    def _count(self, leaf: int, held: Term | None) -> Var:
        """How many rows of an input a joined row stands for, of those that a condition holds for."""
        return self._measure(leaf, _where(held, Lit(1, ty.LONG), Lit(0, ty.LONG)), "n")

    def _magnitude(self, leaf: int, number: Term) -> Var:
        return self._named(self.magnitudes[leaf], number, "m")

    def _measure(self, leaf: int, number: Term, name: str) -> Var:
        return self._named(self.measures[leaf], number, name)

    def _named(self, known: dict[Term, Var], number: Term, name: str) -> Var:
        number = normalize(number)
        if number not in known:
            known[number] = Var(self.names.fresh(name), number.type)
        return known[number]

    # --- columns ------------------------------------------------------------------------------

    def _stored(self, leaf: Leaf, columns: tuple[Var, ...]) -> JoinedRows:
        key = self._key(leaf)
        row = tuple_of(columns)
        stream = Stream(str(leaf.label), ty.BagType(ty.TupleType((key.type, row.type))))
        param = PTuple((PAny(key.type), pattern_of(row)))
        return JoinedRows(columns, lambda body: CMap(Lambda(param, body), stream), StoredInput(stream, key, columns))

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
        return (*columns, *self.magnitudes[index].values(), *self.measures[index].values())

    def _input(self, index: int, inputs: Mapping[str, Input], kept: frozenset[str]) -> Input:
        leaf = self.leaves[index]
        assert leaf.label is not None
        read = inputs[leaf.label]
        key = self._key(leaf)
        columns = [column for column in leaf.columns if column.name in kept]
        values = (*columns, *self.magnitudes[index], *self.measures[index])
        row = Single(Tup((key, values[0] if len(values) == 1 else Tup(values))))
        term = normalize(CMap(Lambda(pattern_of(leaf.element), row), read.term))
        return attrs.evolve(read, term=term, sums=len(self.measures[index]))


# --- conditions ----------------------------------------------------------------------


def _added_if(number: Term, conditions: list[Term]) -> Term | None:
    """What a number is, if it is not 0, and when, which is added to the conditions: nothing is added else."""
    match number:
        case Cast(inner, t) if (chosen := _added_if(inner, conditions)) is not None:
            return _cast(chosen, t)
        case If(condition, then, otherwise) if _is_zero(otherwise):
            conditions.append(condition)
            return then
        case _:
            return None


def _is_zero(number: Term) -> bool:
    match number:
        case Cast(inner, _):
            return _is_zero(inner)
        case Lit(value):
            return isinstance(value, int | float | Decimal) and value == 0
        case _:
            return False


def _both(a: Term | None, b: Term) -> Term:
    return b if a is None else Prim(fn.AND, (a, b))


def _cast(term: Term, t: Type) -> Term:
    return term if term.type == t else Cast(term, t)


def _where(condition: Term | None, then: Term, otherwise: Term) -> Term:
    return then if condition is None else If(condition, then, otherwise)


def _zero(t: Type) -> Lit:
    match t:
        case ty.DecimalType():
            return Lit(of_type(0, t), t)
        case _:
            return Lit(0 if t == ty.LONG else 0.0, t)


def _present(number: Term, condition: Term | None) -> Term:
    """A number, 0 where it is missing or a condition does not hold."""
    zero = _zero(number.type)
    return _where(condition, If(Prim(fn.IS_NULL, (number,)), zero, number), zero)
