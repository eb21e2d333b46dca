"""Runs passes in the steps of loops: a step is a query over what the loop carries.

*Equation*: with X a source in the place of each bag that a loop carries, and e → e' the passes,

    repeat(λx. e, n, a)   →   repeat(λx. e'[x/X], n, a),     where e[X/x] → e'

and likewise for the body of a `let` whose value has a loop in it, and is computed once. A tuple with bags in it is
carried part by part.

*Requires*: nothing; X is a name that no source and no variable has.

*Source*: [MRQL] §5 (repeat), §6.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import may_be_missing
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import (
    Names,
    pattern_vars,
    rename_pattern,
    step_of,
    substitute,
    substitute_streams,
    taken_names,
    with_step,
)
from mrql.algebra.terms import Let, Nth, PAny, Pattern, PTuple, PVar, Repeat, Stream, Term, Tup, Var

Rewrite = Callable[[Term], Term]


def rewrite_steps(term: Term, run: Rewrite) -> Term:
    """The term with `run` applied to the steps of its loops.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.rewrite.normalize.extract_joins import extract_joins
    >>> step = "cMap(λ(a, b). cMap(λ(c, d). if b = c then {(a, d)} else {}:{(long, long)}, E), x)"
    >>> loop = parse(f"repeat(λx. {step}, 3, E)", {"E": "{(long, long)}"})
    >>> "coGroup" in show(extract_joins(loop)), "coGroup" in show(rewrite_steps(loop, extract_joins))
    (False, True)
    """
    match term:
        case Repeat(function, source, limit):
            outside = attrs.evolve(
                term, source=rewrite_steps(source, run), limit=None if limit is None else rewrite_steps(limit, run)
            )
            return with_step(outside, *_rewritten(function.param, step_of(term), run))
        case Let(pattern, value, body) if has_loop(value) and _is_there(value):
            new_pattern, new_body = _rewritten(pattern, body, run)
            return attrs.evolve(term, pattern=new_pattern, value=rewrite_steps(value, run), body=new_body)
        case _:
            return map_children(term, lambda child: rewrite_steps(child, run))


def _is_there(value: Term) -> bool:
    """Whether no collection in a value is missing, nor a tuple that collections are in: a loop carries none that is."""
    match value:
        case Repeat():
            return True
        case Tup(items):
            return all(_is_there(item) for item in items if ty.has_collection(item.type))
        case Nth(inner, _) | Let(_, _, inner):
            return _is_there(inner)
        case _:
            return ty.is_collection(value.type) and not may_be_missing(value)


def has_loop(term: Term) -> bool:
    return any(isinstance(part, Repeat) for part in subterms(term))


def _rewritten(pattern: Pattern, body: Term, run: Rewrite) -> tuple[Pattern, Term]:
    """A pattern and a body over its variables, rewritten with sources in the place of its bags."""
    names = Names({*taken_names(body)})
    pattern, parts = _by_part(pattern, names)
    body = substitute(body, parts)
    sources = {v.name: Stream(names.fresh(v.name), v.type) for v in pattern_vars(pattern) if _is_bag(v.type)}
    rewritten = run(substitute(body, sources))
    # The passes may have bound variables with these names.
    taken = Names({*taken_names(rewritten), *(v.name for v in pattern_vars(pattern))})
    renaming = {name: taken.fresh(name) for name in sources}
    closed = substitute_streams(rewritten, {s.name: Var(renaming[name], s.type) for name, s in sources.items()})
    return rename_pattern(pattern, renaming), closed


def _by_part(pattern: Pattern, names: Names) -> tuple[Pattern, dict[str, Term]]:
    """The pattern with a variable for each part of a tuple with collections in it, and the terms for these tuples."""
    match pattern:
        case PVar(name, ty.TupleType(items) as t) if any(map(ty.has_collection, items)):
            inner, whole = _part_variables(name, t, names)
            return inner, {name: whole}
        case PTuple(items):
            found = [_by_part(item, names) for item in items]
            return PTuple(tuple(p for p, _ in found)), {k: v for _, parts in found for k, v in parts.items()}
        case _:
            return pattern, {}


def _part_variables(name: str, t: ty.Type, names: Names) -> tuple[Pattern, Term]:
    if isinstance(t, ty.TupleType) and any(map(ty.has_collection, t.items)):
        found = [_part_variables(name, item, names) for item in t.items]
        return PTuple(tuple(p for p, _ in found)), Tup(tuple(e for _, e in found))
    fresh = names.fresh(name)
    return PVar(fresh, t), Var(fresh, t)


def _is_bag(t: ty.Type) -> bool:
    return isinstance(t, ty.BagType)


def carried(param: Pattern, names: Names) -> tuple[tuple[PVar, ...], Pattern]:
    """The variables of a loop's pattern, with a fresh one for each `_`, and the pattern with these."""
    match param:
        case PVar():
            return (param,), param
        case PAny(t):
            variable = PVar(names.fresh("u"), t)
            return (variable,), variable
        case PTuple(items):
            found = [carried(item, names) for item in items]
            return tuple(v for variables, _ in found for v in variables), PTuple(tuple(p for _, p in found))
