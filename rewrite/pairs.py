"""Which joins compute something of the rows that they put together that may end in an error.

The delta rule may put rows together that were never there at the same time, one that a batch brings and one that it
takes away, and takes that back in another summand. An error is not taken back. Such a join reads its inputs as
`choices_that_are_there` says, and of each the rows that are there.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrql.algebra import functions as fn
from mrql.algebra.failing import may_fail
from mrql.algebra.ranges import may_overflow
from mrql.algebra.terms import If, Prim, Term
from mrql.algebra.traversal import children, subterms
from mrql.rewrite.stages import Feed


def may_fail_for_pairs(feed: Feed) -> bool:
    """Whether a feed of several inputs may fail for rows that it puts together.

    >>> from mrql.algebra.reader import parse
    >>> from mrql.rewrite.passes import rewrite
    >>> types = {"S": "{(long, long)}", "T": "{(long, long)}"}
    >>> q = "reduce(+, cMap(λ(a, b). cMap(λ(c, d). if a = c then {%s} else {}:{long}, T), S))"
    >>> terms = [parse(q % number, types) for number in ("b * d", "b - d", "6L / d")]
    >>> [may_fail_for_pairs(rewrite(term).plan.stages[0].feeds[0]) for term in terms]
    [False, True, True]
    """
    if len(feed.rows.inputs) < 2:
        return False
    computed = [feed.rows.body, *(unit for index, unit in feed.units if index not in feed.totals)]
    of_sums = [unit for index, unit in feed.units if index in feed.totals]
    return any(may_fail(term) or may_overflow(term) for term in (*computed, *_conditions(of_sums))) or any(
        map(_has_three_factors, of_sums)
    )


def _conditions(terms: list[Term]) -> Iterator[Term]:
    return (part.condition for term in terms for part in subterms(term) if isinstance(part, If))


def _has_three_factors(total: Term) -> bool:
    """Whether it multiplies the halves of sums twice: the product of two has its place, that of three may have none."""
    products = (part for part in subterms(total) if _is_product(part))
    return any(_is_product(inner) for part in products for arg in children(part) for inner in subterms(arg))


def _is_product(term: Term) -> bool:
    return isinstance(term, Prim) and term.function in (fn.TIMES_HIGH, fn.TIMES_LOW)
