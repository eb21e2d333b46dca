"""XML elements: how they are held as JSON, and how they are taken apart and made.

An element of type `XML` is the object `{"tag": content}`; its content is null where it is empty, a string where it is
text, and otherwise an object of its attributes (`@name`), its children by their tag (several of one tag as an array, in
their order) and its own text (`#text`, several pieces as an array). That is what Spark makes of XML with its own
reader, written with `to_json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mrql.algebra.values.json_text import Json, content, quoted, write
from mrql.algebra.values.values import Document, Element, Value

ATTRIBUTE = "@"
TEXT = "#text"


def _inside(element: Document) -> tuple[str | None, Json]:
    """The tag of an element and its content; a text by itself has no tag."""
    found = content(element)
    return next(iter(found.items())) if isinstance(found, dict) else (None, found)


def _parts(element: Document) -> Mapping[str, Json]:
    _, inside = _inside(element)
    return inside if isinstance(inside, dict) else {}


def _each(tag: str, found: Json) -> list[Value]:
    return [Element(write({tag: item})) for item in (found if isinstance(found, list) else [found])]


def children(element: Document, tag: str) -> list[Value]:
    """`e.tag`: the children with this tag, in their order."""
    parts = _parts(element)
    return _each(tag, parts[tag]) if tag in parts else []


def all_children(element: Document) -> list[Value]:
    """`e.*`: the children by their tags, and those of one tag in their order."""
    return [child for tag, found in _parts(element).items() if tag[0] not in "@#" for child in _each(tag, found)]


def attribute(element: Document, name: str) -> Value:
    """`e.@a`: missing where there is none."""
    return _parts(element).get(ATTRIBUTE + name)


def attributes(element: Document) -> list[Value]:
    """`e.@*`: the values of all attributes, in the order of their names."""
    return [value for key, value in _parts(element).items() if key.startswith(ATTRIBUTE)]


def text(element: Document) -> str:
    """`text(e)`: the element's own text, its pieces with a blank between them."""
    _, inside = _inside(element)
    found = inside.get(TEXT) if isinstance(inside, dict) else inside
    return " ".join(found) if isinstance(found, list) else found or ""


def tag(element: Document) -> Value:
    """`tag(e)`: the name of an element."""
    return _inside(element)[0]


def text_node(value: str) -> Element:
    """A piece of text as a part of an element."""
    return Element(quoted(value))


def element(name: str, names: Sequence[str], values: Sequence[Value], parts: Iterable[Value]) -> Element:
    """`[xml| <name …>…</name> |]`; attributes and parts that are missing are left out."""
    given = {ATTRIBUTE + key: value for key, value in zip(names, values, strict=True) if value is not None}
    inside = [content(part) for part in parts if part is not None]
    return Element(write({name: made(given, [p if isinstance(p, str) else next(iter(p.items())) for p in inside])}))


def made(attributes: Mapping[str, str], parts: Iterable[str | tuple[str, Json]]) -> Json:
    """The content of an element with these attributes, children and pieces of text, which are trimmed."""
    found: dict[str, list[Json]] = {}
    for part in parts:
        if isinstance(part, str):
            if trimmed := part.strip(BLANKS):
                found.setdefault(TEXT, []).append(trimmed)
        else:
            found.setdefault(part[0], []).append(part[1])
    whole = {**attributes, **{key: items[0] if len(items) == 1 else items for key, items in found.items()}}
    if not whole:
        return None
    return whole[TEXT] if list(whole) == [TEXT] and isinstance(whole[TEXT], str) else whole


BLANKS = "".join(map(chr, range(33)))
"""What Java's `trim` takes away."""


def to_xml(element: Document) -> str:
    """An element as XML, for people to read; children stand in the order of their tags."""
    name, inside = _inside(element)
    return _escaped(inside or "") if name is None else _written(name, inside)


def _written(name: str, inside: Json) -> str:
    parts = inside if isinstance(inside, dict) else {TEXT: inside} if inside is not None else {}
    shown = "".join(f' {key[1:]}="{_escaped(value)}"' for key, value in parts.items() if key.startswith(ATTRIBUTE))
    body = []
    for key, found in parts.items():
        items = found if isinstance(found, list) else [found]
        if key == TEXT:
            body.append(" ".join(map(_escaped, items)))
        elif not key.startswith(ATTRIBUTE):
            body += [_written(key, item) for item in items]
    return f"<{name}{shown}>{''.join(body)}</{name}>" if body else f"<{name}{shown}/>"


def _escaped(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
