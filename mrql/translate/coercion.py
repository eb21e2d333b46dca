"""Types of type expressions, and coercions and casts of terms to a type."""

from __future__ import annotations

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, Empty, Lit, Term, cast_to
from mrql.algebra.types import Type
from mrql.translate.other_names import TYPES_HERE
from mrql.translate.scope import Globals, Scope

BASIC: dict[str, Type] = {name: t for name, t in ty.BASIC.items() if t != ty.BYTES}
SYNONYMS: dict[str, Type] = {
    name: t
    for names, t in (
        ("bigint", ty.LONG),
        ("integer int4 smallint int2 short tinyint byte", ty.INT),
        ("real float4", ty.FLOAT),
        ("float8", ty.DOUBLE),
        ("numeric dec", ty.DecimalType(10)),
        ("boolean", ty.BOOL),
        ("varchar text", ty.STRING),
        ("timestamp_ntz datetime", ty.TIMESTAMP),
        ("binary varbinary bytes bytea blob", ty.BYTES),
    )
    for name in names.split()
}
"""Types by their names in SQL, Spark and PostgreSQL; types that a query defines by these names take precedence."""


def resolve(t: syntax.TypeExpr, known: Globals) -> Type:
    """The type that a type expression names.

    Raises: UserError for an unknown name.
    """
    match t:
        case syntax.NamedType(name):
            found = _named(name, known)
            if found is not None:
                return found
            candidates = [*BASIC, *known.types, *SYNONYMS]
            raise Scope(known).unknown("type", name, candidates, t.span, TYPES_HERE.get(name.lower()))
        case syntax.NumberedType(precision, scale):
            return ty.DecimalType(precision, scale)
        case syntax.TupleType(items):
            return ty.TupleType(tuple(resolve(item, known) for item in items))
        case syntax.RecordType(fields):
            no_duplicates([name for name, _ in fields], t.span)
            return ty.RecordType(tuple((name, resolve(item, known)) for name, item in fields))
        case syntax.BagType(item):
            return ty.BagType(resolve(item, known))
        case syntax.ListType(item):
            return ty.ListType(resolve(item, known))


def _named(name: str, known: Globals) -> Type | None:
    return BASIC.get(name) or known.types.get(name) or known.data.get(name) or SYNONYMS.get(name)


def is_type(name: str, known: Globals) -> bool:
    """Whether a name is that of a type."""
    return _named(name, known) is not None


def no_duplicates(names: list[str], span: Span) -> None:
    """Raises: UserError for a field that is there twice."""
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the field `{name}` is there twice", span)


def coerce(term: Term, wanted: Type, span: Span, what: str, hint: str | None = None) -> Term:
    """The term widened to a type; `what` says in an error where the type comes from, and the hint is for that error.

    Raises: UserError when the term's type does not fit.
    """
    if term.type == wanted:
        return term
    if not ty.fits(term.type, wanted):
        hint = hint or (IN_ORDER if _lacks_order(term.type, wanted) else None)
        raise UserError(f"{what} must be of type {wanted}, not {term.type}", span, hint)
    match term:
        case Empty() | Lit(None, _):
            return attrs.evolve(term, type=wanted)
        case _:
            return Cast(term, wanted, span=term.span)


IN_ORDER = "a select makes a bag; one in the order of a list is `select e from (x, n) in row_number(xs) order by n`"


def _lacks_order(found: Type, wanted: Type) -> bool:
    """Whether a bag stands where a list of such elements is required, perhaps as a part of a tuple."""
    match found, wanted:
        case ty.BagType(item), ty.ListType(of):
            return ty.fits(item, of)
        case ty.TupleType(items), ty.TupleType(types) if len(items) == len(types):
            return any(map(_lacks_order, items, types))
        case _:
            return False


def common(terms: list[Term], spans: list[Span], what: str, hint: str | None = None) -> tuple[Type, list[Term]]:
    """The least common type of some terms, and the terms widened to it; the hint is for where there is none.

    Raises: UserError at the first term that has no common type with those before it.
    """
    joined: Type = ty.NOTHING
    for term, span in zip(terms, spans, strict=True):
        wider = ty.join_types(joined, term.type)
        if wider is None:
            raise UserError(f"{what} must be of one type, but here is {term.type} after {joined}", span, hint)
        joined = wider
    return joined, [coerce(term, joined, span, what) for term, span in zip(terms, spans, strict=True)]


def castable(source: Type, target: Type) -> bool:
    """Whether `e as t` has a meaning: widening, numbers among each other, dates and timestamps, and anything
    atomic from and to strings."""
    if ty.fits(source, target):
        return True
    if source == ty.ANY or target == ty.ANY:
        return ty.is_json(target if source == ty.ANY else source)
    if not (isinstance(source, ty.Basic) and isinstance(target, ty.Basic)):
        return False
    if any(t == ty.XML or ty.is_data(t) for t in (source, target)):
        return False
    if ty.STRING in (source, target) or (source, target) == (ty.TIMESTAMP, ty.DATE):
        return True
    return ty.is_numeric(source) and ty.is_numeric(target)


def taken_as(term: Term, wanted: Type, span: Span, hint: str | None = None) -> Term:
    """`e as t`; the hint is for an `e` that cannot be cast.

    Raises: UserError where there is no cast from the one type to the other.
    """
    if not castable(term.type, wanted):
        raise UserError(f"a value of type {term.type} cannot be taken as {wanted}", span, hint)
    return cast_to(term, wanted)
