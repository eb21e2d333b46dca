"""Patterns of the language, as patterns, projections and conditions of the algebra.

The algebra's patterns take tuples apart and cannot fail. A record pattern becomes projections; a constant, a
repeated name, or the number of elements of a list becomes a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import match_pattern as parts_of
from mrql.algebra.analysis.variables import substitute
from mrql.algebra.errors import UserError
from mrql.algebra.functions import AT, EQ, SIZE
from mrql.algebra.span import Span
from mrql.algebra.terms import Get, Lit, Nth, PAny, Pattern, Prim, PTuple, PVar, Term, Var
from mrql.algebra.types import Type
from mrql.algebra.values.data import TAG
from mrql.translate.coercion import resolve
from mrql.translate.data_types import compared, is_constant, record_of
from mrql.translate.exhaustiveness import left_out
from mrql.translate.literals import literal
from mrql.translate.scope import Globals, Scope, did_you_mean, foreign_field
from mrql.translate.time_constants import beside


@attrs.define
class Match:
    """The result of matching a pattern: names with their values, and the conditions under which it matches."""

    bindings: dict[str, Term] = attrs.Factory(dict)
    conditions: list[Term] = attrs.Factory(list)

    def name(self, name: str, value: Term, known: Globals, span: Span) -> None:
        """Binds a name; if it is bound already, the values must be equal."""
        if name in self.bindings:
            self.conditions.append(equal(self.bindings[name], value, known, span))
        else:
            self.bindings[name] = value


def equal(a: Term, b: Term, known: Globals, span: Span) -> Term:
    if ty.join_types(a.type, b.type) is None:
        raise UserError(f"a name that occurs twice is an equality, but {a.type} and {b.type} cannot be equal", span)
    return Prim(EQ, (compared(a, known), compared(b, known)), span=span)


def match_pattern(pattern: syntax.Pattern, t: Type, known: Globals, match: Match) -> Pattern:
    """The algebra's pattern for values of type `t`; names and conditions are added to `match`.

    Raises: UserError when values of the type cannot have the pattern's form.
    """
    match pattern:
        case syntax.VarPattern(name) if is_constant(name, t, known):
            return _constructor(name, (), pattern.span, t, known, match)
        case syntax.VarPattern(name):
            variable = PVar(known.names.fresh(name), t)
            match_name(match, name, variable, known, pattern.span)
            return variable
        case syntax.WildcardPattern():
            return PAny(t)
        case syntax.ConstPattern(value):
            return _constant(value, t, known, match)
        case syntax.TuplePattern(items):
            if not isinstance(t, ty.TupleType) or len(t.items) != len(items):
                raise UserError(
                    f"this pattern takes a tuple of {len(items)} apart, but the value is of type {t}", pattern.span
                )
            return PTuple(tuple(match_pattern(p, item, known, match) for p, item in zip(items, t.items, strict=True)))
        case syntax.RecordPattern():
            return _record(pattern, t, known, match)
        case syntax.TypedPattern(inner, written):
            wanted = resolve(written, known)
            if wanted != t:
                raise UserError(f"the pattern is of type {wanted}, but the value is of type {t}", pattern.span)
            return match_pattern(inner, t, known, match)
        case syntax.ListPattern(items):
            return _list(items, pattern.span, t, known, match)
        case syntax.ConstructorPattern(name, args):
            return _constructor(name, args, pattern.span, t, known, match)
        case _:
            assert_never(pattern)


def take_apart(pattern: syntax.Pattern, t: Type, known: Globals) -> tuple[Pattern, Mapping[str, Term]]:
    """The algebra's pattern for the values of a type, and the terms of the names in it. A missing value has missing
    parts.

    Raises: UserError where a value may not match.
    """
    match = Match()
    algebraic = match_pattern(pattern, t, known, match)
    missing = left_out([pattern], t, known)
    if missing is not None:
        hint = "`case e { p: … | _: … }` says what is where a pattern does not fit"
        raise UserError(f"this pattern has to fit every value, and leaves out {missing}", pattern.span, hint)
    return algebraic, match.bindings


def match_name(match: Match, name: str, variable: PVar, known: Globals, span: Span) -> None:
    match.name(name, Var(variable.name, variable.type, span=span), known, span)


def _constant(value: syntax.Literal, t: Type, known: Globals, match: Match) -> Pattern:
    if isinstance(value, syntax.NullLit):
        hint = "ask `is_null(e)` first, as in `if is_null(e) then … else case e { … }`; `_` fits a missing value, too"
        raise UserError("no value fits the pattern `null`, not even `null`", value.span, hint)
    constant = beside(literal(value), t)
    if ty.join_types(constant.type, t) is None:
        raise UserError(f"the pattern is a {constant.type}, but the value is of type {t}", value.span)
    variable = PVar(known.names.fresh("c"), t)
    match.conditions.append(Prim(EQ, (Var(variable.name, t), constant), span=value.span))
    return variable


def _record(pattern: syntax.RecordPattern, t: Type, known: Globals, match: Match) -> Pattern:
    if not isinstance(t, ty.RecordType):
        raise UserError(f"this pattern takes a record apart, but the value is of type {t}", pattern.span)
    whole = PVar(known.names.fresh("r"), t)
    for name, inner in pattern.fields:
        found = t.field(name)
        if found is None:
            missing = UserError(f"there is no field `{name}` in {t}", pattern.span, did_you_mean(name, t.names))
            raise foreign_field(name, t, pattern.span) or missing
        _project(inner, Get(Var(whole.name, t), name), known, match)
    return whole


def _list(items: tuple[syntax.Pattern, ...], span: Span, t: Type, known: Globals, match: Match) -> Pattern:
    """`[p, …]`: a condition on the number of elements, and the patterns against each of them."""
    if not isinstance(t, ty.ListType):
        hint = "a bag has no order: `order by` makes a list of it" if isinstance(t, ty.BagType) else None
        raise UserError(f"this pattern takes a list apart, but the value is of type {t}", span, hint)
    whole = PVar(known.names.fresh("l"), t)
    value = Var(whole.name, t)
    match.conditions.append(Prim(EQ, (Prim(SIZE, (value,)), Lit(len(items), ty.LONG)), span=span))
    for i, item in enumerate(items):
        _project(item, Prim(AT, (value, Lit(i, ty.LONG)), span=span), known, match)
    return whole


def _constructor(
    name: str, args: tuple[syntax.Pattern, ...], span: Span, t: Type, known: Globals, match: Match
) -> Pattern:
    """`C(p, …)`: a condition on the field that names the constructor, and the patterns against its arguments."""
    found = known.constructors.get(name)
    if found is None:
        raise Scope(known).unknown("constructor", name, known.constructors, span)
    if found.type != t:
        raise UserError(f"`{name}` makes no values of type {t}", span)
    if len(args) != len(found.args):
        takes = f"{len(found.args)} argument{'' if len(found.args) == 1 else 's'}"
        raise UserError(f"the constructor `{name}` takes {takes}, not {len(args)}", span)
    whole = PVar(known.names.fresh("u"), t)
    value = record_of(Var(whole.name, t), found)
    match.conditions.append(Prim(EQ, (Get(value, TAG), Lit(name, ty.STRING)), span=span))
    for i, arg in enumerate(args):
        payload = Get(value, name)
        _project(arg, payload if len(args) == 1 else Nth(payload, i), known, match)
    return whole


def _project(pattern: syntax.Pattern, value: Term, known: Globals, match: Match) -> None:
    """Matches a pattern against a term instead of an argument: its names stand for projections."""
    inner = Match()
    algebraic = match_pattern(pattern, value.type, known, inner)
    parts = parts_of(algebraic, value)
    for name, bound in inner.bindings.items():
        match.name(name, substitute(bound, parts), known, pattern.span)
    match.conditions += [substitute(condition, parts) for condition in inner.conditions]
