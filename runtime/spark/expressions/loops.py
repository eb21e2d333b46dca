"""Loops over the values of one row as Catalyst expressions: `aggregate` over the numbers of the steps.

Without a condition and with a small constant limit, all steps are taken: those after one that changes nothing change
nothing either. Otherwise the value is carried together with whether to go on, and steps after the last one pass it on.

An array of as many numbers as the limit may be too large. So an array has `ROUND_MAX_STEPS` numbers at most: a loop of
more steps consists of rounds of so many, or of rounds of rounds, and no round is begun once the loop has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.evaluation.errors import endless
from mrql.algebra.functions import INT_RANGES
from mrql.algebra.terms import Lit, Repeat, Term
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.conditions import condition_sql
from mrql.runtime.spark.expressions.layout import Atom, bind, labels, quote, record_sql, sql_type, to_sql
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions

ROUND_MAX_STEPS = 8192
"""The most steps, or rounds, in one round."""


def repeat_sql(expressions: Expressions, term: Repeat, env: Environment) -> str:
    """The value of a loop in SQL."""
    first = _carried(expressions, f"CAST({expressions.sql(term.source, env)} AS {sql_type(term.type)})", term.type)
    if term.limit is None:
        return _until_done(expressions, term, first, env)
    most = _most(term.limit)
    if term.condition is None and isinstance(term.limit, Lit) and most <= ROUND_MAX_STEPS:
        acc, step = expressions.fresh("a"), expressions.fresh()
        return f"aggregate({_numbers(f'{most}L', 1)}, {first}, ({acc}, {step}) -> {_step(expressions, term, acc, env)})"
    limit = f"coalesce(CAST({expressions.sql(term.limit, env)} AS BIGINT), 0L)"
    return let(expressions.fresh, limit, lambda n: f"{_while(expressions, term, first, n, most, env)}.v")


def _most(limit: Term) -> int:
    """The most steps that a limit allows."""
    if not isinstance(limit, Lit):
        return INT_RANGES[limit.type][1] if limit.type in INT_RANGES else 0
    assert limit.value is None or isinstance(limit.value, int)
    return max(limit.value or 0, 0)


def _until_done(expressions: Expressions, term: Repeat, first: str, env: Environment) -> str:
    """A loop without a limit; an error where it has not ended after `term.most` steps."""
    end = _while(expressions, term, first, f"{term.most}L", term.most, env)
    last = expressions.fresh()
    error = f"CAST(raise_error('{place(term.span)}{endless(term).message}') AS {sql_type(term.type)})"
    return f"transform(array({end}), {last} -> if({last}.more, {error}, {last}.v))[0]"


def _while(expressions: Expressions, term: Repeat, first: str, limit: str, most: int, env: Environment) -> str:
    """The value `v` after the last step, and whether there would be `more` steps; the limit is `most` or less."""
    new = expressions.fresh()
    after = Atom(new, term.type)

    def step(acc: str) -> str:
        value = f"{acc}.v"
        if term.condition is None:
            sides = [to_sql(canonical(expressions, side)) for side in (after, Atom(value, term.type))]
            goes_on = f"NOT ({sides[0]} <=> {sides[1]})"
        else:
            inner = {**env, **bind(term.function.param, after)}
            goes_on = f"coalesce({condition_sql(expressions, term.condition, inner)}, false)"
        state = f"named_struct('v', {new}, 'more', {goes_on})"
        return f"transform(array({_step(expressions, term, value, env)}), {new} -> {state})[0]"

    level = next(level for level in count() if ROUND_MAX_STEPS ** (level + 1) >= most)
    return _in_rounds(expressions.fresh, f"named_struct('v', {first}, 'more', true)", limit, level, step)


def _in_rounds(fresh: Fresh, start: str, limit: str, level: int, step: Callable[[str], str]) -> str:
    """The state after `limit` steps, or fewer if the loop ends before; at level 0 they are taken one by one, above it
    in rounds of the level below."""
    acc, number, size = fresh("a"), fresh(), ROUND_MAX_STEPS**level
    left = f"({limit} - {number} * {size}L)"
    inner = step(acc) if level == 0 else _in_rounds(fresh, acc, left, level - 1, step)
    return f"aggregate({_numbers(limit, size)}, {start}, ({acc}, {number}) -> if({acc}.more, {inner}, {acc}))"


def _numbers(limit: str, size: int) -> str:
    """The numbers, from 0 on, of the rounds of a size that so many steps take."""
    last = f"CAST(least(({limit} - 1L) div {size}L, {ROUND_MAX_STEPS - 1}L) AS INT)"
    return f"if({limit} > 0L, sequence(0, {last}), CAST(array() AS ARRAY<INT>))"


def _step(expressions: Expressions, term: Repeat, value: str, env: Environment) -> str:
    inner = {**env, **bind(term.function.param, Atom(value, term.type))}
    after = f"CAST({expressions.sql(term.function.body, inner)} AS {sql_type(term.type)})"
    return _carried(expressions, after, term.type)


def _carried(expressions: Expressions, value: str, t: Type) -> str:
    """The value that a loop carries: missing collections, also as parts of a tuple, become empty ones."""
    match t:
        case ty.BagType() | ty.ListType():
            return f"coalesce({value}, CAST(array() AS {sql_type(t)}))"
        case ty.TupleType(items) if any(map(ty.has_collection, items)):

            def parts(whole: str) -> str:
                named = ((name, _carried(expressions, f"{whole}.{quote(name)}", item)) for name, item in labels(t))
                return record_sql(named)

            return let(expressions.fresh, value, parts)
        case _:
            return value
