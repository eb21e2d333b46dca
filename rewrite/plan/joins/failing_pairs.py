"""Which joins compute something from joined rows that may end in an error.

The delta rule may join rows that never exist at the same time, one that a batch inserts and one that it deletes, and
cancels the result in another summand. An error is not cancelled. So where one of its inputs may have deletions, such a
join reads the versions of `choices_that_are_there`, and only the existing rows of each; the circuit says which joins do
(`circuit.py`).

Overflows count only where they are computed from several inputs: for a single row they are very rare
(`algebra/evaluation/may_fail.py`), and to read the existing rows of a large state is to read all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from mrql.algebra import functions as fn
from mrql.algebra.analysis.integer_ranges import leaves_its_range
from mrql.algebra.analysis.traversal import children, subterms
from mrql.algebra.analysis.variables import bound_names, free_vars, match_pattern
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.terms import CMap, CoGroup, If, Lambda, Prim, PTuple, Single, Term, Union
from mrql.rewrite.analysis.multilinear import occurrences
from mrql.rewrite.plan.plan import Feed

Origins: TypeAlias = Mapping[str, frozenset[str]]
"""For each variable, the labels of the inputs that its value comes from."""


def may_fail_for_pairs(feed: Feed, *, overflows: bool = True) -> bool:
    """Whether a feed of several inputs may fail for joined rows; with `overflows`, also by leaving a range.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.rewrite.pipeline import plan_query
    >>> types = {"S": "{(long, long)}", "T": "{(long, long)}"}
    >>> q = "reduce(+, cMap(λ(a, b). cMap(λ(c, d). if a = c then {%s} else {}:{long}, T), S))"
    >>> terms = [parse(q % number, types) for number in ("b * d", "b + 1L", "b - d", "6L / d")]
    >>> [may_fail_for_pairs(plan_query(term).plan.stages[0].feeds[0]) for term in terms]
    [False, False, True, True]
    >>> types = {name: "{(long, decimal(15, 2))}" for name in "ST"}
    >>> terms = [parse(q.replace("{}:{long}", "{}:{%s}") % pair, types) for pair in (
    ...     ("b - d", "decimal(16, 2)"), ("b * b * d", "decimal(38, 6)"))]
    >>> [may_fail_for_pairs(plan_query(term).plan.stages[0].feeds[0]) for term in terms]
    [False, True]
    """
    if len(feed.rows.inputs) < 2:
        return False
    # Sums of the sides have room for their range, except products of three factors.
    own = [unit for index, unit in feed.units if index not in feed.totals]
    totals = [unit for index, unit in feed.units if index in feed.totals]
    computed = [feed.rows.body, *own, *_conditions(totals)]
    if any(map(may_fail, computed)):
        return True
    return overflows and (any(map(_has_three_factors, totals)) or _overflows_for_pairs(feed, computed[1:]))


def _conditions(terms: list[Term]) -> Iterator[Term]:
    return (part.condition for term in terms for part in subterms(term) if isinstance(part, If))


def _has_three_factors(total: Term) -> bool:
    """Whether a total multiplies the halves of sums twice: there is room for a product of two, but maybe not of
    three."""
    products = (part for part in subterms(total) if _is_product(part))
    return any(_is_product(inner) for part in products for arg in children(part) for inner in subterms(arg))


def _is_product(term: Term) -> bool:
    return isinstance(term, Prim) and term.function in (fn.TIMES_HIGH, fn.TIMES_LOW)


# --- what is computed from several inputs ---------------------------------------------------------------------------


def _overflows_for_pairs(feed: Feed, units: list[Term]) -> bool:
    row = PTuple((feed.key, feed.element))
    for term, origins, is_result in _innermost(feed.rows.body, {}, is_result=True):
        if _combines(term, origins):
            return True
        if is_result and isinstance(term, Single):
            bound = match_pattern(row, term.item)
            inside = {name: _inputs(value, origins) for name, value in bound.items()}
            if any(_combines(unit, inside) for unit in units):
                return True
    return False


def _combines(term: Term, origins: Origins) -> bool:
    """Whether an operation in a term that may leave its range is over several inputs."""
    return any(leaves_its_range(part) and len(_inputs(part, origins)) > 1 for part in subterms(term))


def _innermost(term: Term, origins: Origins, *, is_result: bool) -> Iterator[tuple[Term, Origins, bool]]:
    """The terms computed from rows, inside all cMaps, with the origins of their variables; and whether each makes rows
    of the result, and not of a bag that is iterated over."""
    match term:
        case CMap(Lambda(param, body), source):
            yield from _innermost(source, origins, is_result=False)
            found = {name: _inputs(source, origins) for name in bound_names(param)}
            match param, source:
                case PTuple((key, PTuple((xs, ys)))), CoGroup(left, right):
                    sides = {key: left, xs: left, ys: right}
                    found = {name: _inputs(side, origins) for p, side in sides.items() for name in bound_names(p)}
                case _:
                    pass
            yield from _innermost(body, {**origins, **found}, is_result=is_result)
        case CoGroup(left, right):
            yield from _innermost(left, origins, is_result=False)
            yield from _innermost(right, origins, is_result=False)
        case Union(left, right):
            yield from _innermost(left, origins, is_result=is_result)
            yield from _innermost(right, origins, is_result=is_result)
        case If(condition, then, otherwise):
            yield condition, origins, False
            yield from _innermost(then, origins, is_result=is_result)
            yield from _innermost(otherwise, origins, is_result=is_result)
        case _:
            yield term, origins, is_result


def _inputs(term: Term, origins: Origins) -> frozenset[str]:
    return frozenset(occurrences(term)).union(*(origins.get(name, frozenset()) for name in free_vars(term)))
