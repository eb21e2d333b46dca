"""The common type of columns whose types differ between files: it holds the values of all of them unchanged.

Whole numbers become `double` where other values are, as in JSON, which is exact up to 53 bits; nothing else is lost.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.types import Type


def wider_row(known: ty.RecordType, found: ty.RecordType) -> ty.RecordType:
    """A row type, widened to hold the rows of another file, too. A column keeps its type if no type holds the values of
    both. A column that was left out, as the language does not have its type, stays left out.

    >>> old = ty.RecordType((("a", ty.INT), ("b", ty.STRING)))
    >>> print(wider_row(old, ty.RecordType((("b", ty.INT), ("a", ty.LONG), ("c", ty.DATE)))))
    <a: long, b: string, c: date>
    """
    fields, left_out = dict(known.fields), dict(known.left_out)
    for name, t in found.fields:
        if name not in left_out:
            fields[name] = (wider(fields[name], t) or fields[name]) if name in fields else t
    left_out |= {name: text for name, text in found.left_out if name not in fields}
    return ty.RecordType(tuple(fields.items()), left_out=tuple(left_out.items()))


def wider(known: Type, found: Type) -> Type | None:
    """The least type that holds the values of both; None if there is none.

    A record in a column has the fields of both, as a row has the columns.

    >>> print(wider(ty.INT, ty.FLOAT), wider(ty.INT, ty.DecimalType(5, 2)), wider(ty.DOUBLE, ty.DecimalType(5, 2)))
    double decimal(12, 2) None
    """
    match known, found:
        case ty.RecordType(fields), ty.RecordType():
            have = dict(found.fields)
            shared = [wider(t, have[name]) for name, t in fields if name in have]
            return None if None in shared else wider_row(known, found)
        case ty.TupleType(items), ty.TupleType(others) if len(items) == len(others):
            parts = [wider(a, b) for a, b in zip(items, others, strict=True)]
            kept_parts = tuple(part for part in parts if part is not None)
            return ty.TupleType(kept_parts) if len(kept_parts) == len(items) else None
        case ty.BagType(item), ty.BagType(other):
            inner = wider(item, other)
            return None if inner is None else ty.BagType(inner)
        case ty.ListType(item), ty.ListType(other):
            inner = wider(item, other)
            return None if inner is None else ty.ListType(inner)
        case _:
            return _wider_atom(known, found)


def _wider_atom(known: Type, found: Type) -> Type | None:
    both = {known, found}
    if len(both) == 2 and both & {*ty.FRACTIONS} and any(isinstance(t, ty.DecimalType) for t in both):
        return None
    joined = ty.join_types(known, found)
    return ty.DOUBLE if joined == ty.FLOAT and len(both) == 2 else joined


def narrowed(t: Type, wanted: Type) -> Type:
    """A type without the fields that another one does not ask for.

    >>> one = ty.RecordType((("a", ty.ListType(ty.RecordType((("x", ty.INT), ("y", ty.INT))))),))
    >>> print(narrowed(one, ty.RecordType((("a", ty.BagType(ty.RecordType((("y", ty.LONG),)))), ("b", ty.INT)))))
    <a: [<y: int>]>
    """
    match t, wanted:
        case ty.RecordType(fields), ty.RecordType():
            asked = dict(wanted.fields)
            return ty.RecordType(tuple((name, narrowed(item, asked[name])) for name, item in fields if name in asked))
        case ty.TupleType(items), ty.TupleType(others) if len(items) == len(others):
            return ty.TupleType(tuple(map(narrowed, items, others)))
        case ((ty.BagType(item) | ty.ListType(item)), (ty.BagType(other) | ty.ListType(other))):
            return type(t)(narrowed(item, other))
        case _:
            return t
