"""Functions of collections that are terms of their own, and so follow what is inserted and deleted as these do.

size(e)      reduce(+, {1 | x ∈ e}), as `count`
sort(e)      orderBy({((), x) | x ∈ e})
flatten(e)   of a bag: cMap(λx. x, e)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Lambda, OrderBy, PVar, Single, Term, Tup, Var, element_type
from mrql.translate.builtin_aggregates import count
from mrql.translate.scope import Scope


@attrs.frozen
class Derived:
    """A function that the algebra has no symbol for."""

    name: str
    result: str
    meaning: str
    examples: tuple[tuple[str, str], ...]
    make: Callable[[Term, Names, Span], Term]


def _size(collection: Term, names: Names, span: Span) -> Term:
    return count(collection, names)


def _sorted(collection: Term, names: Names, span: Span) -> Term:
    element = element_type(collection)
    if not ty.is_ordered(element):
        raise UserError(f"`sort` takes ordered values, and values of type {element} have no order", span)
    x = PVar(names.fresh("x"), element)
    keyed = CMap(Lambda(x, Single(Tup((Tup(()), Var(x.name, element))))), collection)
    return OrderBy(keyed, (), span=span)


def is_bag_of_collections(t: ty.Type) -> bool:
    return isinstance(t, ty.BagType) and ty.is_collection(t.item)


def flattened(collection: Term, names: Names, span: Span) -> Term:
    """The elements of the elements of a bag."""
    element = element_type(collection)
    x = PVar(names.fresh("x"), element)
    inner: Term = Var(x.name, element)
    if isinstance(element, ty.ListType):
        y = PVar(names.fresh("y"), element.item)
        inner = CMap(Lambda(y, Single(Var(y.name, element.item))), inner)
    return CMap(Lambda(x, inner), collection, span=span)


DERIVED: Mapping[str, Derived] = {
    function.name: function
    for function in (
        Derived("size", "long", "the number of its elements, as `count`", (("size([7, 8])", "2"),), _size),
        Derived(
            "sort",
            "list",
            "its elements from the least to the greatest, missing ones first",
            (("sort({3, 1, 2})", "[1, 2, 3]"),),
            _sorted,
        ),
    )
}


def derived(expr: syntax.Call, args: Sequence[Term], scope: Scope) -> Term:
    """The term of such a call.

    Raises: UserError where the argument is no collection, or not one that has such a value.
    """
    if len(args) != 1:
        raise UserError(f"`{expr.function}` takes one collection, not {len(args)} arguments", expr.span)
    if not ty.is_collection(args[0].type):
        raise UserError(f"`{expr.function}` takes a collection, not {args[0].type}", expr.args[0].span)
    return DERIVED[expr.function].make(args[0], scope.globals.names, expr.span)
