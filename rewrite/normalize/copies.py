"""Removes comprehensions and unions that only rebuild a bag, where nothing is missing.

*Equations*:

    cMap(λx. {x}, S)            →  S, on bags that cannot be missing, or where S is iterated over
    cMap(λ(x, y). {(x, y)}, S)  →  S, likewise, and where no element is a missing tuple or all are taken apart
    e ⊎ {}                      →  e, likewise

*Requires*: the collection cannot be missing where that makes a difference, since a select over a missing collection is
the empty bag (`docs/language.md`).
"""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known, MissingScope, Use, known, may_be_missing, scopes, uses
from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import Remembered
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    GroupBy,
    Lambda,
    PAny,
    Pattern,
    PTuple,
    PVar,
    Single,
    Term,
    Tup,
    Union,
    Var,
)


def without_copies(term: Term, scope: MissingScope, use: Use = Use.WHOLE) -> Term:
    """The term without comprehensions and unions that only rebuild a bag; `scope` is what is known of its free
    variables, and `use` how its value is used.

    >>> from mrql.algebra.analysis.missing import NOWHERE
    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> types = {"S": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> print(show(without_copies(parse("cMap(λ(x, y). {x}, cMap(λ(x, y). {(x, y)}, S))", types), NOWHERE)))
    cMap(λ(x, y). {x}, S)
    >>> print(show(without_copies(parse("cMap(λ(x, y). {(x, y)}, S)", types), NOWHERE)))  # a pair may be missing
    cMap(λ(x, y). {(x, y)}, S)
    """
    if not _has_any_made_anew(term):
        return term
    while (inner := _only_made_anew(term, scope, use)) is not None:
        term = inner
    places = zip(children(term), scopes(term, scope), uses(term, use), strict=True)
    return with_children(term, tuple(without_copies(*place) for place in places))


_MADE_ANEW = Remembered[bool]()


def _has_any_made_anew(term: Term) -> bool:
    """Whether a part of the term only rebuilds a bag, if nothing is missing."""
    inner = children(term)
    if not inner:
        return False
    found = _MADE_ANEW.get(term)
    if found is None:
        found = _MADE_ANEW.put(term, _may_be_made_anew(term) or any(map(_has_any_made_anew, inner)))
    return found


def _may_be_made_anew(term: Term) -> bool:
    match term:
        case CMap(Lambda(pattern, Single(item)), source):
            return isinstance(source.type, ty.BagType) and _rebuilds(pattern, item)
        case Union(Empty(), _) | Union(_, Empty()):
            return True
        case _:
            return False


def _only_made_anew(term: Term, scope: MissingScope, use: Use) -> Term | None:
    """The bag that a term only rebuilds, if the two are the same for this use; None otherwise."""
    match term:
        case CMap(_, GroupBy() | CoGroup()):
            return None  # the form in which groups are kept
        case CMap(Lambda(pattern, Single(item)), source) if isinstance(source.type, ty.BagType):
            inner = source if is_identity(term) or _is_rebuilt(pattern, item, source, scope, use) else None
        case Union(Empty(), other) | Union(other, Empty()) if other.type == term.type:
            inner = other
        case _:
            inner = None
    return None if inner is None or (use is Use.WHOLE and may_be_missing(inner, scope)) else inner


def _is_rebuilt(pattern: Pattern, item: Term, source: Term, scope: MissingScope, use: Use) -> bool:
    if isinstance(pattern, PVar) or not _rebuilds(pattern, item):
        return False
    element = known(source, scope).element
    return _is_there(pattern, attrs.evolve(element, missing=False) if use is Use.PARTS else element)


def is_identity(term: CMap) -> bool:
    """Whether a term is `cMap(λx. {x}, e)`: the bag e, or the empty bag where e is missing."""
    match term:
        case CMap(Lambda(PVar(name, _), Single(Var(other, _))), source):
            return name == other and isinstance(source.type, ty.BagType)
        case _:
            return False


def _rebuilds(pattern: Pattern, term: Term) -> bool:
    """Whether the term rebuilds the value that the pattern takes apart, if no tuple in it is missing."""
    match pattern, term:
        case PVar(name, _), Var(other, _):
            return name == other
        case PTuple(items), Tup(terms):
            return len(items) == len(terms) and all(map(_rebuilds, items, terms))
        case PAny(t), Tup(()):
            return t == ty.UNIT
        case _:
            return False


def _is_there(pattern: Pattern, element: Known) -> bool:
    """Whether no tuple that the pattern takes apart can be missing."""
    match pattern:
        case PVar():
            return True
        case PTuple(items):
            return not element.missing and all(_is_there(item, element.part(i)) for i, item in enumerate(items))
        case PAny():
            return not element.missing
