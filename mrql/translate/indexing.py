"""Ranges and parts of collections.

    a..b, a...b    the list of the integers from a to b, both of them included; empty where b < a
    e[i]           the element of a list at index i, from 0 on
    e[i:j]         the elements of a list from index i to index j, both included, as far as there are any
    m[key]         the v of the one pair (key, v) in a bag:  only({v | (k, v) ∈ m, k = key})

An index out of range is an error of the data, and so is a key that no pair has, or more than one; the value at a
missing index or key is missing. Where m is made from streams, the equality is a join key.
"""

from __future__ import annotations

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.functions import AT, EQ, IS_NULL, ONLY, RANGE, SLICE
from mrql.algebra.showable import written_name
from mrql.algebra.terms import CMap, Empty, If, Lambda, ListOf, Lit, Prim, PTuple, PVar, Single, Term, Var
from mrql.algebra.types import Type


def integers(low: Term, high: Term, expr: syntax.RangeExpr, hint: str | None) -> Term:
    """`a..b`: a list of longs; the hint is for an end that is no integer.

    Raises: UserError where an end is no integer.
    """
    for end, written in ((low, expr.low), (high, expr.high)):
        if not _is_integer(end.type):
            raise UserError(f"the ends of a range must be integers, not {end.type}", written.span, hint)
    return Prim(RANGE, (low, high), span=expr.span)


def index(collection: Term, key: Term, expr: syntax.Index, names: Names, hint: str | None) -> Term:
    """`e[i]`: an element of a list by index, or of a bag of pairs by key; the hint is for an index or key that is none.

    Raises: UserError where `e` is neither a list nor a bag of pairs, or the index or key does not fit.
    """
    match collection.type:
        case ty.ListType():
            if isinstance(collection, ListOf) and isinstance(key, Lit) and key.value in range(len(collection.items)):
                return collection.items[key.value]
            if not _is_integer(key.type):
                raise UserError(f"the index of a list must be an integer, not {key.type}", expr.index.span, hint)
            if isinstance(key, Lit) and key.value is not None and key.value < 0:
                from_the_end = f"from the end it is `e[size(e) - {-key.value}]`"
                hint = "`last(e)` is the last one" if key.value == -1 else from_the_end
                raise UserError(f"there is no element {key.value}: places count from 0 on", expr.index.span, hint)
            return Prim(AT, (collection, key), span=expr.span)
        case ty.BagType(ty.TupleType((key_type, value_type))):
            if ty.join_types(key.type, key_type) is None:
                raise UserError(f"a key of this bag must be of type {key_type}, not {key.type}", expr.index.span, hint)
            return _lookup(collection, key, (key_type, value_type), expr, names)
        case other:
            raise UserError(f"`[…]` takes a list or a bag of pairs, not {other}", expr.span, _index_hint(expr, other))


def _index_hint(expr: syntax.Index, t: Type) -> str | None:
    """The hint for a value that has no index or key, such as a record or a tuple."""
    written, key = expr.expr.span.text, expr.index
    match t:
        case ty.RecordType() if isinstance(key, syntax.StringLit) and t.field(key.value) is not None:
            return f"a field is written behind what it is of: `{written}.{written_name(key.value)}`"
        case ty.TupleType(items) if isinstance(key, syntax.IntLit) and key.value < len(items):
            return f"a part of a tuple is `{written}#{key.value}`"
        case _:
            return _list_hint(written, t)


def _list_hint(written: str, t: Type) -> str | None:
    """The hint for a bag or a string that is used like a list."""
    match t:
        case ty.BagType():
            return "a bag has no order: `order by` makes a list of it"
        case ty.STRING:
            return f"characters of a text are `substring({written}, from, to)`, without the one at `to`"
        case _:
            return None


def _lookup(collection: Term, key: Term, pair: tuple[Type, Type], expr: syntax.Index, names: Names) -> Term:
    k, v = PVar(names.fresh("k"), pair[0]), PVar(names.fresh("v"), pair[1])
    found: Term = Single(Var(v.name, v.type))
    equal = Prim(EQ, (Var(k.name, k.type), key), span=expr.span)
    values = CMap(Lambda(PTuple((k, v)), If(equal, found, Empty(found.type))), collection)
    missing = Prim(IS_NULL, (key,), span=expr.span)
    return If(missing, Lit(None, pair[1]), Prim(ONLY, (values,), span=expr.span), span=expr.span)


def part(collection: Term, low: Term, high: Term, expr: syntax.Slice, hint: str | None) -> Term:
    """`e[i:j]`; the hint is for an end that is no integer.

    Raises: UserError where this is not a list, or an end is no integer.
    """
    if not isinstance(collection.type, ty.ListType):
        listed = _list_hint(expr.expr.span.text, collection.type)
        raise UserError(f"`[… : …]` takes a list, not {collection.type}", expr.span, listed)
    for end, written in ((low, expr.low), (high, expr.high)):
        if not _is_integer(end.type):
            raise UserError(f"the ends of a part of a list must be integers, not {end.type}", written.span, hint)
    return Prim(SLICE, (collection, low, high), span=expr.span)


def _is_integer(t: Type) -> bool:
    return ty.is_integral(t) or t == ty.NOTHING
