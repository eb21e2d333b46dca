"""The `λ` that a Python function stands for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, free_vars, substitute
from mrql.algebra.build.expression import Expr, Operand, expr
from mrql.algebra.errors import UserError
from mrql.algebra.terms import Lambda, PAny, Pattern, PTuple, PVar, Var
from mrql.algebra.types import Type

Body: TypeAlias = Callable[..., Operand]

# The number of functions that are being called at the moment, which makes the stand-ins of their variables distinct.
_depth: ContextVar[int] = ContextVar("_depth", default=0)


def lambda_of(f: Body, argument: Type) -> Lambda:
    """The `λ` that a Python function stands for.

    It is called with stand-ins of unique names. These are then renamed to its parameters, or to fresh names where those
    are free in the body; `substitute` ensures that no inner binder captures them.
    """
    names = tuple(inspect.signature(f).parameters)
    depth = _depth.get()
    stand_ins = [Var(f"λ{depth}.{i}", t) for i, t in enumerate(_argument_types(names, argument))]
    token = _depth.set(depth + 1)
    try:
        body = expr(f(*map(Expr, stand_ins))).term
    finally:
        _depth.reset(token)
    used = free_vars(body)
    supply = Names(set(used))
    parts: list[Pattern] = []
    for name, stand_in in zip(names, stand_ins, strict=True):
        dropped = name.startswith("_") and stand_in.name not in used
        parts.append(PAny(stand_in.type) if dropped else PVar(supply.fresh(name.lstrip("_") or "x"), stand_in.type))
    renaming = {v.name: Var(p.name, p.type) for v, p in zip(stand_ins, parts, strict=True) if isinstance(p, PVar)}
    return Lambda(parts[0] if len(parts) == 1 else PTuple(tuple(parts)), substitute(body, renaming))


def _argument_types(names: tuple[str, ...], argument: Type) -> tuple[Type, ...]:
    """The types of a function's parameters: one takes the whole argument, several take it apart."""
    if len(names) == 1:
        return (argument,)
    match argument:
        case ty.TupleType(items) if len(items) == len(names):
            return items
        case ty.Nothing():
            return (argument,) * len(names)
        case _:
            raise UserError(f"a function of {len(names)} parameters is applied to a value of type {argument}")
