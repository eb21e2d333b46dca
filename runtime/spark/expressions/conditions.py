"""Conditions as Catalyst expressions: comparisons, `and` and `or`, and terms whose missing value counts as false."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import argument_types
from mrql.algebra.terms import Prim, Term
from mrql.runtime.spark.expressions.canonical_order import let
from mrql.runtime.spark.expressions.casts import canonical, cast, has_null
from mrql.runtime.spark.expressions.decimal_parts import in_parts
from mrql.runtime.spark.expressions.layout import Atom, atoms, to_sql
from mrql.runtime.spark.expressions.literals import has_place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions

COMPARISONS = {f.name: f.name for f in (fn.EQ, fn.NE, fn.LT, fn.LE, fn.GT, fn.GE)}
"""The comparisons with their operators; they are compiled here, since they look into tuples and bags."""


def condition_sql(expressions: Expressions, term: Term, env: Environment) -> str:
    """A term as a condition, where missing counts as false, so that comparisons need no care for nulls."""
    if expressions.in_python(term):
        return expressions.sql(term, env)
    match term:
        case Prim(function, (a, b)) if function in (fn.AND, fn.OR):
            left, right = condition_sql(expressions, a, env), condition_sql(expressions, b, env)
            # A missing left side of AND does not keep Spark from evaluating the right one.
            return _connected(function, left, right, in_turn=_may_fail(b, right))
        case Prim(function, (a, b)) if function == fn.EQ:
            return compared_sql(expressions, term, env, exact=False)
        case _:
            return expressions.sql(term, env)


def connective(expressions: Expressions, term: Prim, env: Environment) -> Atom:
    """AND and OR as values; the right side is not evaluated where the left one decides.

    Spark evaluates common subexpressions of both sides beforehand, except those that occur only in a branch of an `if`.
    """
    sides = [expressions.value(side, env) for side in term.args]
    missing = any(atom.missing for side in sides for atom in atoms(side))
    left, right = map(to_sql, sides)
    in_turn = _may_fail(term.args[1], right)
    if not (in_turn and missing):
        made = _connected(term.function, left, right, in_turn=in_turn)
    elif term.function == fn.AND:
        made = let(expressions.fresh, left, lambda x: f"if(NOT {x}, false, {x} AND {right})")
    else:
        made = let(expressions.fresh, left, lambda x: f"if({x}, true, {x} OR {right})")
    return Atom(made, term.type, missing)


def compared_sql(expressions: Expressions, term: Prim, env: Environment, *, exact: bool) -> str:
    """A comparison. With `exact` it is false, and not missing, where a side is missing."""
    types = argument_types(term.function, [arg.type for arg in term.args])
    sides = [cast(expressions.value(a, env), a.type, t, "") for a, t in zip(term.args, types, strict=True)]
    operator = COMPARISONS[term.function.name]
    left, right = (to_sql(canonical(expressions, side)) for side in sides)
    if types[0] != types[1]:
        left, right = in_parts(left, right, types)
    elif isinstance(types[0], ty.Basic | ty.BagType | ty.ListType | ty.Nothing):
        compared = f"({left} {operator} {right})"
        needed = exact and any(atom.missing for side in sides for atom in atoms(side))
        return f"coalesce({compared}, false)" if needed else compared
    # In a comparison of structs, Spark takes missing parts for values; here such a comparison is false.
    present = " AND ".join(f"NOT {has_null(side)}" for side in sides)
    return f"({present} AND ({left} {operator} {right}))"


def _connected(function: fn.Function, left: str, right: str, *, in_turn: bool) -> str:
    """AND or OR of two conditions; `in_turn` the right one is evaluated only where the left one does not decide."""
    is_and = function == fn.AND
    if not in_turn:
        return f"({left} {'AND' if is_and else 'OR'} {right})"
    return f"if({left}, {right}, false)" if is_and else f"if({left}, true, {right})"


def _may_fail(term: Term, sql: str) -> bool:
    """Whether a term may fail, by itself or by the SQL of a variable in it, as for a sum that is read from columns."""
    return may_fail(term) or has_place(sql)
