"""Keeps expressions that may fail where the query evaluates them.

Spark's optimizer pushes a join condition down to the one side that it reads, and filters the keys of a join for not
being null before the join: both are then evaluated for rows that an earlier condition, or the join itself, excludes. It
moves nothing that is nondeterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.evaluation.may_fail import Guard, guarded, guards, may_fail
from mrql.algebra.terms import CMap, Empty, Lambda, Term


def placed(sql: str) -> str:
    """The expression made nondeterministic, so that Spark computes it where it stands."""
    return f"if(spark_partition_id() < 0, NULL, {sql})"


def with_guards_inside(term: Term, reads: Callable[[Term], bool], sources: Collection[str]) -> Term:
    """The term in which each function over the rows of a source that may fail contains the conditions under which it is
    evaluated, as far as these are the same for all rows.

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
