"""Keys as columns that are never null, so that the rows of a key are found by plain equality.

A key may be missing, and a missing key equals a missing key. Spark can express that, as `a <=> b`, but for a join it
repartitions both sides by `coalesce(a, …)` and `coalesce(b, …)`: the whole state. So a key is stored as its parts, with
an arbitrary value in place of a missing one, and a number whose bits say which are missing.

A key without parts, `()`, still has one column. In SQL, no columns are no key: grouping by none gives a row even if
there are no rows, and rows cannot be partitioned, joined or looked up by none.

A key that is made from the parts of another one, as read from its columns, is these columns under other names: so Spark
sees that rows partitioned by one are partitioned by the other.
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
"""The number of parts that one number can describe."""


@attrs.frozen
class Keys:
    """The columns of keys with some layout: `{prefix}0`, `{prefix}1`, … and the bits `{prefix}_missing0`, …"""

    shape: Layout
    prefix: str
    apart: frozenset[int] = frozenset()
    """The parts whose bits are in numbers of their own: keys that differ only in these parts can be partitioned by what
    they have in common."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns: keys are equal if these are. There is at least one."""
        return (*self._parts(), *self._bits()) or (self._unit,)

    @property
    def in_common(self) -> tuple[str, ...]:
        """The columns other than those of the parts `apart` and of their bits."""
        if not self.apart:
            return self.names
        parts = [name for i, name in enumerate(self._parts()) if i not in self.apart]
        return (*parts, *(bits for bits, told in self._told() if not {*told} & self.apart))

    @property
    def set_apart(self) -> tuple[str, ...]:
        """The columns of the parts `apart`."""
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
        """The columns of bits, each with the numbers of the parts that it describes."""
        parts = range(len(self._parts()))
        sides = ([i for i in parts if i not in self.apart], [i for i in parts if i in self.apart])
        told = (side[start : start + LONG_MAX_BITS] for side in sides for start in range(0, len(side), LONG_MAX_BITS))
        return ((f"{self.prefix}_missing{n}", each) for n, each in enumerate(told))

    def columns(self, value: Layout) -> list[str]:
        """The columns of a key, in SQL."""
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
    """The bits that say which parts are missing, and the parts, with an arbitrary value for a missing one. If the parts
    are exactly those that one number of bits describes in another key, they are the columns of that key."""
    read = [part.key for part in parts if part.key is not None]
    if read and [attrs.evolve(key, column="") for key in read] == [
        KeyPart("", read[0].bits, place, len(parts)) for place in range(len(parts))
    ]:
        return read[0].bits, [quote(key.column) for key in read]
    bits = " + ".join(f"if({part.sql} IS NULL, {1 << i}L, 0L)" for i, part in enumerate(parts))
    return f"{bits} + {_unknown_zero(parts[0])}", [f"coalesce({part.sql}, {default_sql(part.type)})" for part in parts]


def _unknown_zero(part: Atom) -> str:
    """Zero, in a form in which Spark does not see it.

    For a key that is never missing, the bits are constant. Spark would replace them by the constant, and then no longer
    see that rows are partitioned by the bits, among others: the state would be moved to where it already is.
    """
    value = f"coalesce({part.sql}, {default_sql(part.type)})"
    number = value if part.type in (ty.INT, ty.LONG) else f"hash({value})"
    return f"CAST({number} & 0 AS BIGINT)"


def default_sql(t: Type) -> str:
    """An arbitrary value of a type, other than null."""
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
