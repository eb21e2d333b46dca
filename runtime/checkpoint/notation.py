"""Terms, types, monoids and plain values as text, of which the identities of states are digests.

The text uses the names that are listed here, not those of the code: a class, a field or a module can be renamed without
a change of the digests. A name here never changes, and a class that occurs in a digest and is not here is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs

from mrql.algebra import catalog
from mrql.algebra import functions as fn
from mrql.algebra import monoids as mo
from mrql.algebra import terms as t
from mrql.algebra import types as ty
from mrql.algebra.envelope import Envelope
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.python_functions import Callee, Imported
from mrql.algebra.evaluation.recursive_functions import PythonFunction, Recursive
from mrql.algebra.functions.recursive_data import Folding
from mrql.algebra.functions.signatures import Exact
from mrql.algebra.row_key import RowKey
from mrql.algebra.values.values import Bag, Document, Record


@attrs.frozen
class Named:
    """How the values of a class are written: a name, and the fields that identify a value."""

    name: str
    fields: Mapping[str, str]
    """The attributes, by the names under which they are written."""


def _named(name: str, *fields: str, **attributes: str) -> Named:
    return Named(name, {**{field: field for field in fields}, **attributes})


CLASSES: Mapping[type, Named] = {
    # types
    ty.Basic: _named("Basic", "kind", "name"),
    ty.DecimalType: _named("DecimalType", "precision", "scale"),
    ty.Nothing: _named("Nothing"),
    ty.TupleType: _named("TupleType", "items"),
    ty.RecordType: _named("RecordType", "fields"),
    ty.BagType: _named("BagType", "item"),
    ty.ListType: _named("ListType", "item"),
    # patterns
    t.PVar: _named("PVar", "name", "type"),
    t.PTuple: _named("PTuple", "items"),
    t.PAny: _named("PAny", "type"),
    # scalar terms
    t.Lambda: _named("Lambda", "param", "body"),
    t.Var: _named("Var", "name", "type"),
    t.Lit: _named("Lit", "value", "type"),
    t.Tup: _named("Tup", "items"),
    t.Rec: _named("Rec", "fields"),
    t.Nth: _named("Nth", "term", "index"),
    t.Get: _named("Get", "term", "name"),
    t.Prim: _named("Prim", "function", "args"),
    t.Cast: _named("Cast", "term", "type"),
    t.If: _named("If", "condition", "then", "otherwise"),
    t.Let: _named("Let", "pattern", "value", "body"),
    # collections
    t.Empty: _named("Empty", "type"),
    t.Single: _named("Single", "item"),
    t.ListOf: _named("ListOf", "items"),
    t.Union: _named("Union", "left", "right"),
    t.Stream: _named("Stream", "name", "type", "static"),
    t.CMap: _named("CMap", "function", "source"),
    t.GroupBy: _named("GroupBy", "source"),
    t.CoGroup: _named("CoGroup", "left", "right"),
    t.Reduce: _named("Reduce", "monoid", "source"),
    t.OrderBy: _named("OrderBy", "source", "descending"),
    t.Take: _named("Take", "count", "source"),
    t.Repeat: _named(
        "Repeat",
        "function",
        "source",
        "limit",
        "condition",
        "most",
    ),
    # monoids
    mo.Aggregate: _named("Aggregate", "op"),
    mo.BagUnion: _named("BagUnion"),
    mo.ListAppend: _named("ListAppend"),
    mo.ProductMonoid: _named("ProductMonoid", "items"),
    mo.Keyed: _named("Keyed", "value"),
    mo.Invariant: _named("Invariant"),
    mo.Fold: _named("Fold", "name", "combine", "zero", "type"),
    # functions; the bodies of a query's own functions have digests of their own
    fn.Function: _named("Function", "name"),
    PythonFunction: _named("PythonFunction", "name"),
    Recursive: _named("Recursive", "name"),
    Imported: _named("Imported", "name", "callee", "signature"),
    Callee: _named("Callee", "module", "attribute", "directory"),
    Exact: _named("Exact", "params", "result"),
    Folding: _named("Folding", "name", "data", "record", "makes"),
    # sources
    catalog.Column: _named("Column", "name", "type"),
    RowKey: _named("RowKey", "fields", "version"),
    Envelope: _named("Envelope", "name"),
}
"""The classes that occur in digests."""

ENUMS: Mapping[type[Enum], str] = {ty.Kind: "Kind"}
"""The enumerations that occur in digests."""


SOURCE: Mapping[str, tuple[str, Any]] = {
    **{name: (name, ...) for name in ("name", "stream", "format", "path", "row")},
    "columns": ("columns", ()),
    "delimiter": ("delimiter", ","),
    **{name: (name, False) for name in ("header", "missing_columns", "no_new_columns", "multiline", "surplus")},
    "truncate_timestamps": ("truncate_timestamps", False),
    **{name: (name, False) for name in ("as_utf8", "ends_in_blanks", "whole")},
    "tags": ("tags", ()),
    "deletions": ("deletions", None),
    "tagged": ("tagged", False),
    "adapter": ("adapter", None),
    "key": ("key", None),
    "changes": ("changes", None),
    "version": ("version", None),
    "quote": ("texts.quote", '"'),
    "escape": ("texts.escape", None),
    "null_values": ("texts.null_values", ()),
    "comment": ("texts.comment", None),
    "date_format": ("texts.date_format", None),
    "timestamp_format": ("texts.timestamp_format", None),
    "date_formats": ("texts.date_formats", ()),
    "timestamp_formats": ("texts.timestamp_formats", ()),
    "locale": ("texts.locale", None),
}
"""The fields of a source: for each, its attribute and the value for which it is not written, so that a new option of
sources does not change identities."""

CONNECTORS: Mapping[str | None, str] = {
    "postgresql": "mrql.postgresql.source:PostgresTable",
    "socket": "mrql.runtime.socket:SocketLines",
}
"""The written forms of the connectors of the package: the modules that they were in at first."""


def connector(adapter: str | None) -> str | None:
    """The written form of an adapter."""
    return CONNECTORS.get(adapter, adapter)


def written(value: Any) -> str:
    """A term, type, monoid, or value in them as text.

    >>> written(ty.BagType(ty.LONG))
    "BagType(item=Basic(kind=<Kind.LONG: 'long'>, name=None))"
    """
    named = CLASSES.get(type(value))
    if named is not None:
        fields = (f"{name}={written(getattr(value, attribute))}" for name, attribute in named.fields.items())
        return f"{named.name}({', '.join(fields)})"
    match value:
        case mo.Op():  # an enumeration at first
            return f"<Op.{value.name}: {value.sign!r}>"
        case Enum() if type(value) in ENUMS:
            return f"<{ENUMS[type(value)]}.{value.name}: {value.value!r}>"
        case catalog.Format(name):
            return f"<Format.{name.upper()}: {name!r}>"  # as of an enumeration, which formats were at first
        case None | bool() | int() | float() | Decimal() | str() | date() | bytes():
            return repr(value)
        case Document():
            return value.text
        case tuple():
            return f"({', '.join(map(written, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(written, value))}]"
        case Bag():
            return f"Bag([{', '.join(map(written, value.items))}])"
        case Record():
            return f"<{', '.join(f'{name}: {written(item)}' for name, item in value.fields.items())}>"
        case _:
            raise InternalError("digests", f"nothing says how a {type(value).__name__} is written")
