"""An aggregation of all rows of a source fails only where the query evaluates it.

`if n < 3 then sum(select x.a * x.b from x in S) else 0` has the sum under a condition, and `select (y, sum(select …))`
for each y, of which there may be none. It is computed once, whether the query evaluates it or not.

*Equation*: that of `guarded_aggregates.py`, for the total and the number of missing elements.

*Requires*: the aggregation has no free variable, and is over one source: a join is not computed a second time to count
the elements that leave their range.

*Source*: ours.
"""

from __future__ import annotations

from mrql.algebra.analysis.traversal import children, subterms, with_children
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.evaluation.may_fail import guards
from mrql.algebra.terms import CMap, Reduce, Stream, Term
from mrql.rewrite.analysis.guarded_aggregates import attempted, computes_out_of_range
from mrql.rewrite.analysis.join_predicates import reads_sources


def attempt_totals(term: Term) -> Term:
    """The term with such aggregations as an error only where they are evaluated.

    >>> from mrql.algebra import types as ty
    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> q = "if x > 2L then reduce(+, cMap(λa. {a + 1L}, S)) else 0L"
    >>> print(show(attempt_totals(parse(q, {"S": "{long}"}, {"x": ty.LONG})).then.args[0]))
    reduce(+, cMap(λa. {try_add(a, 1L)}, S))
    """
    return _visit(term, False)


def _visit(term: Term, is_guarded: bool) -> Term:
    """Rewrites a term; a guarded one is evaluated only under a condition, or for the elements of a bag that may be
    empty."""
    if not reads_sources(term):
        return term
    if is_guarded and isinstance(term, Reduce) and _is_total(term) and computes_out_of_range(term):
        attempt = attempted(term)
        if attempt is not None:
            return attempt.where_asked(attempt.total, attempt.missing)
    inside = term.function.body if isinstance(term, CMap) else None
    places = zip(children(term), guards(term), strict=True)
    return with_children(
        term, tuple(_visit(child, is_guarded or bool(under) or child is inside) for child, under in places)
    )


def _is_total(term: Reduce) -> bool:
    return not free_vars(term) and sum(isinstance(part, Stream) for part in subterms(term)) == 1
