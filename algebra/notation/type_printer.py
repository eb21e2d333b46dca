"""Types and monoids as text, which `parse_type` and `parse_monoid` read back."""

from __future__ import annotations

from typing import assert_never

from mrql.algebra import types as ty
from mrql.algebra.monoids import OPS, Fold, Monoid
from mrql.algebra.notation.names import show_name, show_string
from mrql.algebra.types import Type


def show_type(t: Type, *, left_out: bool = False) -> str:
    """A type, with the names of fields quoted where necessary; with `left_out`, also the fields that records leave out.

    >>> row = ty.RecordType((("a", ty.LONG),), left_out=(("b", "binary"),))
    >>> print(show_type(row), show_type(row, left_out=True))
    <a: long> <a: long; b: "binary">
    """

    def shown(part: Type) -> str:
        return show_type(part, left_out=left_out)

    match t:
        case ty.TupleType(items):
            return f"({', '.join(map(shown, items))})"
        case ty.RecordType(fields, left_out=gone):
            kept = ", ".join(f"{show_name(name)}: {shown(item)}" for name, item in fields)
            others = ", ".join(f"{show_name(name)}: {show_string(called)}" for name, called in gone)
            return f"<{kept}; {others}>" if left_out and others else f"<{kept}>"
        case ty.BagType(item):
            return f"{{{shown(item)}}}"
        case ty.ListType(item):
            return f"[{shown(item)}]"
        case ty.Basic() | ty.Nothing():
            return str(t)
        case _:
            assert_never(t)


def show_monoid(m: Monoid) -> str:
    """A monoid: `+`, `⇑⊎`, `(+ × min)`; one that a query has defined, by its name."""
    if not isinstance(m, Fold):
        return str(m)
    return f"`{m.name}`" if m.name in OPS else show_name(m.name)
