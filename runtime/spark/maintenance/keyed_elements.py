"""Elements with the key of their row.

If a bag is made of several, as in `{x} ∪ {y}` or by an `if` with two branches, its relation is a union, with the
columns of the elements only. A key that is needed beside an element has to be a part of it.
"""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.terms import CMap, Empty, If, Lambda, Let, PVar, Single, Term, Tup, Union, Var, element_type


def with_key(bag: Term, key: Var, element: str) -> Term:
    """The pairs of a key and each element of a bag: `cMap(λx. {(k, x)}, e)`, pushed down to where the elements are. The
    name x of an element is given.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import pretty
    >>> print(pretty(with_key(parse("{1} ⊎ {2}", {}, {}), Var("k", ty.LONG), "x"), types=False))
    {(k, 1)} ⊎ {(k, 2)}
    """
    match bag:
        case Single(item):
            return Single(Tup((key, item)))
        case Empty(t):
            return Empty(ty.BagType(ty.TupleType((key.type, t.item)))) if isinstance(t, ty.BagType) else bag
        case If(condition, then, otherwise):
            return If(condition, with_key(then, key, element), with_key(otherwise, key, element))
        case Union(left, right):
            return Union(with_key(left, key, element), with_key(right, key, element))
        case Let(pattern, value, inner):
            return Let(pattern, value, with_key(inner, key, element))
        case CMap(Lambda(param, body), _):
            return attrs.evolve(bag, function=Lambda(param, with_key(body, key, element)))
        case _:
            t = element_type(bag)
            return CMap(Lambda(PVar(element, t), Single(Tup((key, Var(element, t))))), bag)
