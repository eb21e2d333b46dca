"""Lineage tracking: every value is annotated with the group-by and join keys that led to it.

*Equations*: [MRQL] §8, Algorithm 1, (7a)–(7h) and (8a)–(8e). The lineage is a tree with the shape of the query:

    θ ::= (κ, θ)           a groupBy with key κ
        | (κ, (θ1, θ2))    a coGroup with key κ
        | ()               a stream

and a query with results v becomes one with results `(θ, v)`.

*Requires*: the normal form of [MRQL] Def. 2. A part that is not of that form (a union, a static table) has the lineage
`()`, like a stream.

*Deviation*: `mix` (8e) drops a join key that one side does not have, and combines each left lineage with each right
one. Both are correct only where the function above joins the sides element by element, and that join is stored. Where
it uses a side as a whole (an aggregate of the partners, an outer join), or reads another source, so that the sides are
stored and not the join, we keep the coGroup as it is, and its sides have the lineage `()`; otherwise an element without
a partner would be lost, and a side counted once for each lineage of the other one.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, all_names, pattern_term, var_of
from mrql.algebra.monoids import Keyed
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    Pattern,
    PTuple,
    PVar,
    Reduce,
    Single,
    Term,
    Tup,
    element_type,
    pair_type,
)
from mrql.rewrite.analysis.infer_merge import joins_elements
from mrql.rewrite.analysis.join_predicates import reads_sources

UNIT = Tup(())


def lineage(term: Term) -> Term:
    """`T_q[[q]]`: the query over `(θ, v)` pairs; a total aggregation gives one pair for each lineage (7b).

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> print(show(lineage(parse("cMap(λ(k, s). {(k, reduce(+, s))}, groupBy(S))", {"S": "{(long, long)}"}))))
    cMap(λ((k, θ), s). cMap(λb. {((k, θ), b)}, {(k, reduce(+, s))}), \
groupBy(cMap(λ(k, (θ, v)). {((k, θ), v)}, cMap(λ(k, v). {(k, ((), v))}, S))))
    """
    return _Annotator(Names(set(all_names(term)))).query(term)


def is_mixed(function: Term, groups: Pattern) -> bool:
    """Whether `mix` ((8e)) applies to a coGroup and is correct, so that its sides keep their own lineages: the function
    joins the two groups, and reads nothing besides them."""
    return joins_elements(function, groups) and not reads_sources(function)


class _Annotator:
    def __init__(self, names: Names) -> None:
        self.names = names

    def query(self, term: Term) -> Term:
        match term:
            case Reduce(monoid, source):  # (7a), (7b)
                return Reduce(Keyed(monoid), self._carried(term, self.query(source)))
            case CMap(Lambda(PTuple((key, group)), body), GroupBy() | CoGroup() as source):
                return self.smap1(key, group, body, self.body(source, group, body))  # (7d)
            case _:  # (7c): a stream, or a part that is not of the normal form
                b = PVar(self.names.fresh("b"), element_type(term))
                return CMap(Lambda(b, Single(Tup((UNIT, var_of(b))))), term)

    def _carried(self, term: Reduce, pairs: Term) -> Term:
        """The pairs with each value taken into the carrier of `⊕`: `reduce(⇑⊕, X)` merges values that are in it
        already."""
        key_type, value_type = pair_type(pairs)
        theta, v = PVar("θ", key_type), PVar(self.names.fresh("v"), value_type)
        value = Reduce(term.monoid, Single(var_of(v)))
        return CMap(Lambda(PTuple((theta, v)), Single(Tup((var_of(theta), value)))), pairs)

    def body(self, term: GroupBy | CoGroup, group: Pattern, function: Term) -> Term:
        """`T_e[[e]]`: pairs of a lineage `(k, θ)` and a group, or a pair of groups."""
        match term:
            case GroupBy(source):  # (7e)
                return GroupBy(self.swap(self.input(source)))
            case CoGroup(left, right) if is_mixed(function, group):  # (7f)
                return self.mix(CoGroup(self.input(left), self.input(right)))
            case CoGroup():  # the deviation
                key_type, groups_type = pair_type(term)
                assert isinstance(groups_type, ty.TupleType)
                k, xs, ys = PVar("k", key_type), PVar("xs", groups_type.items[0]), PVar("ys", groups_type.items[1])
                fresh = Tup((Tup((var_of(k), Tup((UNIT, UNIT)))), Tup((var_of(xs), var_of(ys)))))
                return CMap(Lambda(PTuple((k, PTuple((xs, ys)))), Single(fresh)), term)

    def input(self, term: Term) -> Term:
        """`T_c[[c]]`: the input `{(k, v)}` of a groupBy or coGroup as `{(k, (θ, v))}`."""
        match term:
            case CMap(Lambda(PTuple((key, group)), body), CoGroup() as source) if joins_elements(body, group):
                return self.smap2(key, group, body, self.body(source, group, body))  # (7h)
            case _:
                return self.smap3(term)  # (7g)

    # --- (8a)-(8e) ----------------------------------------------------------------------------

    def smap1(self, key: Pattern, group: Pattern, body: Term, source: Term) -> Term:
        """`{((k, θ), b) | ((k, θ), a) ∈ X, b ∈ f(k, a)}`."""
        lineage_pattern, lineage_term = self._lineage(key, source)
        b = PVar(self.names.fresh("b"), element_type(body))
        pairs = CMap(Lambda(b, Single(Tup((lineage_term, var_of(b))))), body)
        return CMap(Lambda(PTuple((lineage_pattern, group)), pairs), source)

    def smap2(self, key: Pattern, group: Pattern, body: Term, source: Term) -> Term:
        """`{(k', ((k, θ), b)) | ((k, θ), a) ∈ X, (k', b) ∈ f(k, a)}`."""
        lineage_pattern, lineage_term = self._lineage(key, source)
        item = element_type(body)
        assert isinstance(item, ty.TupleType)
        k, b = PVar(self.names.fresh("k"), item.items[0]), PVar(self.names.fresh("b"), item.items[1])
        pairs = CMap(Lambda(PTuple((k, b)), Single(Tup((var_of(k), Tup((lineage_term, var_of(b))))))), body)
        return CMap(Lambda(PTuple((lineage_pattern, group)), pairs), source)

    def smap3(self, source: Term) -> Term:
        """`{(k', ((), b)) | a ∈ X, (k', b) ∈ f(a)}`."""
        key_type, value_type = pair_type(source)
        k, v = PVar("k", key_type), PVar("v", value_type)
        return CMap(Lambda(PTuple((k, v)), Single(Tup((var_of(k), Tup((UNIT, var_of(v))))))), source)

    def swap(self, source: Term) -> Term:
        """`{((k, θ), v) | (k, (θ, v)) ∈ X}`."""
        key_type, annotated = pair_type(source)
        assert isinstance(annotated, ty.TupleType)
        k, theta, v = PVar("k", key_type), PVar("θ", annotated.items[0]), PVar("v", annotated.items[1])
        return CMap(
            Lambda(PTuple((k, PTuple((theta, v)))), Single(Tup((Tup((var_of(k), var_of(theta))), var_of(v))))), source
        )

    def mix(self, source: CoGroup) -> Term:
        """`{((k, (θx, θy)), (xs, ys)) | (k, (s1, s2)) ∈ X, (θx, xs) ∈ groupBy(s1), (θy, ys) ∈ groupBy(s2)}`."""
        item = element_type(source)
        assert isinstance(item, ty.TupleType)
        k = PVar("k", item.items[0])
        groups = item.items[1]
        assert isinstance(groups, ty.TupleType)
        s1, s2 = PVar("s1", groups.items[0]), PVar("s2", groups.items[1])
        sides = [GroupBy(var_of(s)) for s in (s1, s2)]
        thetas, bags = [], []
        for side, theta, bag in zip(sides, ("θx", "θy"), ("xs", "ys"), strict=True):
            theta_type, bag_type = pair_type(side)
            thetas.append(PVar(theta, theta_type))
            bags.append(PVar(bag, bag_type))
        key = Tup((var_of(k), Tup((var_of(thetas[0]), var_of(thetas[1])))))
        result: Term = Single(Tup((key, Tup((var_of(bags[0]), var_of(bags[1]))))))
        for i in (1, 0):
            result = CMap(Lambda(PTuple((thetas[i], bags[i])), result), sides[i])
        return CMap(Lambda(PTuple((k, PTuple((s1, s2)))), result), source)

    def _lineage(self, key: Pattern, source: Term) -> tuple[Pattern, Term]:
        """The pattern `(k, θ)` for the lineage of the source's elements, and the same as a term."""
        lineage_type, _ = pair_type(source)
        assert isinstance(lineage_type, ty.TupleType)
        theta = PVar(self.names.fresh("θ"), lineage_type.items[1])
        pattern, term = pattern_term(key, self.names)
        return PTuple((pattern, theta)), Tup((term, var_of(theta)))
