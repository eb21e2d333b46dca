"""The addends of a sum over a join as products of factors, each over one input of it (`eager_aggregation.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import TypeAlias

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import has_halves, may_overflow
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, Lit, Prim, Term, cast_to
from mrql.algebra.types import Type
from mrql.rewrite.plan.joins.join_tree import Unknown

PRODUCT_MAX_FACTORS: Mapping[Type, int] = {ty.LONG: 3, ty.DOUBLE: 2}
"""The largest number of factors of a product that is taken apart: one of more doubles may be infinite or zero in
between. Of decimals it is one factor, which is added up as often as it has partners."""


@attrs.frozen
class KeptFactor:
    """A factor whose value the joined rows have."""

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
    span: Span | None = attrs.field(default=None, eq=False)
    """Its place in the query."""


Product: TypeAlias = KeptFactor | Factor | Times


def factors(product: Product) -> Iterator[KeptFactor | Factor]:
    match product:
        case Times(left, right):
            yield from factors(left)
            yield from factors(right)
        case _:
            yield product


def as_product(term: Term, carrier: ty.Basic, owner: Mapping[str, int]) -> Product:
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
        case Prim(fn.TIMES, (a, b)) if term.type == carrier and carrier in PRODUCT_MAX_FACTORS:
            found = Times(as_product(a, carrier, owner), as_product(b, carrier, owner), term.span)
            leaves = [factor.leaf for factor in factors(found) if isinstance(factor, Factor)]
            if len(set(leaves)) == len(leaves) and len([*factors(found)]) <= PRODUCT_MAX_FACTORS[carrier]:
                return found
    raise Unknown


def halves(term: Term) -> tuple[Term, Term] | None:
    """The halves of a long, computed without leaving their range; None where that is not certain.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.algebra.terms import Tup
    >>> show(Tup(halves(parse("x + 1L", {}, {"x": ty.LONG}))))
    '(high(x) + high(1L), low(x) + low(1L))'
    """
    if not may_overflow(term):
        return Prim(fn.HIGH, (term,), span=term.span), Prim(fn.LOW, (term,), span=term.span)
    match term:
        case Prim(function, (a, b)) if function in (fn.PLUS, fn.MINUS, fn.TIMES) and term.type == ty.LONG:
            left, right = halves(cast_to(a, ty.LONG)), halves(cast_to(b, ty.LONG))
            if left is None or right is None:
                return None
            if function == fn.TIMES:
                if may_overflow(a) or may_overflow(b) or not has_halves(term):
                    return None
                parts = (*left, *right)
                return Prim(fn.TIMES_HIGH, parts, span=term.span), Prim(fn.TIMES_LOW, parts, span=term.span)
            sums = (Prim(function, pair, span=term.span) for pair in zip(left, right, strict=True))
            return next(sums), next(sums)
        case _:
            return None


def _number(term: Term, carrier: Type) -> Term:
    match term:
        case _ if isinstance(carrier, ty.DecimalType):
            return _unwidened(cast_to(term, carrier))
        case Lit(int() | float() as value):
            return Lit(value if carrier == ty.LONG else float(value), carrier)
        case _:
            return cast_to(term, carrier)


def _unwidened(number: Term) -> Term:
    """A decimal without casts that only widen it by digits before the point."""
    match number:
        case Cast(inner, ty.DecimalType() as t) if isinstance(inner.type, ty.DecimalType):
            is_widened = inner.type.scale == t.scale and inner.type.precision <= t.precision
            return _unwidened(inner) if is_widened else number
        case _:
            return number


def product_of(factors: Iterable[Term]) -> Term:
    return reduce(lambda a, b: Prim(fn.TIMES, (a, b)), factors)
