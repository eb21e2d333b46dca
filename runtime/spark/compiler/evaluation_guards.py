"""Expressions that may fail stay where the query has them.

Spark's optimizer moves a condition of a join to the one side that it reads, and says of a join's key, before the join,
that it is not null: both are then evaluated for rows that an earlier condition, or the join itself, keeps out. It moves
nothing that is not deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.evaluation.may_fail import Guard, guarded, guards, may_fail
from mrql.algebra.terms import CMap, Empty, Lambda, Term


def placed(sql: str) -> str:
    """An expression that Spark computes where it stands."""
    return f"if(spark_partition_id() < 0, NULL, {sql})"


def with_guards_inside(term: Term, reads: Callable[[Term], bool], sources: Collection[str]) -> Term:
    """A term in which a function over the rows of a source, where it may fail, has in it the conditions under which it
    is evaluated, as far as they are the same for all rows.

    *Equation*: `if c then h(cMap(f, S)) else e  =  if c then h(cMap(λx. if c then f(x) else {}, S)) else e`
    """

    def visit(part: Term, under: tuple[Guard, ...]) -> Term:
        if not may_fail(part):
            return part
        if under and isinstance(part, CMap) and may_fail(part.function.body) and reads(part.source):
            body = part.function.body
            function = Lambda(part.function.param, guarded(body, under, Empty(body.type)))
            return CMap(function, visit(part.source, under), span=part.span)
        places = zip(children(part), guards(part), strict=True)
        return with_children(part, tuple(visit(child, (*under, *closed(own))) for child, own in places))

    def closed(own: tuple[Guard, ...]) -> tuple[Guard, ...]:
        return tuple(guard for guard in own if reads(guard.condition) and free_vars(guard.condition) <= set(sources))

    return visit(term, ())
