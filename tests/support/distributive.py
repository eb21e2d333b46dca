"""The distributive law, as a rewrite that takes every carrier for a ring, which doubles are not.

For tests that must detect it: no pass of ours does this.
"""

from __future__ import annotations

from mrql.algebra import functions as fn
from mrql.algebra import monoids as m
from mrql.algebra import terms as t
from mrql.algebra.analysis.traversal import map_children


def distributed(term: t.Term) -> t.Term:
    """The term with its sums of products as sums of monomials: `{(b - d) * (b - d)}` becomes `{b * b} ⊎
    {-1.0 * (b * d)} ⊎ {-1.0 * (d * b)} ⊎ {d * d}`."""
    if isinstance(term, t.Reduce) and term.monoid == m.SUM:
        return t.Reduce(m.SUM, _addends(term.source))
    return map_children(term, distributed)


def _addends(source: t.Term) -> t.Term:
    match source:
        case t.CMap(function, inner):
            return t.CMap(t.Lambda(function.param, _addends(function.body)), inner)
        case t.If(condition, then, otherwise):
            return t.If(condition, _addends(then), _addends(otherwise))
        case t.Single(item):
            first, *others = (t.Single(monomial) for monomial in _monomials(item))
            for each in others:
                first = t.Union(first, each)
            return first
        case _:
            return source


def _monomials(term: t.Term) -> list[t.Term]:
    match term:
        case t.Prim(fn.PLUS, (a, b)):
            return [*_monomials(a), *_monomials(b)]
        case t.Prim(fn.MINUS, (a, b)):
            return [*_monomials(a), *(t.Prim(fn.TIMES, (t.Lit(-1.0, b.type), each)) for each in _monomials(b))]
        case t.Prim(fn.TIMES, (a, b)):
            return [t.Prim(fn.TIMES, (x, y)) for x in _monomials(a) for y in _monomials(b)]
        case _:
            return [term]
