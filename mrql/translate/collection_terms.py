"""Terms over the elements of a collection, which several constructs use."""

from __future__ import annotations

from collections.abc import Callable

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, var_of
from mrql.algebra.errors import UserError
from mrql.algebra.functions import IS_NULL, NOT
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    CMap,
    Empty,
    If,
    Lambda,
    OrderBy,
    Prim,
    PVar,
    Single,
    Term,
    Tup,
    Var,
    element_type,
)
from mrql.translate.json_values import CAST_HINT

Present = Callable[[Term], tuple[Term, ...]]
"""The parts of an element that must not be missing, for it to count."""


def is_bag_of_collections(t: ty.Type) -> bool:
    return isinstance(t, ty.BagType) and ty.is_collection(t.item)


def flattened(collection: Term, names: Names, span: Span) -> Term:
    """The bag of the elements of all collections in a bag."""
    element = element_type(collection)
    x = PVar(names.fresh("x"), element)
    inner: Term = Var(x.name, element)
    if isinstance(element, ty.ListType):
        y = PVar(names.fresh("y"), element.item)
        inner = CMap(Lambda(y, Single(Var(y.name, element.item))), inner)
    return CMap(Lambda(x, inner), collection, span=span)


def anything(x: Term) -> tuple[Term, ...]:
    return ()


def itself(x: Term) -> tuple[Term, ...]:
    return (x,)


def each(collection: Term, names: Names, made: Callable[[Term], Term], present: Present = anything) -> Term:
    """The bag `{made(x) | x ∈ e, nothing in present(x) is missing}`."""
    x = PVar(names.fresh("x"), element_type(collection))
    one: Term = Single(made(var_of(x)))
    body = one
    for part in reversed(present(var_of(x))):
        body = If(Prim(NOT, (Prim(IS_NULL, (part,)),)), body, Empty(one.type))
    return CMap(Lambda(x, body), collection)


def in_order(
    collection: Term,
    names: Names,
    made: Callable[[Term], Term],
    present: Present,
    span: Span,
) -> Term:
    """The list of the values `made(x)` of the elements, from the least to the greatest."""
    return OrderBy(each(collection, names, lambda x: Tup((Tup(()), made(x))), present), (), span=span)


def check_ordered(name: str, t: ty.Type, span: Span) -> None:
    if not ty.is_ordered(t):
        hint = CAST_HINT if t == ty.ANY else None
        raise UserError(f"`{name}` takes ordered values, and values of type {t} have no order", span, hint)


_OF_TIMES = "`to_unix(t)` is a number, of seconds, and `from_unix(n as long)` a timestamp again"
_OF_DAYS = (
    '`date_diff(d, date("1970-01-01"))` is a number, of days, and `add_days(date("1970-01-01"), n as int)` a date again'
)


def check_numeric(name: str, element: ty.Type, span: Span) -> None:
    if not (ty.is_numeric(element) or element == ty.NOTHING):
        hints: dict[ty.Type, str] = {ty.ANY: CAST_HINT, ty.TIMESTAMP: _OF_TIMES, ty.DATE: _OF_DAYS}
        raise UserError(f"`{name}` takes a collection of numbers, not of {element}", span, hints.get(element))


def of_type(collection: Term, t: ty.Type) -> Term:
    """The collection; for an empty one without an element type, the empty bag of elements of type `t`."""
    return Empty(ty.BagType(t)) if element_type(collection) == ty.NOTHING else collection


def parts_of_pairs(name: str, collection: Term, example: str, span: Span) -> tuple[ty.Type, ty.Type]:
    """The types of the two parts of the elements.

    Raises: UserError where they are no pairs.
    """
    match element_type(collection):
        case ty.TupleType((left, right)):
            return left, right
        case element:
            hint = f"{name}(select {example} from …), or `{name}{example}` after a `group by`"
            raise UserError(f"`{name}` takes a collection of pairs, not of {element}", span, hint)
