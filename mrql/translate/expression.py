"""Expressions to terms: typing and translation in one traversal.

The algebra's terms carry their types, so a typed syntax tree would be redundant: the traversal infers the type of each
part by building its term, and the first part that cannot be built is the first error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.terms import (
    Empty,
    If,
    IllTyped,
    Let,
    ListOf,
    Lit,
    Rec,
    Single,
    Term,
    Tup,
    Union,
    Var,
)
from mrql.translate import xml
from mrql.translate.calls import call_named
from mrql.translate.case import case
from mrql.translate.coercion import castable, coerce, common, is_type, resolve, taken_as
from mrql.translate.data_types import construct
from mrql.translate.fields import field, nth
from mrql.translate.indexing import index, integers, part
from mrql.translate.inlining import call, is_function, with_function
from mrql.translate.json_values import as_collection
from mrql.translate.lifted import branch_hint, lifted_hint
from mrql.translate.literals import literal
from mrql.translate.operators import binary, unary
from mrql.translate.other_names import NAMES_HERE
from mrql.translate.patterns import take_apart
from mrql.translate.quantifiers import quantified
from mrql.translate.repeat import repeat
from mrql.translate.scope import Closure, Scope, Thunk
from mrql.translate.select import select


def translate(expr: syntax.Expr, scope: Scope) -> Term:
    """The term of an expression, with the expression's place; constructs reach it as `Scope.translate`.

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
        case (
            syntax.IntLit()
            | syntax.FloatLit()
            | syntax.DecimalLit()
            | syntax.StringLit()
            | syntax.BoolLit()
            | syntax.NullLit()
        ):
            return literal(expr)
        case syntax.Name():
            return _name(expr, scope)
        case syntax.TupleExpr(items):
            return Tup(tuple(scope.translate(item) for item in items))
        case syntax.RecordExpr():
            return _record(expr, scope)
        case syntax.BagExpr(items) | syntax.ListExpr(items):
            return _collection(expr, items, scope)
        case syntax.Field():
            return field(expr, scope)
        case syntax.Nth():
            return nth(expr, scope)
        case syntax.Unary():
            return unary(expr, scope)
        case syntax.Binary():
            return binary(expr, scope)
        case syntax.IfExpr():
            return _if(expr, scope)
        case syntax.LetExpr(bindings, body):
            return _let(bindings, body, scope)
        case syntax.Ascribe(inner, written):
            term = scope.translate(inner)
            wanted = _type(written, inner, scope)
            hint = lifted_hint(expr, [term], scope, lambda element: castable(element, wanted))
            return taken_as(term, wanted, expr.span, hint)
        case syntax.Call():
            return call_named(expr, scope)
        case syntax.Apply():
            return call(expr, scope)
        case syntax.Lambda():
            raise _no_value(expr)
        case syntax.Select():
            return select(expr, scope)
        case syntax.Quantified():
            return quantified(expr, scope)
        case syntax.CaseExpr():
            return case(expr, scope)
        case syntax.RangeExpr(low, high):
            ends = scope.translate(low), scope.translate(high)
            return integers(*ends, expr, branch_hint((low, high), ends, scope, ty.is_integral))
        case syntax.Index(inner, key):
            collection, place = as_collection(scope.translate(inner)), scope.translate(key)
            hint = lifted_hint(expr, [None, place], scope)
            return index(collection, place, expr, scope.globals.names, hint)
        case syntax.Slice(inner, low, high):
            collection, ends = as_collection(scope.translate(inner)), (scope.translate(low), scope.translate(high))
            return part(collection, *ends, expr, branch_hint((low, high), ends, scope, ty.is_integral))
        case syntax.Attribute(inner, name):
            return xml.attribute(scope.translate(inner), name, scope.globals.names, expr.span)
        case syntax.Children(inner):
            return xml.children(scope.translate(inner), None, scope.globals.names, expr.span)
        case syntax.XmlElement():
            return xml.element(expr, scope)
        case syntax.SourceExpr():
            return scope.globals.declare_source(expr, None)
        case syntax.Repeat():
            return repeat(expr, scope)
        case syntax.Incr(inner):
            return scope.translate(inner)
        case _:
            assert_never(expr)


def _no_value(expr: syntax.Expr) -> UserError:
    hint = "call it, name it, or hand it to another function"
    return UserError("a function stands here, where a value is needed", expr.span, hint)


# --- names, structures --------------------------------------------------------------------------


def _called_hint(name: str, scope: Scope) -> str | None:
    """The hint for the name of a macro, which can only be called."""
    macro = scope.globals.macros.get(name)
    return None if macro is None else f"it is a macro, which is called: `{name}({', '.join(macro.params)})`"


