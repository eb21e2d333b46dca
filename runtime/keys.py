"""Keys as columns that are never null, so that rows of a key are found by a plain equality.

A key may be missing, and equality of keys counts a missing one as equal to a missing one. Spark can say that, as
`a <=> b`, but joins by moving both sides to where `coalesce(a, …)` and `coalesce(b, …)` would be: the whole state. So a
key is stored as its parts, with any value in place of a missing one, and a number whose bits say which are missing.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.frames import fit
from mrql.runtime.layout import Atom, Layout, atoms, filled, labels, quote, sql_type

BITS = 62
"""How many parts one number can tell of."""


@attrs.frozen
class Keys:
    """The columns of keys that lie in some layout: `{prefix}0`, `{prefix}1`, … and the bits `{prefix}_missing0`, …"""

    shape: Layout
    prefix: str

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, by which equal keys are equal."""
        return (*self._parts(), *self._bits())

    def _parts(self) -> list[str]:
        return [f"{self.prefix}{i}" for i, _ in enumerate(atoms(self.shape))]

    def _bits(self) -> list[str]:
        return [f"{self.prefix}_missing{i}" for i in range(-(-len(self._parts()) // BITS))]

    def columns(self, value: Layout) -> list[str]:
        """A key as the columns, in SQL."""
        parts = list(atoms(fit(value, self.shape)))
        named = [
            f"coalesce({part.sql}, {default_sql(part.type)}) AS {name}"
            for part, name in zip(parts, self._parts(), strict=True)
        ]
        for n, name in enumerate(self._bits()):
            told = enumerate(parts[n * BITS : (n + 1) * BITS])
            bits = " + ".join(f"if({part.sql} IS NULL, {1 << i}L, 0L)" for i, part in told)
            named.append(f"{bits} + {_unknown_zero(parts[0])} AS {name}")
        return named

    @property
    def value(self) -> Layout:
        """The key, read from the columns."""
        return filled(self.shape, self._read())

    def _read(self) -> Iterator[Atom]:
        bits = self._bits()
        for i, (part, name) in enumerate(zip(atoms(self.shape), self._parts(), strict=True)):
            present = f"({bits[i // BITS]} & {1 << i % BITS}L) = 0L"
            yield Atom(f"if({present}, {quote(name)}, NULL)", part.type)


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
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP):
            return f"{sql_type(t)}'1970-01-01'"
        case ty.Basic():
            return f"CAST(0 AS {sql_type(t)})"
        case ty.TupleType() | ty.RecordType():
            parts = ", ".join(default_sql(item) for _, item in labels(t))
            return f"CAST(struct({parts}) AS {sql_type(t)})"
        case _:
            return f"CAST(array() AS {sql_type(t)})"
