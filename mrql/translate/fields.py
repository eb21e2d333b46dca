"""`e.A` and `e#i`: the parts of a record or a tuple, and of each element of a bag of them.

    e.A  =  {x.A | x ∈ e}

After `group by` a from-variable is such a bag.
"""

from __future__ import annotations

import re

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.showable import written_name
from mrql.algebra.terms import CMap, Get, Lambda, Nth, PVar, Single, Term, Var
from mrql.translate import xml
from mrql.translate.json_values import member
from mrql.translate.method_calls import method_hint
from mrql.translate.scope import Scope, foreign_field


def field(expr: syntax.Field, scope: Scope) -> Term:
    term = scope.translate(expr.expr)
    match term.type:
        case ty.Basic(ty.Kind.ANY):
            return member(term, expr.name)
        case ty.BagType(ty.Basic(ty.Kind.ANY)) | ty.ListType(ty.Basic(ty.Kind.ANY)):
            v = PVar(scope.globals.names.fresh("x"), ty.ANY)
            return CMap(Lambda(v, Single(member(Var(v.name, ty.ANY), expr.name))), term)
        case t if xml.is_xml(t):
            return xml.children(term, expr.name, scope.globals.names, expr.span)
        case ty.RecordType() as record:
            if record.field(expr.name) is None:
                raise _no_field(expr, record, scope)
            return Get(term, expr.name)
        case ty.BagType(ty.RecordType() as record):
            # The projection of a bag of records, as a from-variable is after `group by`: the bag of the fields.
            if record.field(expr.name) is None:
                raise _no_field(expr, record, scope)
            x = PVar(scope.globals.names.fresh("x"), record)
            return CMap(Lambda(x, Single(Get(Var(x.name, record), expr.name))), term)
        case other:
            hint = _part_hint(expr, other) or method_hint(expr.name, expr.expr, (), scope)
            raise UserError(f"`.{expr.name}` takes a record, not {other}", expr.span, hint)


def _no_field(expr: syntax.Field, record: ty.RecordType, scope: Scope) -> UserError:
    """The error for a field that a record does not have."""
    foreign = foreign_field(expr.name, record, expr.span)
    begun = next((name for name in record.names if re.match(rf"{re.escape(expr.name)}\W", name)), None)
    if foreign is not None or begun is None:
        return foreign or scope.unknown("field", expr.name, record.names, expr.span)
    hint = f"a name with other signs is in backquotes: {expr.expr.span.text}.{written_name(begun)}"
    return scope.unknown("field", expr.name, record.names, expr.span, hint)


def _part_hint(expr: syntax.Field, t: ty.Type) -> str | None:
    """The hint for a field of a tuple, whose parts have no names, and for one of the elements of a list."""
    item = t.item if isinstance(t, ty.BagType | ty.ListType) else t
    if isinstance(t, ty.ListType) and isinstance(item, ty.RecordType) and item.field(expr.name) is not None:
        x = "y" if expr.expr.span.text == "x" else "x"
        return f"of each element it is `(select {x}.{expr.name} from {x} in {expr.expr.span.text})`"
    if not isinstance(item, ty.TupleType):
        return None
    place = re.fullmatch(r"_(\d+)", expr.name)
    written = expr.expr.span.text
    if place is not None and 1 <= int(place[1]) <= len(item.items):
        return f"a part of a tuple has a place, from 0 on: `{written}#{int(place[1]) - 1}`"
    return f"the parts of a tuple have places, from 0 on: `{written}#0`; or a pattern names them: `(a, b) in …`"


def nth(expr: syntax.Nth, scope: Scope) -> Term:
    term = scope.translate(expr.expr)
    tuple_type = term.type.item if isinstance(term.type, ty.BagType) else term.type
    if not isinstance(tuple_type, ty.TupleType):
        raise UserError(f"`#{expr.index}` takes a tuple, not {term.type}", expr.span)
    if expr.index >= len(tuple_type.items):
        raise UserError(f"`#{expr.index}` of a tuple of {len(tuple_type.items)}; the first part is `#0`", expr.span)
    if term.type == tuple_type:
        return Nth(term, expr.index)
    x = PVar(scope.globals.names.fresh("x"), tuple_type)
    return CMap(Lambda(x, Single(Nth(Var(x.name, tuple_type), expr.index))), term)