def _field_hint(name: str, scope: Scope) -> str | None:
    """The hint for a field that is written without its variable."""
    for variable, bound in scope.variables.items():
        t = bound.type if isinstance(bound, Term) else None
        row = t.item if isinstance(t, ty.BagType) else t
        if isinstance(row, ty.RecordType) and row.field(name) is not None:
            return f"a field is written behind what it is of: `{variable}.{name}`"
    return None


def _name(expr: syntax.Name, scope: Scope) -> Term:
    match scope.lookup(expr.name):
        case None:
            if expr.name in scope.globals.constructors:
                return construct(scope.globals.constructors[expr.name], (), expr.span)
            candidates = [*scope.variables, *scope.globals.values]
            quoted = f'a text is in quotes: "{expr.name}"' if len(expr.name) > 2 else None
            elsewhere = _called_hint(expr.name, scope) or _field_hint(expr.name, scope)
            elsewhere = elsewhere or NAMES_HERE.get(expr.name.lower())
            raise scope.unknown("name", expr.name, candidates, expr.span, elsewhere, quoted)
        case Thunk(argument, outer):
            return outer.translate(argument)
        case Closure():
            raise _no_value(expr)
        case term:
            return attrs.evolve(term, span=expr.span) if isinstance(term, Var) else term


def _record(expr: syntax.RecordExpr, scope: Scope) -> Term:
    names = [name for name, _ in expr.fields]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the field `{name}` is there twice", expr.span)
    return Rec(tuple((name, scope.translate(item)) for name, item in expr.fields))


def _collection(expr: syntax.BagExpr | syntax.ListExpr, items: Sequence[syntax.Expr], scope: Scope) -> Term:
    what = "a bag" if isinstance(expr, syntax.BagExpr) else "a list"
    if not items:
        return Empty(ty.BagType(ty.NOTHING) if isinstance(expr, syntax.BagExpr) else ty.ListType(ty.NOTHING))
    terms = [scope.translate(item) for item in items]
    _, widened = common(
        terms, [item.span for item in items], f"the elements of {what}", branch_hint(items, terms, scope)
    )
    return _union([Single(t) for t in widened]) if isinstance(expr, syntax.BagExpr) else ListOf(tuple(widened))


def _union(bags: Sequence[Term]) -> Term:
    """A union of many bags, balanced so that it is not deep."""
    if len(bags) == 1:
        return bags[0]
    middle = len(bags) // 2
    return Union(_union(bags[:middle]), _union(bags[middle:]))


def _type(written: syntax.TypeExpr, inner: syntax.Expr, scope: Scope) -> ty.Type:
    """The type after an `as`. For an unknown one, the hint considers that an `as` of SQL gives a name."""
    try:
        return resolve(written, scope.globals)
    except UserError as error:
        if not isinstance(written, syntax.NamedType) or is_type(written.name.lower(), scope.globals):
            raise
        before = inner.span.source.text[max(inner.span.start - 20, 0) : inner.span.start]
        # In `a + b as c` the `as` applies to `b` only.
        whole = re.search(r"[-+*/%=<>#]\s*\Z|\b(and|or|not|in)\s+\Z", before, re.IGNORECASE) is None
        named = f"`{written.name}: {inner.span.text if whole else '…'}`"
        if error.hint is None:
            hint = f"`as` takes a value as a type; a name stands before what it is of: {named}"
        elif isinstance(inner, syntax.Literal):
            raise
        else:
            hint = f"{error.hint.removesuffix('?')}; as a name it stands before: {named}"
        raise UserError(error.message, error.span, hint) from None


def _if(expr: syntax.IfExpr, scope: Scope) -> Term:
    tested = scope.translate(expr.condition)
    hint = lifted_hint(expr, [tested], scope, lambda element: element == ty.BOOL)
    condition = coerce(tested, ty.BOOL, expr.condition.span, "a condition", hint=hint)
    branches = [scope.translate(expr.then), scope.translate(expr.otherwise)]
    hint = branch_hint([expr.then, expr.otherwise], branches, scope)
    _, widened = common(branches, [expr.then.span, expr.otherwise.span], "the branches of an if", hint)
    return If(condition, widened[0], widened[1])


def _let(bindings: Sequence[tuple[syntax.Pattern, syntax.Expr]], body: syntax.Expr, scope: Scope) -> Term:
    if not bindings:
        return scope.translate(body)
    (pattern, value), *rest = bindings
    if isinstance(pattern, syntax.VarPattern) and is_function(value, scope):
        name = pattern.name
        return with_function(value, scope, lambda found: _let(rest, body, scope.bind({name: found})))
    term = scope.translate(value)
    if isinstance(pattern, syntax.VarPattern) and isinstance(term, Lit) and term.type == ty.STRING:
        return _let(rest, body, scope.bind({pattern.name: term}))  # stays a constant, as it may be beside a date
    algebraic, names = take_apart(pattern, term.type, scope.globals)
    return Let(algebraic, term, _let(rest, body, scope.bind(names)))
