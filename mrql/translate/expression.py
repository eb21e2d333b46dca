"""Expressions to terms: typing and translation in one walk.

The algebra's terms carry their types, so a typed syntax tree of its own would say the same twice: the walk infers the
type of each part by building it, and the first part that cannot be built is the first error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    Get,
    If,
    IllTyped,
    Lambda,
    Let,
    ListOf,
    Lit,
    Nth,
    Prim,
    PVar,
    Rec,
    Single,
    Term,
    Tup,
    Union,
    Var,
)
from mrql.syntax import nodes as syntax
from mrql.translate import xml
from mrql.translate.coercion import castable, coerce, common, resolve
from mrql.translate.data_types import case, compared, construct
from mrql.translate.indexing import index, integers, part
from mrql.translate.inlining import call, is_function, with_function
from mrql.translate.json_values import CAST_HINT, as_collection, member, met
from mrql.translate.literals import integer, literal
from mrql.translate.patterns import Match, match_pattern
from mrql.translate.quantifiers import member as is_member
from mrql.translate.quantifiers import quantified
from mrql.translate.repeat import repeat
from mrql.translate.scope import Closure, Scope, Thunk
from mrql.translate.set_operations import except_or_intersect

BINARY: dict[syntax.BinaryOp, Function] = {
    syntax.BinaryOp.ADD: fn.PLUS,
    syntax.BinaryOp.SUBTRACT: fn.MINUS,
    syntax.BinaryOp.MULTIPLY: fn.TIMES,
    syntax.BinaryOp.DIVIDE: fn.DIVIDE,
    syntax.BinaryOp.MOD: fn.MODULO,
    syntax.BinaryOp.EQUAL: fn.EQ,
    syntax.BinaryOp.NOT_EQUAL: fn.NE,
    syntax.BinaryOp.LESS: fn.LT,
    syntax.BinaryOp.LESS_EQUAL: fn.LE,
    syntax.BinaryOp.GREATER: fn.GT,
    syntax.BinaryOp.GREATER_EQUAL: fn.GE,
    syntax.BinaryOp.AND: fn.AND,
    syntax.BinaryOp.OR: fn.OR,
}
COMPARISONS = {"=", "<>", "<", "<=", ">", ">="}


def translate(expr: syntax.Expr, scope: Scope) -> Term:
    """The term of an expression, with the expression's place.

    Raises: UserError at the first part that has no type.
    """
    scope.globals.effort.spend(expr.span)
    key = scope.key(expr)
    if key is not None:
        return key
    try:
        term = _translate(expr, scope)
    except IllTyped as error:
        raise UserError(f"this has no type: {error}", expr.span) from error
    return term if term.span is not None else attrs.evolve(term, span=expr.span)


def _translate(expr: syntax.Expr, scope: Scope) -> Term:
    match expr:
        case syntax.IntLit() | syntax.FloatLit() | syntax.StringLit() | syntax.BoolLit() | syntax.NullLit():
            return literal(expr)
        case syntax.Name():
            return _name(expr, scope)
        case syntax.TupleExpr(items):
            return Tup(tuple(translate(item, scope) for item in items))
        case syntax.RecordExpr():
            return _record(expr, scope)
        case syntax.BagExpr(items) | syntax.ListExpr(items):
            return _collection(expr, items, scope)
        case syntax.Field():
            return _field(expr, scope)
        case syntax.Nth():
            return _nth(expr, scope)
        case syntax.Unary():
            return _unary(expr, scope)
        case syntax.Binary():
            return _binary(expr, scope)
        case syntax.IfExpr():
            return _if(expr, scope)
        case syntax.LetExpr(bindings, body):
            return _let(bindings, body, scope)
        case syntax.Ascribe(inner, written):
            return _ascribe(translate(inner, scope), resolve(written, scope.globals), expr.span)
        case syntax.Call():
            from mrql.translate.calls import call_named  # the two walks call each other

            return call_named(expr, scope)
        case syntax.Apply():
            return call(expr, scope)
        case syntax.Lambda():
            raise _no_value(expr)
        case syntax.Select():
            from mrql.translate.select import select  # the two walks call each other

            return select(expr, scope)
        case syntax.Quantified():
            return quantified(expr, scope)
        case syntax.CaseExpr():
            return case(expr, scope)
        case syntax.RangeExpr(low, high):
            return integers(translate(low, scope), translate(high, scope), expr)
        case syntax.Index(inner, key):
            return index(as_collection(translate(inner, scope)), translate(key, scope), expr, scope.globals.names)
        case syntax.Slice(inner, low, high):
            return part(as_collection(translate(inner, scope)), translate(low, scope), translate(high, scope), expr)
        case syntax.Attribute(inner, name):
            return xml.attribute(translate(inner, scope), name, scope.globals.names, expr.span)
        case syntax.Children(inner):
            return xml.children(translate(inner, scope), None, scope.globals.names, expr.span)
        case syntax.XmlElement():
            return xml.element(expr, scope)
        case syntax.SourceExpr():
            assert scope.globals.declare_source is not None
            return scope.globals.declare_source(expr, None)
        case syntax.Repeat():
            return repeat(expr, scope)
        case syntax.Incr(inner):
            return translate(inner, scope)
        case _:
            assert_never(expr)


def _no_value(expr: syntax.Expr) -> UserError:
    hint = "call it, name it, or hand it to another function"
    return UserError("a function stands here, where a value is needed", expr.span, hint)


# --- names, structures --------------------------------------------------------------------------


def _name(expr: syntax.Name, scope: Scope) -> Term:
    match scope.lookup(expr.name):
        case None:
            if expr.name in scope.globals.constructors:
                return construct(scope.globals.constructors[expr.name], (), expr.span)
            raise scope.unknown("name", expr.name, [*scope.variables, *scope.globals.values], expr.span)
        case Thunk(argument, outer):
            return translate(argument, outer)
        case Closure():
            raise _no_value(expr)
        case term:
            return attrs.evolve(term, span=expr.span) if isinstance(term, Var) else term


def _record(expr: syntax.RecordExpr, scope: Scope) -> Term:
    names = [name for name, _ in expr.fields]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the field `{name}` is there twice", expr.span)
    return Rec(tuple((name, translate(item, scope)) for name, item in expr.fields))


def _collection(expr: syntax.BagExpr | syntax.ListExpr, items: Sequence[syntax.Expr], scope: Scope) -> Term:
    what = "a bag" if isinstance(expr, syntax.BagExpr) else "a list"
    if not items:
        return Empty(ty.BagType(ty.NOTHING) if isinstance(expr, syntax.BagExpr) else ty.ListType(ty.NOTHING))
    terms = [translate(item, scope) for item in items]
    _, widened = common(terms, [item.span for item in items], f"the elements of {what}")
    return _union([Single(t) for t in widened]) if isinstance(expr, syntax.BagExpr) else ListOf(tuple(widened))


def _union(bags: Sequence[Term]) -> Term:
    """A union of many bags, balanced so that it is not deep."""
    if len(bags) == 1:
        return bags[0]
    middle = len(bags) // 2
    return Union(_union(bags[:middle]), _union(bags[middle:]))


def _field(expr: syntax.Field, scope: Scope) -> Term:
    term = translate(expr.expr, scope)
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
                raise scope.unknown("field", expr.name, record.names, expr.span)
            return Get(term, expr.name)
        case ty.BagType(ty.RecordType() as record):
            # The projection of a bag of records, as a from-variable is after `group by`: the bag of the fields.
            if record.field(expr.name) is None:
                raise scope.unknown("field", expr.name, record.names, expr.span)
            x = PVar(scope.globals.names.fresh("x"), record)
            return CMap(Lambda(x, Single(Get(Var(x.name, record), expr.name))), term)
        case other:
            raise UserError(f"`.{expr.name}` takes a record, not {other}", expr.span)


def _nth(expr: syntax.Nth, scope: Scope) -> Term:
    term = translate(expr.expr, scope)
    tuple_type = term.type.item if isinstance(term.type, ty.BagType) else term.type
    if not isinstance(tuple_type, ty.TupleType):
        raise UserError(f"`#{expr.index}` takes a tuple, not {term.type}", expr.span)
    if expr.index >= len(tuple_type.items):
        raise UserError(f"`#{expr.index}` of a tuple of {len(tuple_type.items)}; the first part is `#0`", expr.span)
    if term.type == tuple_type:
        return Nth(term, expr.index)
    x = PVar(scope.globals.names.fresh("x"), tuple_type)
    return CMap(Lambda(x, Single(Nth(Var(x.name, tuple_type), expr.index))), term)


def _ascribe(term: Term, wanted: ty.Type, span: Span) -> Term:
    if not castable(term.type, wanted):
        raise UserError(f"a value of type {term.type} cannot be taken as {wanted}", span)
    return term if term.type == wanted else Cast(term, wanted)


# --- operators ----------------------------------------------------------------------------------


def _unary(expr: syntax.Unary, scope: Scope) -> Term:
    if expr.op is syntax.UnaryOp.NEGATE and isinstance(expr.expr, syntax.IntLit):
        return integer(-expr.expr.value, expr.span)
    function = fn.NEGATE if expr.op is syntax.UnaryOp.NEGATE else fn.NOT
    return apply(function, [translate(expr.expr, scope)], expr.span, shown=expr.op.value)


def _binary(expr: syntax.Binary, scope: Scope) -> Term:
    left, right = met(expr.op, translate(expr.left, scope), translate(expr.right, scope))
    if expr.op is syntax.BinaryOp.UNION or (expr.op is syntax.BinaryOp.ADD and ty.is_collection(left.type)):
        joined = ty.join_types(left.type, right.type)
        if joined is None or not ty.is_collection(joined):
            raise UserError(
                f"`{expr.op.value}` of {left.type} and {right.type}", expr.span, "both sides must be bags, or lists"
            )
        return Union(
            coerce(left, joined, expr.left.span, "the left side"),
            coerce(right, joined, expr.right.span, "the right side"),
        )
    if expr.op in BINARY:
        sides = [left, right]
        if BINARY[expr.op].name in COMPARISONS and ty.join_types(left.type, right.type) is not None:
            sides = [compared(side, scope.globals) for side in sides]
        return apply(BINARY[expr.op], sides, expr.span)
    if expr.op is syntax.BinaryOp.IN:
        return is_member(left, right, scope.globals, expr.span)
    return except_or_intersect(left, right, expr, scope.globals.names)


def apply(function: Function, args: Sequence[Term], span: Span, shown: str | None = None) -> Term:
    """A scalar function applied; the error says what it takes."""
    if function.type_rule([arg.type for arg in args]) is None:
        found = " and ".join(str(arg.type) for arg in args) or "nothing"
        hint = CAST_HINT if ty.ANY in [arg.type for arg in args] else None
        raise UserError(f"`{shown or function.name}` takes {function.takes}, not {found}", span, hint)
    check_constants(function, args, span, shown)
    fitted = zip(args, fn.argument_types(function, [arg.type for arg in args]), strict=True)
    # What is empty, or missing, is of the type that it is taken for.
    typed = tuple(coerce(arg, t, span, "") if isinstance(arg, Empty | Lit) and ty.NOTHING in ty.walk(arg.type) else arg
                  for arg, t in fitted)  # fmt: skip
    return Prim(function, typed, span=span)


def check_constants(function: Function, args: Sequence[Term], span: Span, shown: str | None = None) -> None:
    """Some functions want a constant: a pattern, a unit, a number of digits.

    Raises: UserError where there is none, or one that means nothing.
    """
    wanted = [args[i] for i in function.constants if i < len(args)]
    for arg in wanted:
        if not isinstance(arg, Lit) or arg.value is None:
            takes = f"`{shown or function.name}` takes {function.takes}"
            raise UserError(f"{takes}; here a constant is needed", arg.span or span)
    wrong = (
        function.constant([arg.value for arg in wanted if isinstance(arg, Lit)])
        if function.constant and wanted
        else None
    )
    if wrong is not None:
        raise UserError(wrong, wanted[0].span or span)


def _if(expr: syntax.IfExpr, scope: Scope) -> Term:
    condition = coerce(translate(expr.condition, scope), ty.BOOL, expr.condition.span, "a condition")
    branches = [translate(expr.then, scope), translate(expr.otherwise, scope)]
    _, widened = common(branches, [expr.then.span, expr.otherwise.span], "the branches of an if")
    return If(condition, widened[0], widened[1])


def _let(bindings: Sequence[tuple[syntax.Pattern, syntax.Expr]], body: syntax.Expr, scope: Scope) -> Term:
    if not bindings:
        return translate(body, scope)
    (pattern, value), *rest = bindings
    if isinstance(pattern, syntax.VarPattern) and is_function(value, scope):
        name = pattern.name
        return with_function(value, scope, lambda found: _let(rest, body, scope.bind({name: found})))
    term = translate(value, scope)
    match = Match()
    algebraic = match_pattern(pattern, term.type, scope.globals, match)
    if match.conditions:
        raise UserError("the pattern of a `let` must match every value", pattern.span)
    return Let(algebraic, term, _let(rest, body, scope.bind(match.bindings)))
