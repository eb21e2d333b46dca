"""The built-in aggregations as reductions."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.functions import IS_NULL, NOT, QUOTIENT
from mrql.algebra.functions.decimals import average_of_many, sum_of_many
from mrql.algebra.monoids import MAX, MIN, SUM, Aggregate, result_type
from mrql.algebra.showable import written_name
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, CMap, Empty, If, Lambda, Lit, Prim, PVar, Reduce, Single, Term, Var, element_type
from mrql.algebra.types import Type
from mrql.translate.json_values import CAST_HINT
from mrql.translate.quantifiers import all_true, exists, some_true

MONOIDS: dict[str, Aggregate] = {"sum": SUM, "min": MIN, "max": MAX}
AGGREGATIONS: tuple[str, ...] = ("count", "sum", "avg", "min", "max", "all", "some", "exists")


def aggregate(name: str, collection: Term, names: Names, span: Span) -> Term:
    """An aggregation of a collection, by its name in the language.

    `count` and `exists` count all elements; the others skip missing ones. `avg` is the sum divided by the number of
    elements summed. Sums and averages of decimals have as many digits as in Spark.

    Raises: UserError when the elements cannot be aggregated that way.
    """
    match name:
        case "count":
            return count(collection, names)
        case "exists":
            return exists(collection, names, span)
        case "some" | "all":
            if not ty.fits(element_type(collection), ty.BOOL):
                raise UserError(f"`{name}` takes a collection of bools, not of {element_type(collection)}", span)
            return (some_true if name == "some" else all_true)(collection, names, span)
        case "avg":
            total = _reduce("avg", SUM, _doubles(collection, names, span), span)
            if isinstance(element := element_type(collection), ty.DecimalType):
                total = as_decimal(total, sum_of_many(element), span)
                average = Prim(QUOTIENT, (total, count_present(collection, names)), span=span)
                return as_decimal(average, average_of_many(element), span)
            as_double = total if total.type == ty.DOUBLE else Cast(total, ty.DOUBLE)
            return Prim(QUOTIENT, (as_double, count_present(collection, names)), span=span)
        case "sum" if isinstance(element := element_type(collection), ty.DecimalType):
            return as_decimal(_reduce(name, SUM, collection, span), sum_of_many(element), span)
        case _:
            return _reduce(name, MONOIDS[name], collection, span)


def as_decimal(term: Term, t: ty.DecimalType, span: Span) -> Term:
    """A term that was computed with more digits, cast to the decimal type of the result."""
    return term if term.type == t else Cast(term, t, span=span)


def count(collection: Term, names: Names) -> Term:
    """`reduce(+, {1 | v ∈ X})`."""
    v = PVar(names.fresh("v"), element_type(collection))
    return Reduce(SUM, CMap(Lambda(v, Single(Lit(1, ty.LONG))), collection))


def count_present(collection: Term, names: Names) -> Term:
    """`reduce(+, {1 | v ∈ X, v is there})`."""
    v = PVar(names.fresh("v"), element_type(collection))
    present = Prim(NOT, (Prim(IS_NULL, (Var(v.name, v.type),)),))
    one = If(present, Single(Lit(1, ty.LONG)), Empty(ty.BagType(ty.LONG)))
    return Reduce(SUM, CMap(Lambda(v, one), collection))


def _doubles(collection: Term, names: Names, span: Span) -> Term:
    """Longs as doubles, others as they are: the average of longs is in their range, but their sum may not be."""
    element = element_type(collection)
    if element != ty.LONG:
        return collection
    v = PVar(names.fresh("v"), element)
    return CMap(Lambda(v, Single(Cast(Var(v.name, element), ty.DOUBLE))), collection, span=span)


def _of_a_field(name: str, element: Type) -> str | None:
    """The hint for a collection of records: to aggregate one of their numeric fields."""
    fields = element.fields if isinstance(element, ty.RecordType) else ()
    number = next((field for field, t in fields if ty.is_numeric(t)), None)
    return None if number is None else f"one of their fields: `{name}(select x.{written_name(number)} from x in X)`"


def _reduce(name: str, monoid: Aggregate, collection: Term, span: Span) -> Term:
    element = element_type(collection)
    if result_type(monoid, element) is None:
        raise UserError(f"`{name}` takes a collection of numbers, not of {element}", span, _of_a_field(name, element))
    if monoid in (MIN, MAX) and not ty.is_ordered(element):
        hint = CAST_HINT if element == ty.ANY else None
        raise UserError(f"`{name}` takes ordered values, and values of type {element} have no order", span, hint)
    return Reduce(monoid, collection, span=span)
