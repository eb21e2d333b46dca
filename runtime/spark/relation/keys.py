"""Keys as columns that are never null, so that rows of a key are found by a plain equality.

A key may be missing, and equality of keys counts a missing one as equal to a missing one. Spark can say that, as
`a <=> b`, but joins by moving both sides to where `coalesce(a, …)` and `coalesce(b, …)` would be: the whole state. So a
key is stored as its parts, with any value in place of a missing one, and a number whose bits say which are missing.

A key without parts, `()`, has one column all the same. In SQL no columns are no key: grouped by none, there is a row
also where there are no rows, and nothing can lie, be joined or be looked up by none.

A key that is made from the parts of another one, as that was read from its columns, is these columns under other names:
Spark sees then that rows that lie by the one lie by the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Atom, KeyPart, Layout, atoms, filled, labels, quote, sql_type
from mrql.runtime.spark.relation.frame import Frame, fit
from mrql.runtime.spark.relation.relation import Relation

LONG_MAX_BITS = 62
"""How many parts one number can tell of."""


@attrs.frozen
class Keys:
    """The columns of keys that lie in some layout: `{prefix}0`, `{prefix}1`, … and the bits `{prefix}_missing0`, …"""

    shape: Layout
    prefix: str
    apart: frozenset[int] = frozenset()
    """The parts of which another number tells whether they are missing: keys that differ in nothing else can lie by
    what they have in common."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, by which equal keys are equal; there is one at least."""
        return (*self._parts(), *self._bits()) or (self._unit,)

    @property
    def in_common(self) -> tuple[str, ...]:
        """The columns but for those of the parts apart, and those that tell which of these are missing."""
        if not self.apart:
            return self.names
        parts = [name for i, name in enumerate(self._parts()) if i not in self.apart]
        return (*parts, *(bits for bits, told in self._told() if not {*told} & self.apart))

    @property
    def set_apart(self) -> tuple[str, ...]:
        """The columns of the parts apart."""
        return tuple(name for i, name in enumerate(self._parts()) if i in self.apart)

    @property
    def _unit(self) -> str:
        """The column of a key without parts."""
        return f"{self.prefix}0"

    def _parts(self) -> list[str]:
        return [f"{self.prefix}{i}" for i, _ in enumerate(atoms(self.shape))]

    def _bits(self) -> list[str]:
        return [bits for bits, _ in self._told()]

    def _told(self) -> Iterator[tuple[str, Sequence[int]]]:
        """The columns of bits, each with the numbers of the parts that it tells of."""
        parts = range(len(self._parts()))
        sides = ([i for i in parts if i not in self.apart], [i for i in parts if i in self.apart])
        told = (side[start : start + LONG_MAX_BITS] for side in sides for start in range(0, len(side), LONG_MAX_BITS))
        return ((f"{self.prefix}_missing{n}", each) for n, each in enumerate(told))

    def columns(self, value: Layout) -> list[str]:
        """A key as the columns, in SQL."""
        parts = list(atoms(fit(value, self.shape)))
        columns: dict[str, str] = {} if parts else {self._unit: "true"}
        for bits, told in self._told():
            columns[bits], names = _told_of([parts[i] for i in told])
            columns |= {f"{self.prefix}{i}": name for i, name in zip(told, names, strict=True)}
        return [f"{columns[name]} AS {name}" for name in self.names]

    def rows(self, bag: Frame) -> Relation:
        """The elements of a bag as keys, each with its weight `w`."""
        value = canonical(Expressions(), bag.value)
        return bag.df.select(*self.columns(value), f"CAST({bag.weight or '1L'} AS BIGINT) AS w")

    @property
    def value(self) -> Layout:
        """The key, read from the columns."""
        read: dict[int, Atom] = {}
        types, names = [part.type for part in atoms(self.shape)], self._parts()
        for bits, told in self._told():
            for place, i in enumerate(told):
                present = f"({bits} & {1 << place}L) = 0L"
                key = KeyPart(names[i], bits, place, len(told))
                read[i] = Atom(f"if({present}, {quote(names[i])}, NULL)", types[i], key=key)
        return filled(self.shape, (read[i] for i in range(len(names))))


def _told_of(parts: Sequence[Atom]) -> tuple[str, list[str]]:
    """The bits that tell which parts are missing, and the parts with any value for those: as they are kept where they
    are all that another key has."""
    read = [part.key for part in parts if part.key is not None]
    if read and [attrs.evolve(key, column="") for key in read] == [
        KeyPart("", read[0].bits, place, len(parts)) for place in range(len(parts))
    ]:
        return read[0].bits, [quote(key.column) for key in read]
    bits = " + ".join(f"if({part.sql} IS NULL, {1 << i}L, 0L)" for i, part in enumerate(parts))
    return f"{bits} + {_unknown_zero(parts[0])}", [f"coalesce({part.sql}, {default_sql(part.type)})" for part in parts]


def _unknown_zero(part: Atom) -> str:
    """Zero, though Spark does not see it.

    Of a key that is never missing the bits are constant. Spark would put the constant in their place, and then rows
    that lie by the bits, among others, do not lie by them any more: the state would be moved to where it is.
    """
    value = f"coalesce({part.sql}, {default_sql(part.type)})"
    number = value if part.type in (ty.INT, ty.LONG) else f"hash({value})"
    return f"CAST({number} & 0 AS BIGINT)"


def default_sql(t: Type) -> str:
    """Some value of a type, and not null; which one does not matter."""
    match t:
        case ty.Basic(ty.Kind.BOOL) | ty.Nothing() | ty.TupleType(()) | ty.RecordType(()):
            return "false"
        case ty.Basic(ty.Kind.STRING | ty.Kind.ANY | ty.Kind.XML | ty.Kind.DATA):
            return "''"
        case ty.Basic(ty.Kind.BINARY):
            return "X''"
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP):
            return f"{sql_type(t)}'1970-01-01'"
        case ty.Basic():
            return f"CAST(0 AS {sql_type(t)})"
        case ty.TupleType() | ty.RecordType():
            parts = ", ".join(default_sql(item) for _, item in labels(t))
            return f"CAST(struct({parts}) AS {sql_type(t)})"
        case _:
            return f"CAST(array() AS {sql_type(t)})"
