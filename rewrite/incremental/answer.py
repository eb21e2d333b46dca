"""The answer function: the result of a query, computed from its state.

*Equations* ([MRQL] Def. 4), over the annotated state x, with T dropping the lineage below the outermost key:

    A[[cMap(f, S)]]x             = π2(x)
    A[[reduce(⊕, cMap(f, e))]]x  = reduce(⊕, π2(x))
    A[[cMap(f, e)]]x             = π2(reduce(⇑⊗, T(x)))

followed by the kMap of the non-homomorphic parts (§9). The pruned state is `reduce(⇑⊗, T(x))` already, so that only the
kMap is left. `rewrite/plan/delta_rules.py` says how a batch changes the answer.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.terms import (
    CMap,
    Lambda,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Tup,
    Var,
    one_or_pattern,
    one_or_tuple,
    pair_type,
)
from mrql.rewrite.incremental.split import Part


def value_pattern(parts: tuple[Part, ...]) -> Pattern:
    """The pattern that binds the parts' variables to a stored value."""
    return one_or_pattern([PVar(part.name, part.term.type) for part in parts])


def value_term(parts: tuple[Part, ...]) -> Term:
    """The stored value: the parts' terms."""
    return one_or_tuple([part.term for part in parts])


def keyed_answer(state: Term, key: Pattern, parts: tuple[Part, ...], rest: Term) -> Term:
    """`cMap(λ(k, (x1, …, xn)). f(x1, …, xn), X)`: the kMap over the pruned state."""
    return CMap(Lambda(PTuple((key, value_pattern(parts))), rest), state)


def drop_lineage(state: Term) -> Term:
    """`T(X) = {(k, a) | ((k, θ), a) ∈ X}` ([MRQL] Def. 4).

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> print(show(drop_lineage(parse("X", {"X": "{((long, ()), long)}"}))))
    cMap(λ((k, θ), a). {(k, a)}, X)
    """
    lineage_type, value_type = pair_type(state)
    assert isinstance(lineage_type, ty.TupleType)
    k, theta = (PVar(name, t) for name, t in zip("kθ", lineage_type.items, strict=True))
    kept = Single(Tup((Var("k", k.type), Var("a", value_type))))
    return CMap(Lambda(PTuple((PTuple((k, theta)), PVar("a", value_type))), kept), state)
