"""Aggregations of a collection: quantiles, variances, the value beside an extreme key, histograms.

Those that are functions of a bag are computed anew for the groups that a batch touches, from the elements that are
kept. Missing elements do not count.
"""

from __future__ import annotations

from collections.abc import Callable

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.distinct import distinct
from mrql.algebra.analysis.missing import there
from mrql.algebra.analysis.variables import Names, var_of
from mrql.algebra.errors import UserError
from mrql.algebra.functions import DIVIDE, TIMES, Function
from mrql.algebra.monoids import Aggregate
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    Cast,
    CMap,
    GroupBy,
    Lambda,
    Lit,
    Nth,
    Prim,
    PTuple,
    PVar,
    Reduce,
    Single,
    Term,
    Tup,
    cast_to,
    element_type,
    pair_type,
)
from mrql.translate.builtin_aggregates import count
from mrql.translate.collection_terms import (
    check_numeric,
    check_ordered,
    each,
    in_order,
    itself,
    of_type,
    parts_of_pairs,
)
from mrql.translate.scalar_functions import apply


def _double(x: Term) -> Term:
    return cast_to(x, ty.DOUBLE)


def count_distinct(collection: Term, names: Names, span: Span) -> Term:
    return count(distinct(each(collection, names, lambda x: x, itself), names), names)


def of_numbers(function: Function) -> Callable[..., Term]:
    """The maker of the term of a function of a bag of numbers, for any collection of numbers."""

    def make(collection: Term, names: Names, span: Span) -> Term:
        check_numeric(function.name, element_type(collection), span)
        return Prim(function, (each(collection, names, lambda x: x),), span=span)

    return make


def of_pairs(function: Function) -> Callable[..., Term]:
    """The maker of the term of a function of a bag of pairs of numbers, for any collection of these."""

    def make(collection: Term, names: Names, span: Span) -> Term:
        collection = of_type(collection, ty.TupleType((ty.DOUBLE, ty.DOUBLE)))
        for side in parts_of_pairs(function.name, collection, "(x, y)", span):
            check_numeric(function.name, side, span)
        return Prim(function, (each(collection, names, lambda p: p),), span=span)

    return make


def percentile(collection: Term, names: Names, span: Span, part: Term) -> Term:
    check_numeric("percentile", element_type(collection), span)
    if not (isinstance(part, Lit) and isinstance(part.value, int | float) and 0 <= part.value <= 1):
        message = "the part of `percentile` is a constant between 0 and 1"
        several = "one part each: `(percentile(e, 0.5), percentile(e, 0.9))`"
        hint = several if isinstance(part.type, ty.ListType) else "percentile(e, 0.9)"
        raise UserError(message, part.span or span, hint)
    return _quantile(collection, names, span, float(part.value))


def median(collection: Term, names: Names, span: Span) -> Term:
    check_numeric("median", element_type(collection), span)
    return _quantile(collection, names, span, 0.5)


def _quantile(collection: Term, names: Names, span: Span, part: float) -> Term:
    numbers = each(collection, names, lambda x: x)
    return Prim(fn.PERCENTILE, (numbers, Lit(part, ty.DOUBLE)), span=span)


def mode(collection: Term, names: Names, span: Span) -> Term:
    check_ordered("mode", element_type(collection), span)
    return Prim(fn.MODE, (each(collection, names, lambda x: x),), span=span)


def by_key(name: str, monoid: Aggregate) -> Callable[..., Term]:
    """The maker of the term of the value beside the least or greatest key; of several such values, the least or
    greatest."""

    def make(collection: Term, names: Names, span: Span) -> Term:
        collection = of_type(collection, ty.TupleType((ty.NOTHING, ty.NOTHING)))
        for side in parts_of_pairs(name, collection, "(x, key)", span):
            check_ordered(name, side, span)
        swapped = each(collection, names, lambda p: Tup((Nth(p, 1), Nth(p, 0))), lambda p: (Nth(p, 1),))
        return Nth(Reduce(monoid, swapped, span=span), 1)

    return make


def string_agg(collection: Term, names: Names, span: Span, separator: Term) -> Term:
    element = element_type(collection)
    if not ty.fits(element, ty.STRING):
        raise UserError(f"`string_agg` takes a collection of strings, not of {element}", span, "`e as string` is one")
    is_list = isinstance(collection.type, ty.ListType)
    strings = there(collection) if is_list else in_order(collection, names, lambda x: x, itself, span)
    return apply(fn.FUNCTIONS["join"], [strings, separator], span, shown="string_agg")


def histogram(collection: Term, names: Names, span: Span, width: Term | None = None) -> Term:
    """`{(b(x), count(s)) | …}`, with `b(x)` the element, or the beginning of its interval.

    Raises: UserError where the width is no constant above 0, or the elements are no numbers.
    """
    if width is None:
        return _counted(each(collection, names, lambda x: Tup((x, Tup(()))), itself), names, span)
    check_numeric("histogram", element_type(collection), span)
    if not (isinstance(width, Lit) and isinstance(width.value, int | float) and width.value > 0):
        message = "the width of `histogram` is an integer or a double above 0, and the same for all rows"
        raise UserError(message, width.span or span, "histogram(e, 10)")
    given = width
    return _counted(each(collection, names, lambda x: Tup((_beginning(x, given, span), Tup(()))), itself), names, span)


def _counted(pairs: Term, names: Names, span: Span) -> Term:
    """The number of pairs for each key."""
    key = PVar(names.fresh("k"), pair_type(pairs)[0])
    group = PVar(names.fresh("s"), ty.BagType(ty.UNIT))
    counted = Single(Tup((var_of(key), count(var_of(group), names))))
    return CMap(Lambda(PTuple((key, group)), counted), GroupBy(pairs, span=span), span=span)


def _beginning(x: Term, width: Term, span: Span) -> Term:
    """The beginning of the interval of a number; an integer, if number and width are integers."""
    if ty.is_integral(x.type) and ty.is_integral(width.type):
        return Prim(fn.MINUS, (x, Prim(fn.FUNCTIONS["pmod"], (x, width), span=span)), span=span)
    whole = Prim(fn.FUNCTIONS["floor"], (Prim(DIVIDE, (_double(x), _double(width)), span=span),), span=span)
    return Prim(TIMES, (Cast(whole, ty.DOUBLE), _double(width)), span=span)
