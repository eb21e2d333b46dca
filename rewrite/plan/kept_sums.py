"""The sums that the inputs of a join store in the place of rows: of longs, of decimals, of doubles.

`eager_aggregation.py` says which sums may be stored so, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import digits_of, may_overflow
from mrql.algebra.analysis.variables import Names, free_vars
from mrql.algebra.functions.decimals import LOW_DIGITS
from mrql.algebra.functions.function import Function
from mrql.algebra.terms import Cast, If, Lit, Prim, Term, Tup, Var, cast_to
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import of_type
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.joins.products import Factor, KeptFactor, Product, Times, factors, halves, product_of

LIMB_NAMES = "rpwof"
"""The names of the sums of limbs, in the order of `fn.LIMBS`."""


@attrs.frozen
class SumTerm:
    """What a row adds to a sum: the product, if all `conditions` hold and it is not missing."""

    component: int
    carrier: ty.Basic
    conditions: tuple[Term, ...]
    product: Product
    narrow: bool


@attrs.define
class KeptSums:
    """The sums that the inputs of a join store, and the totals of a joined row that are computed from them."""

    names: Names
    owner: Mapping[str, int]
    """For each column, the number of its leaf."""
    measures: list[dict[Term, Var]]
    """For each leaf, the numbers that it stores the sums of."""
    magnitudes: list[dict[Term, Var]]
    """For each leaf, the magnitudes of numbers, by which it stores such sums."""

    def of(self, share: SumTerm) -> Term:
        """What a joined row of sums adds to a total, for all the rows that it stands for."""
        local: dict[int, Term] = {}
        conditions: list[Term] = [
            Prim(fn.NOT, (Prim(fn.IS_NULL, (factor.term,)),))
            for factor in factors(share.product)
            if isinstance(factor, KeptFactor) and free_vars(factor.term)
        ]
        for condition in share.conditions:
            owners = {self.owner.get(name) for name in free_vars(condition)}
            match list(owners):
                case [int(leaf)] if not may_overflow(condition):
                    local[leaf] = both(local.get(leaf), condition)
                case _:
                    conditions.append(condition)
        held = reduce(both, conditions[1:], conditions[0]) if conditions else None
        match share.product:
            case Factor(leaf, Cast(inner, ty.DOUBLE)) if inner.type == ty.LONG:
                # An integer that is cast to a double is added up as an integer.
                longs = attrs.evolve(share, product=Factor(leaf, inner), narrow=False)
                return self._of_longs(longs, local, held)
            case KeptFactor() | Factor() if share.carrier == ty.DOUBLE:
                return self._of_doubles(share.product, local, held)
            case Times() if share.carrier == ty.DOUBLE:
                return self._of_products(share.product, local, held)
            case KeptFactor() | Factor() if isinstance(share.carrier, ty.DecimalType):
                return self._of_decimals(share.product, local, held)
            case _:
                return self._of_longs(share, local, held)

    def _of_longs(self, share: SumTerm, local: Mapping[int, Term], held: Term | None) -> Term:
        """A long where the sum is narrow, and otherwise its halves."""
        zero = Lit(0, ty.LONG)
        own = {factor.leaf for factor in factors(share.product) if isinstance(factor, Factor)}
        times = [self._count(i, local.get(i)) for i, _ in enumerate(self.measures) if i not in own]
        if share.narrow:
            return where(held, product_of([*self._narrow(share.product, local), *times]), zero)
        halves = self._halves(share.product, local)
        return Tup(tuple(where(held, product_of([half, *times]), zero) for half in halves))

    def _narrow(self, product: Product, local: Mapping[int, Term]) -> list[Term]:
        match product:
            case Times(left, right):
                return [*self._narrow(left, local), *self._narrow(right, local)]
            case KeptFactor(Lit(1)):
                return []
            case KeptFactor(term):
                return [term]
            case Factor(leaf, term):
                return [self.measure(leaf, present(term, local.get(leaf)), "s")]

    def _halves(self, product: Product, local: Mapping[int, Term]) -> tuple[Term, Term]:
        """The halves of a sum of longs, which may be wider than a long."""
        match product:
            case KeptFactor(term):
                return Prim(fn.HIGH, (term,), span=term.span), Prim(fn.LOW, (term,), span=term.span)
            case Factor(leaf, term):
                found = halves(term)
                assert found is not None
                high, low = found
                held = local.get(leaf)
                return self.measure(leaf, present(high, held), "h"), self.measure(leaf, present(low, held), "l")
            case Times(left, right, span):
                parts = (*self._halves(left, local), *self._halves(right, local))
                return Prim(fn.TIMES_HIGH, parts, span=span), Prim(fn.TIMES_LOW, parts, span=span)

    def _of_decimals(self, number: KeptFactor | Factor, local: Mapping[int, Term], held: Term | None) -> Term:
        """The first digits and the last ones, each times the number of partners: as often as the query adds the number,
        and no more often than there is room for."""
        own = {number.leaf} if isinstance(number, Factor) else set[int]()
        times = [self._count(i, local.get(i)) for i, _ in enumerate(self.measures) if i not in own]

        def total(function: Function, name: str) -> Term:
            part: Term = Prim(function, (number.term,))
            zero = zero_of(part.type)
            if function == fn.FIRST_DIGITS and digits_of(number.term) <= LOW_DIGITS:
                return zero
            if isinstance(number, Factor):
                part = self.measure(number.leaf, present(part, local.get(number.leaf)), name)
            return where(held, product_of([part, *times]), zero)

        return Tup((total(fn.FIRST_DIGITS, "f"), total(fn.LAST_DIGITS, "l")))

    def _of_doubles(self, number: KeptFactor | Factor, local: Mapping[int, Term], held: Term | None) -> Term:
        """The parts of a sum of doubles, all but the rest without rounding: the magnitude, the mantissas and the number
        of the huge ones, the number of partners, and the limbs of the others."""
        own = {number.leaf} if isinstance(number, Factor) else set[int]()
        times = product_of(self._count(i, local.get(i)) for i, _ in enumerate(self.measures) if i not in own)
        condition = local.get(number.leaf) if isinstance(number, Factor) else None

        def part(function: Function, name: str) -> Term:
            found = present(Prim(function, (number.term,)), condition)
            return self.measure(number.leaf, found, name) if isinstance(number, Factor) else found

        magnitude = present(Prim(fn.HUGE_MAGNITUDE, (number.term,)), condition)
        count: Term = Lit(1, ty.LONG)
        if isinstance(number, Factor):
            magnitude, count = self._magnitude(number.leaf, magnitude), self._count(number.leaf, None)
        zero = zero_of(ty.LONG)
        huge = where(held, magnitude, zero), part(fn.HUGE_MANTISSA, "s"), count
        return Tup((*huge, where(held, times, zero), *map(part, fn.LIMBS, LIMB_NAMES)))

    def _of_products(self, product: Times, local: Mapping[int, Term], held: Term | None) -> Term:
        """The magnitude of the addends, missing where they are; the sum of their mantissas; and their number."""
        own = {factor.leaf for factor in factors(product) if isinstance(factor, Factor)}
        counts = [self._count(i, None if i in own else local.get(i)) for i, _ in enumerate(self.measures)]
        magnitude, mantissa = self._parts(product, local)
        times = [cast_to(count, ty.DOUBLE) for i, count in enumerate(counts) if i not in own]
        missing = Lit(None, ty.LONG)
        return Tup((where(held, magnitude, missing), product_of([mantissa, *times]), product_of(counts)))

    def _parts(self, product: Product, local: Mapping[int, Term]) -> tuple[Term, Term]:
        match product:
            case KeptFactor(term):
                return Prim(fn.MAGNITUDE, (term,)), present(Prim(fn.MANTISSA, (term,)), None)
            case Factor(leaf, term):
                number = where(local.get(leaf), term, Lit(None, ty.DOUBLE))
                mantissa = present(Prim(fn.MANTISSA, (term,)), local.get(leaf))
                return self._magnitude(leaf, Prim(fn.MAGNITUDE, (number,))), self.measure(leaf, mantissa, "s")
            case Times(left, right):
                a, b = self._parts(left, local), self._parts(right, local)
                return Prim(fn.MAGNITUDES, (a[0], b[0])), Prim(fn.TIMES, (a[1], b[1]))

    def _count(self, leaf: int, held: Term | None) -> Var:
        """The number of rows of an input that a joined row stands for, and for which a condition holds."""
        return self.measure(leaf, where(held, Lit(1, ty.LONG), Lit(0, ty.LONG)), "n")

    def _magnitude(self, leaf: int, number: Term) -> Var:
        return self._named(self.magnitudes[leaf], number, "m")

    def measure(self, leaf: int, number: Term, name: str) -> Var:
        return self._named(self.measures[leaf], number, name)

    def _named(self, known: dict[Term, Var], number: Term, name: str) -> Var:
        number = normalize(number)
        if number not in known:
            known[number] = Var(self.names.fresh(name), number.type)
        return known[number]


# --- conditions ---


def both(a: Term | None, b: Term) -> Term:
    return b if a is None else Prim(fn.AND, (a, b))


def where(condition: Term | None, then: Term, otherwise: Term) -> Term:
    return then if condition is None else If(condition, then, otherwise)


def zero_of(t: Type) -> Lit:
    match t:
        case ty.DecimalType():
            return Lit(of_type(0, t), t)
        case _:
            return Lit(0 if t == ty.LONG else 0.0, t)


def present(number: Term, condition: Term | None) -> Term:
    """The number, or 0 where it is missing or a condition does not hold."""
    zero = zero_of(number.type)
    return where(condition, If(Prim(fn.IS_NULL, (number,)), zero, number), zero)
