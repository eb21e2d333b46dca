"""The change of a function's result for each row: its present element inserted, its earlier one deleted."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import If, Lambda, Single, Term, element_type
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.compiler.row_values import attached
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Environment
from mrql.runtime.spark.expressions.layout import Atom, bind, quote, to_sql
from mrql.runtime.spark.relation.frame import Frame, common_shape, fit


def compared(compiler: TermCompiler, function: Lambda, earlier: Term, frame: Frame) -> Frame:
    """The elements of a function for those rows of a frame for which `earlier` has another result, and the elements of
    `earlier` for them, with negated weights. Each result has at most one element (`row_by_row`)."""
    compiler.meet(earlier)
    item = element_type(function.body)
    env: Environment = bind(function.param, frame.value)
    arrays, shapes = [], []
    for body in (function.body, earlier):
        frame, env, body, element = attached_one(compiler, frame, env, body)
        # As a list: an array of one element at most need not be sorted.
        array = Atom(compiler.expressions.array(body, env), ty.ListType(item), False)
        frame, kept = compiler.with_column(frame, canonical(compiler.expressions, array))
        arrays.append(to_sql(kept))
        shapes.append(compiler.expressions.value(element, env))
    now, before = arrays
    weight = frame.weight or "1L"
    came = f"if(size({now}) = 0, array(), array(struct(get({now}, 0) AS e, {weight} AS w)))"
    went = f"if(size({before}) = 0, array(), array(struct(get({before}, 0) AS e, -{weight} AS w)))"
    name, times = compiler.fresh(), compiler.fresh()
    differs = f"inline(if({now} <=> {before}, NULL, concat({came}, {went}))) AS ({name}, {times})"
    value = fit(Atom(quote(name), item), common_shape(shapes))
    return Frame(frame.df.select("*", differs), value, quote(times))


def attached_one(
    compiler: TermCompiler, frame: Frame, env: Environment, body: Term
) -> tuple[Frame, Environment, Term, Term]:
    """Attaches what the element of a body and its conditions read from sources to each row; returns the element too."""
    match body:
        case If(condition, then, _):
            frame, env, condition = attached(compiler, frame, env, condition)
            frame, env, then, element = attached_one(compiler, frame, env, then)
            return frame, env, attrs.evolve(body, condition=condition, then=then), element
        case Single(item):
            frame, env, item = attached(compiler, frame, env, item)
            return frame, env, Single(item), item
        case _:
            raise InternalError("bulk", f"one element that is given by {type(body).__name__}")
