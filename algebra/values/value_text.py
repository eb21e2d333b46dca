"""Values as the language writes them, in full or abbreviated."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from itertools import islice

from mrql.algebra.showable import escaped, numbered, written_name
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.data import Element
from mrql.algebra.values.values import Bag, Document, Record, Value
from mrql.algebra.values.xml_elements import to_xml

TRACED_MAX_ELEMENTS = 20
"""The number of elements that are shown of a collection in a trace."""


def show_value(value: Value) -> str:
    """A value as the language writes it; dates and timestamps as if cast to strings."""
    match value:
        case None:
            return "null"
        case str():
            return numbered(json.dumps(value, ensure_ascii=False))
        case bool() | int() | float() | Decimal() | date():
            return show_atom(value)
        case bytes():
            return f'unhex("{value.hex().upper()}")'
        case Element():
            return escaped(to_xml(value), "\n\t")
        case Document():
            return numbered(value.text)
        case tuple():
            return f"({', '.join(map(show_value, value))})"
        case Record():
            return f"<{', '.join(f'{written_name(name)}: {show_value(item)}' for name, item in value.fields.items())}>"
        case Bag():
            return f"{{{', '.join(map(show_value, value))}}}"
        case list():
            return f"[{', '.join(map(show_value, value))}]"
        case _:
            return str(value)


def show_beginning(value: Value, most: int = TRACED_MAX_ELEMENTS) -> str:
    """A value; of a collection with more than `most` elements, the first ones.

    >>> show_beginning([1, 2, 3], 2)
    '[1, 2, …]'
    """
    if not isinstance(value, Bag | list) or len(value) <= most:
        return show_value(value)
    shown = ", ".join(map(show_value, islice(value, most)))
    return f"{{{shown}, …}}" if isinstance(value, Bag) else f"[{shown}, …]"
