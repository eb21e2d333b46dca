"""`case`: the first branch whose pattern matches a value.

    case e { p: a | q: b }  =  let v = e in if v fits p then (let p = v in a) else (let q = v in b)

Each value that is not missing matches one of the branches; a missing value may match none, and gives null.
"""

from __future__ import annotations

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.functions import AND
from mrql.algebra.terms import If, Let, Lit, Pattern, Prim, PVar, Term, Var
from mrql.algebra.types import Type
from mrql.translate.coercion import common
from mrql.translate.exhaustiveness import left_out
from mrql.translate.lifted import branch_hint, lifted_hint
from mrql.translate.patterns import Match, match_pattern
from mrql.translate.scope import Globals, Scope

CASE_MAX_BRANCHES = 250
"""The largest number of branches of a `case`: each is nested in the one before it, so that many make a deep term."""


def case(expr: syntax.CaseExpr, scope: Scope) -> Term:
    """`case e { p: a | q: b }`: the first branch whose pattern matches, or null for a missing value that matches none.

    Raises: UserError where no pattern matches some value that is not missing, or there are too many branches.
    """
    if len(expr.branches) > CASE_MAX_BRANCHES:
        hint = "many values belong in a table, which is joined, or in a bag of pairs: `select y from (x, y) in {…}`"
        raise UserError(f"a `case` of more than {CASE_MAX_BRANCHES} branches", expr.span, hint)
    names = scope.globals.names
    value = scope.translate(expr.subject)
    v = PVar(names.fresh("v"), value.type)
    subject = Var(v.name, v.type)
    matched, bodies = [], []
    for pattern, body in expr.branches:
        match = Match()
        matched.append((_matched(pattern, expr, value, scope, match), match))
        bodies.append(scope.bind(match.bindings).translate(body))
    _check_complete(expr, v.type, scope.globals)
    written = [body for _, body in expr.branches]
    lifted = branch_hint(written, bodies, scope)
    t, results = common(bodies, [body.span for body in written], "the branches of a `case`", lifted)
    term: Term = Lit(None, t)
    for (algebraic, match), result in zip(reversed(matched), reversed(results), strict=True):
        tested = result
        if match.conditions:
            condition = match.conditions[0]
            for further in match.conditions[1:]:
                condition = Prim(AND, (condition, further), span=further.span)
            tested = If(condition, result, term, span=expr.span)
        term = Let(algebraic, subject, tested)
    return Let(v, value, term, span=expr.span)


def _matched(pattern: syntax.Pattern, expr: syntax.CaseExpr, value: Term, scope: Scope, match: Match) -> Pattern:
    """Raises: UserError where values of the type cannot have the pattern's form."""
    try:
        return match_pattern(pattern, value.type, scope.globals, match)
    except UserError as error:
        hint = lifted_hint(expr, [value], scope)
        if hint is None:
            raise
        raise UserError(error.message, error.span, hint) from None


def _check_complete(expr: syntax.CaseExpr, t: Type, known: Globals) -> None:
    missing = left_out([pattern for pattern, _ in expr.branches], t, known)
    if missing is not None:
        hint = "a last branch `_: …` takes what is left"
        raise UserError(f"this `case` has no branch for {missing}", expr.span, hint)
