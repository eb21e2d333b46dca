"""Each element of a collection once."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, var_of
from mrql.algebra.terms import CMap, GroupBy, Lambda, PAny, PTuple, PVar, Single, Term, Tup, element_type


def distinct(collection: Term, names: Names) -> Term:
    """Each element once: `π1(groupBy({(x, ()) | x ∈ X}))` ([MRQL] §5)."""
    t = element_type(collection)
    x, k = PVar(names.fresh("x"), t), PVar(names.fresh("k"), t)
    pairs = CMap(Lambda(x, Single(Tup((var_of(x), Tup(()))))), collection)
    return CMap(Lambda(PTuple((k, PAny(ty.BagType(ty.UNIT)))), Single(var_of(k))), GroupBy(pairs))
