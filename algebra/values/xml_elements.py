"""XML as data, as MRQL has it:

    data XML = Node: (string, {(string, string)}, [XML]) | CData: string

An element is a `Node` of its tag, its attributes, each a name and a value, and its children in the order of the
document, including its texts, which are `CData`. Texts of blanks alone are left out.
*Source*: the data type of Apache MRQL, and [MRQL] §3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mrql.algebra import types as ty
from mrql.algebra.values.data import TAG, Data, Element
from mrql.algebra.values.json_text import Json, content, quoted
from mrql.algebra.values.values import Document, Value, canonical

NODE = "Node"
CDATA = "CData"
PARTS = ty.TupleType((ty.STRING, ty.BagType(ty.TupleType((ty.STRING, ty.STRING))), ty.ListType(ty.XML)))
"""The type of the parts of a `Node`."""
UNION = ty.RecordType(((TAG, ty.STRING), (NODE, PARTS), (CDATA, ty.STRING)))
"""The type of the record with the constructor and the parts of an element (`functions.recursive_data`)."""


def _node(element: Document) -> tuple[str | None, list[Json], list[Json]]:
    """The tag, the attributes and the children of an element; a text has none of them."""
    return _parts(content(element))


def _parts(found: Json) -> tuple[str | None, list[Json], list[Json]]:
    tag, attributes, children = found.get(NODE) or (None, None, None)
    return tag, [pair for pair in attributes or [] if pair is not None], [c for c in children or [] if c is not None]


def children(element: Document, tag: str) -> list[Value]:
    """`e.tag`: the children with this tag, in their order."""
    return [Element.of_json(child) for child in _node(element)[2] if child.get(NODE) and child[NODE][0] == tag]


def all_children(element: Document) -> list[Value]:
    """`e.*`: the children that are elements, in their order."""
    return [Element.of_json(child) for child in _node(element)[2] if child.get(NODE)]


def attribute(element: Document, name: str) -> Value:
    """`e.@a`: the value of an attribute; missing if there is none."""
    return next((value for key, value in _node(element)[1] if key == name), None)


def attributes(element: Document) -> list[Value]:
    """`e.@*`: the values of all attributes, in the order of their names."""
    return [value for _, value in _node(element)[1] if value is not None]


def text(element: Document) -> str:
    """`text(e)`: the pieces of the element's own text, joined by blanks; for a text, the text itself."""
    found = content(element)
    pieces = [child.get(CDATA) for child in (_parts(found)[2] if NODE in found else [found])]
    return " ".join(trimmed for piece in pieces if (trimmed := (piece or "").strip(BLANKS)))


def tag(element: Document) -> Value:
    """`tag(e)`: the name of an element; a text has none."""
    return _node(element)[0]


def text_node(value: str) -> Element:
    """A piece of text as a part of an element."""
    return Element(text_json(value))


def element(name: str, names: Sequence[str], values: Sequence[Value], parts: Iterable[Data]) -> Element:
    """`[xml| <name …>…</name> |]`; missing attributes and parts are left out, and so are texts of blanks alone."""
    given = [(key, value) for key, value in zip(names, values, strict=True) if value is not None]
    return Element(node_json(name, given, [part.text for part in parts if part is not None and not _is_blank(part)]))


def _is_blank(part: Document) -> bool:
    found = content(part)
    return CDATA in found and not (found[CDATA] or "").strip(BLANKS)


def text_json(value: str) -> str:
    """The text of a `CData`."""
    return f'{{"{CDATA}":{quoted(value)}}}'


def node_json(name: str, attributes: Iterable[tuple[str, str]], children: Iterable[str]) -> str:
    """The text of a `Node`, given the texts of its children."""
    given = ",".join(f"[{quoted(key)},{quoted(value)}]" for key, value in sorted(attributes, key=canonical))
    return f'{{"{NODE}":[{quoted(name)},[{given}],[{",".join(children)}]]}}'


BLANKS = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""


def to_xml(element: Document) -> str:
    """An element as XML, for display."""
    return _written(content(element))


def _written(found: Json) -> str:
    if NODE not in found:
        return _escaped(found.get(CDATA) or "")
    name, attributes, children = _parts(found)
    shown = "".join(f' {key}="{_escaped(value or "")}"' for key, value in attributes)
    body = "".join(map(_written, children))
    return f"<{name or ''}{shown}>{body}</{name or ''}>" if body else f"<{name or ''}{shown}/>"


def _escaped(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
