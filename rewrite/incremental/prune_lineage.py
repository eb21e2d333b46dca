"""Lineage that the answer would only drop, and merge over, is dropped before the state is stored.

*Equation*: T removes the lineage below the outermost key ([MRQL] Def. 4), and the answer merges the values whose keys
are then equal:

    reduce(⇑⊗, T(h)) = h',    h' = h with every key (k, θ) replaced by k

which holds since h merges with `⇑⊗`: grouping by (k, θ) and merging by k is grouping by k. For a total aggregation
`reduce(⊕, π2(h))` is h without its keys, and for a bag `π2(h)`.

*Requires*: h is an annotated homomorphism, so that its values merge with `⊗` ([MRQL] Theorem 1).

*Source*: ours; design decision: the state is no larger than the answer needs.
"""

from __future__ import annotations

from mrql.algebra.analysis.variables import Names, all_names
from mrql.algebra.monoids import Keyed
from mrql.algebra.terms import CMap, GroupBy, Lambda, Nth, PTuple, PVar, Reduce, Single, Term, Tup, Var, pair_type
from mrql.rewrite.normalize.prune_columns import prune_columns


def prune_lineage(annotated: Term) -> Term:
    """`h` without the lineage below its outermost key, over the columns that are still used.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.rewrite.incremental.lineage import lineage
    >>> S = {"S": "{(long, long)}"}
    >>> print(show(prune_lineage(lineage(parse("cMap(λ(a, b). {(a, b)}, S)", S)))))
    cMap(λ(a, b). {(a, b)}, S)
    """
    return prune_columns(_without_lineage(annotated))


def _without_lineage(term: Term) -> Term:
    match term:
        case Reduce(Keyed(monoid), source):
            return Reduce(monoid, _second(source, all_names(term)))
        case CMap(Lambda(PTuple((PTuple((key, _)), group)), Single(Tup((Tup((k, _)), value)))), GroupBy(source)):
            lineage_type, element_type = pair_type(source)
            names = Names(set(all_names(term)))
            pair, x = PVar(names.fresh("p"), lineage_type), PVar(names.fresh("x"), element_type)
            first = Nth(Var(pair.name, pair.type), 0)
            regrouped = CMap(Lambda(PTuple((pair, x)), Single(Tup((first, Var(x.name, x.type))))), source)
            return CMap(Lambda(PTuple((key, group)), Single(Tup((k, value)))), GroupBy(regrouped))
        case CMap(Lambda(PTuple((PTuple((key, theta)), group)), Single(Tup((Tup((k, _)), value)))), source):
            return CMap(Lambda(PTuple((PTuple((key, theta)), group)), Single(Tup((k, value)))), source)
        case _:
            return _second(term, all_names(term))


def _second(pairs: Term, taken: frozenset[str]) -> Term:
    """`π2(X)`."""
    names = Names(set(taken))
    key_type, value_type = pair_type(pairs)
    theta, v = PVar(names.fresh("θ"), key_type), PVar(names.fresh("v"), value_type)
    return CMap(Lambda(PTuple((theta, v)), Single(Var(v.name, v.type))), pairs)
