"""Foreign types, such as those of Parquet, ORC and Spark, compared with a type of the language, part by part.

The fields of a struct are found by name for a record, in any order, and by position for a tuple; those that are not
asked for are left out. Names are case-sensitive. A map is the bag of its pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.showable import written_name
from mrql.algebra.types import Type


@attrs.frozen
class ForeignAtom:
    """A type without parts that the language knows; `text` is its name where it comes from, `types` are the types that
    its values can be read as, the first of them if none is asked for. They may be widened."""

    text: str
    types: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Sequence:
    item: Foreign

    def __str__(self) -> str:
        return f"[{self.item}]"


@attrs.frozen
class Fields:
    fields: tuple[tuple[str, Foreign], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def __str__(self) -> str:
        return f"<{', '.join(f'{written_name(name)}: {t}' for name, t in self.fields)}>"


@attrs.frozen
class Pairs:
    """A map."""

    key: Foreign
    value: Foreign

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


Foreign: TypeAlias = ForeignAtom | Sequence | Fields | Pairs


@attrs.frozen
class Misfit:
    """The first part of a column that does not fit: its path, which begins with the column, and what is wrong."""

    place: str
    wrong: str
    inside: bool

    def __str__(self) -> str:
        return f"{'part' if self.inside else 'column'} `{self.place}`"


def misfit(found: Foreign, wanted: Type, column: str, *, may_lack_fields: bool = False) -> Misfit | None:
    """Why a column cannot be read as a type; None if it can. With `may_lack_fields`, structs may lack fields of a
    record at any depth: their values are missing.

    >>> swapped = Fields((("Y", ForeignAtom("int", (ty.INT,))), ("X", ForeignAtom("map<int,int>"))))
    >>> misfit(Sequence(swapped), ty.ListType(ty.RecordType((("Y", ty.LONG),))), "A") is None
    True
    >>> wrong = misfit(Sequence(swapped), ty.ListType(ty.RecordType((("X", ty.LONG), ("Y", ty.LONG)))), "A")
    >>> print(wrong, wrong.wrong)
    part `A[].X` is of type map<int,int>, where long was expected
    """
    return _misfit(found, wanted, column, inside=False, may_lack=may_lack_fields)


def _misfit(found: Foreign, wanted: Type, at: str, *, inside: bool, may_lack: bool) -> Misfit | None:
    of_part = partial(_misfit, inside=True, may_lack=may_lack)
    match wanted, found:
        case ((ty.BagType(item) | ty.ListType(item)), Sequence(have)):
            return of_part(have, item, f"{at}[]")
        case ty.BagType(ty.TupleType((key, item))), Pairs(have_key, have):
            return of_part(have_key, key, f"{at}.key") or of_part(have, item, f"{at}.value")
        case ((ty.TupleType() | ty.RecordType()), Fields()):
            wrong = _wrong_fields(found, wanted, may_lack=may_lack)
            if wrong is not None:
                return Misfit(at, wrong, inside)
            parts = (of_part(have, t, f"{at}.{name}") for name, have, t in asked_for(found, wanted))
            return next((part for part in parts if part is not None), None)
        case _, ForeignAtom() if _is_read_as(found, wanted):
            return None
        case _:
            return Misfit(at, f"is of type {found}, where {wanted} was expected", inside)


def _is_read_as(found: ForeignAtom, wanted: Type) -> bool:
    exact = [t for t in found.types if isinstance(t, ty.DecimalType)]
    # A decimal may also be read as other numbers, but as a decimal only by its own type.
    types = exact if exact and isinstance(wanted, ty.DecimalType) else found.types
    return any(ty.fits(t, wanted) for t in types)


def _wrong_fields(found: Fields, wanted: ty.TupleType | ty.RecordType, *, may_lack: bool) -> str | None:
    names = found.names
    if wrong := twice(names):
        return f"has the field `{wrong}` twice; its fields: {', '.join(names)}"
    if isinstance(wanted, ty.TupleType):
        if len(names) == len(wanted.items):
            return None
        return f"is of type {found}, where {wanted} was expected"
    missing = [] if may_lack else [name for name in wanted.names if name not in names]
    return f"has no field `{missing[0]}`; its fields: {', '.join(names)}" if missing else None


def twice(names: Iterable[str]) -> str | None:
    """The first name that occurs more than once.

    >>> twice(["a", "A", "b", "A"])
    'A'
    """
    return next((name for name, number in Counter(names).items() if number > 1), None)


def own_type(found: Foreign) -> Type | None:
    """The type that values are read as if none is asked for; None if the language has none.

    A record leaves out the fields of such types, and lists them (`RecordType.left_out`).

    >>> row = own_type(Fields((("a", ForeignAtom("int", (ty.INT,))), ("b", Sequence(ForeignAtom("binary"))))))
    >>> print(row, row.left_out)
    <a: int> (('b', '[binary]'),)
    """
    match found:
        case Fields():
            return _own_record(found)
        case Sequence(item):
            inner = own_type(item)
            return None if inner is None else ty.ListType(inner)
        case Pairs(key, value):
            parts = own_type(key), own_type(value)
            return None if parts[0] is None or parts[1] is None else ty.BagType(ty.TupleType((parts[0], parts[1])))
        case ForeignAtom(_, types):
            return types[0] if types and types[0] != ty.NOTHING else None


def _own_record(found: Fields) -> ty.RecordType | None:
    """The type of a struct as a record; None if it has a field twice, or none of its fields has a type."""
    if twice(found.names):
        return None
    typed = [(name, own_type(item)) for name, item in found.fields]
    kept = tuple((name, t) for name, t in typed if t is not None)
    if found.fields and not kept:
        return None
    gone = tuple((name, str(item)) for (name, item), (_, t) in zip(found.fields, typed, strict=True) if t is None)
    return ty.RecordType(kept, left_out=gone)


def asked_for(found: Fields, wanted: ty.TupleType | ty.RecordType) -> list[tuple[str, Foreign, Type]]:
    """The fields that a type asks for and that are there, each with the type that it has and the one asked for."""
    if isinstance(wanted, ty.TupleType):
        return [(name, have, t) for (name, have), t in zip(found.fields, wanted.items, strict=True)]
    have = dict(found.fields)
    return [(name, have[name], t) for name, t in wanted.fields if name in have]
