"""Values as JSON that reads back: the form in which the reference engine writes states.

Numbers with a fraction are written so that the same number is read; what JSON has no form for is an object with a tag.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from mrql.algebra.values.data import Data, Element
from mrql.algebra.values.exact_sums import Total
from mrql.algebra.values.values import Bag, Document, Record, Value


def to_plain(value: Value) -> Any:
    """A value as JSON.

    >>> to_plain((1, 0.5, Bag(["a"]), None))
    {'t': [1, {'f': '0.5'}, {'b': ['a']}, None]}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"f": repr(value)}
        case Decimal():
            return {"n": str(value)}
        case tuple():
            return {"t": [to_plain(item) for item in value]}
        case Record():
            return {"r": [[name, to_plain(item)] for name, item in value.fields.items()]}
        case list():
            return {"l": [to_plain(item) for item in value]}
        case Bag():
            return {"b": [to_plain(item) for item in value]}
        case datetime():
            return {"m": value.isoformat()}
        case date():
            return {"d": value.isoformat()}
        case bytes():
            return {"h": value.hex()}
        case Total():
            return {"s": [f"{value.exact:x}", value.plus, value.minus]}
        case Element():
            return {"x": value.text}
        case Data():
            return {"c": value.text}
        case Document():
            return {"j": value.text}
        case _:
            raise TypeError(f"not a value of the language: {value!r}")


def from_plain(plain: Any) -> Value:
    """The value that `to_plain` has written.

    >>> from_plain(to_plain(Record({"A": [1.5, float("inf")]})))
    <A: [1.5, inf]>
    """
    if not isinstance(plain, dict):
        return plain
    ((tag, content),) = plain.items()
    match tag:
        case "f":
            return float(content)
        case "n":
            return Decimal(content)
        case "t":
            return tuple(map(from_plain, content))
        case "r":
            return Record({name: from_plain(item) for name, item in content})
        case "l":
            return [from_plain(item) for item in content]
        case "b":
            return Bag(map(from_plain, content))
        case "m":
            return datetime.fromisoformat(content)
        case "d":
            return date.fromisoformat(content)
        case "h":
            return bytes.fromhex(content)
        case "c":
            return Data(content)
        case "s":
            return Total(int(content[0], 16), *content[1:])
        case "x":
            return Element(content)
        case "j":
            return Document(content)
        case _:
            raise ValueError(f"no value has the tag {tag!r}")
