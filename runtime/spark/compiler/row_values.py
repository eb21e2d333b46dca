"""Attaches to each row the values that a function over rows reads from sources."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import children, map_children, with_children
from mrql.algebra.analysis.variables import bound_names, free_vars, scopes
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.terms import Cast, CMap, If, Lambda, Let, Prim, Repeat, Term, Var
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.expressions.expressions import Environment
from mrql.runtime.spark.relation.frame import Frame, flat


def attached(compiler: TermCompiler, frame: Frame, env: Environment, term: Term) -> tuple[Frame, Environment, Term]:
    """Attaches what a scalar term reads from sources to each row: a total as its value, a bag as an array."""
    if not compiler.reads(term):
        return frame, env, term
    found: dict[str, Term] = {}
    term = _extracted(compiler, term, frozenset(env), frozenset(), found)
    scope = dict(env)
    for name, value in found.items():
        single = flat(compiler.one(value), compiler.columns)
        frame = attrs.evolve(frame, df=frame.df.cross(single.df.broadcast()))
        scope[name] = single.value
    return frame, scope, term


def _extracted(
    compiler: TermCompiler, term: Term, scope: frozenset[str], local: frozenset[str], found: dict[str, Term]
) -> Term:
    """The term with its largest parts that read sources, and nothing of the row, replaced by variables."""
    if not compiler.reads(term):
        return term
    if not free_vars(term) & (scope | local) and not _is_guarded_alone(term):
        name = next((n for n, known in found.items() if known == term), None) or compiler.names.fresh("t")
        found[name] = term
        return Var(name, term.type)
    match term:
        case CMap(Lambda(param, body), source):
            new_source = _extracted(compiler, source, scope, local, found)
            return CMap(Lambda(param, _extracted(compiler, body, scope, local | bound_names(param), found)), new_source)
        case Let(pattern, value, body):
            new_value = _extracted(compiler, value, scope, local, found)
            return Let(pattern, new_value, _extracted(compiler, body, scope, local | bound_names(pattern), found))
        case Repeat():
            parts = zip(children(term), scopes(term), strict=True)
            new = tuple(_extracted(compiler, child, scope, local | bound, found) for child, bound in parts)
            return with_children(term, new)
        case _:
            return map_children(term, lambda child: _extracted(compiler, child, scope, local, found))


def _is_guarded_alone(term: Term) -> bool:
    """Whether a value may fail, and so stays under the conditions on its row; its parts need not."""
    return isinstance(term, Prim | Cast | If | Let) and not ty.is_collection(term.type) and may_fail(term)
