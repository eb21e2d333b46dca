"""Loops over the values of one row as Catalyst expressions: `aggregate` over the numbers of the steps.

Without a condition and with a limit the steps are all taken: one that changes nothing is followed by others that change
nothing. Otherwise what is carried stands beside whether to go on, and the steps after the last one pass it on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import endless
from mrql.algebra.terms import Repeat
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import let
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.layout import Atom, bind, labels, quote, record_sql, sql_type, to_sql
from mrql.runtime.spark.expressions.literals import place

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Environment, Expressions


def repeat_sql(expressions: Expressions, term: Repeat, env: Environment) -> str:
    """The value of a loop in SQL."""
    first = _carried(expressions, f"CAST({expressions.sql(term.source, env)} AS {sql_type(term.type)})", term.type)
    if term.limit is None:
        return _until_done(expressions, term, first, env)
    n = f"CAST({expressions.sql(term.limit, env)} AS INT)"
    steps = f"if(coalesce({n}, 0) > 0, sequence(1, {n}), CAST(array() AS ARRAY<INT>))"
    if term.condition is not None:
        return f"{_while(expressions, term, first, steps, env)}.v"
    acc, step = expressions.fresh("a"), expressions.fresh()
    return f"aggregate({steps}, {first}, ({acc}, {step}) -> {_step(expressions, term, acc, env)})"


def _until_done(expressions: Expressions, term: Repeat, first: str, env: Environment) -> str:
    """A loop without a limit; one that has not ended is an error."""
    end = _while(expressions, term, first, f"sequence(1, {term.most})", env)
    last = expressions.fresh()
    error = f"CAST(raise_error('{place(term.span)}{endless(term).message}') AS {sql_type(term.type)})"
    return f"transform(array({end}), {last} -> if({last}.more, {error}, {last}.v))[0]"


def _while(expressions: Expressions, term: Repeat, first: str, steps: str, env: Environment) -> str:
    """What is carried after the last step, `v`, and whether there would be `more` of them."""
    acc, new = expressions.fresh("a"), expressions.fresh()
    value = f"{acc}.v"
    after = Atom(new, term.type)
    if term.condition is None:
        sides = [to_sql(canonical(expressions, side)) for side in (after, Atom(value, term.type))]
        goes_on = f"NOT ({sides[0]} <=> {sides[1]})"
    else:
        inner = {**env, **bind(term.function.param, after)}
        goes_on = f"coalesce({expressions.condition(term.condition, inner)}, false)"
    state = f"named_struct('v', {new}, 'more', {goes_on})"
    step = f"transform(array({_step(expressions, term, value, env)}), {new} -> {state})[0]"
    start = f"named_struct('v', {first}, 'more', true)"
    return f"aggregate({steps}, {start}, ({acc}, {expressions.fresh()}) -> if({acc}.more, {step}, {acc}))"


def _step(expressions: Expressions, term: Repeat, value: str, env: Environment) -> str:
    inner = {**env, **bind(term.function.param, Atom(value, term.type))}
    after = f"CAST({expressions.sql(term.function.body, inner)} AS {sql_type(term.type)})"
    return _carried(expressions, after, term.type)


def _carried(expressions: Expressions, value: str, t: Type) -> str:
    """What a loop carries: the collections in a tuple part by part, none of them missing."""
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
