"""XML in Catalyst: kept as texts, and as VARIANTs while they are taken apart, like JSON values (`json_variant`).

The text of a value is that of recursive data (`algebra.values.xml_elements`): `{"Node":[tag,[[name,value]],[child]]}`
for an element, `{"CData":text}` for a text in one.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.json_variant import Template

NONE = "CAST(array() AS ARRAY<STRING>)"
TAG = "$.Node[0]"
ATTRIBUTES = "$.Node[1]"
CHILDREN = "$.Node[2]"
TEXT = "$.CData"


def _part(variant: str, path: str, kind: str = "string") -> str:
    return f"try_variant_get({variant}, '{path}', '{kind}')"


def _elements(of: Template) -> Template:
    """Extends a function from one element to a list, so that it also takes a list of elements."""

    def template(fresh: Fresh, t: Type, elements: str, *more: str) -> str:
        if t == ty.XML:
            return f"if({elements} IS NULL, NULL, {of(fresh, elements, *more)})"
        x, y = fresh("x"), fresh("x")
        present = f"filter({elements}, {y} -> {y} IS NOT NULL)"
        return f"flatten(transform({present}, {x} -> {of(fresh, x, *more)}))"

    return template


def _kept(fresh: Fresh, element: str, tag: str | None) -> str:
    """The children of an element that are elements, with a given tag or, for None, with any."""
    x, y = fresh("c"), fresh("c")
    wanted = f"{_part(x, '$.Node', 'array<variant>')} IS NOT NULL" if tag is None else f"{_part(x, TAG)} = {tag}"
    found = f"filter({_part(f'parse_json({element})', CHILDREN, 'array<variant>')}, {x} -> {wanted})"
    return f"coalesce(transform({found}, {y} -> to_json({y})), {NONE})"


def _children(fresh: Fresh, element: str, tag: str) -> str:
    return _kept(fresh, element, tag)


def _all_children(fresh: Fresh, element: str) -> str:
    return _kept(fresh, element, None)


def _pairs(element: str) -> str:
    """The attributes of an element, each its name and its value."""
    return _part(f"parse_json({element})", ATTRIBUTES, "array<array<string>>")


def _attributes(fresh: Fresh, element: str) -> str:
    x, y = fresh("c"), fresh("c")
    return f"coalesce(filter(transform({_pairs(element)}, {x} -> {x}[1]), {y} -> {y} IS NOT NULL), {NONE})"


def _attribute(fresh: Fresh, t: Type, elements: str, name: str) -> str:
    def one(element: str) -> str:
        x = fresh("c")
        return f"get(get(filter({_pairs(element)}, {x} -> {x}[0] = {name}), 0), 1)"

    if t == ty.XML:
        return one(elements)
    x, y = fresh("x"), fresh("x")
    return f"filter(transform({elements}, {x} -> {one(x)}), {y} -> {y} IS NOT NULL)"


def _text(fresh: Fresh, t: Type, elements: str) -> str:
    if t == ty.XML:
        return _own_text(fresh, elements)
    x, y = fresh("x"), fresh("x")
    texts = f"filter(transform({elements}, {x} -> {_own_text(fresh, x)}), {y} -> {y} <> '')"
    return f"array_join({texts}, ' ')"


def _own_text(fresh: Fresh, element: str) -> str:
    def own(v: str) -> str:
        x, y = fresh("x"), fresh("y")
        parts = f"coalesce({_part(v, CHILDREN, 'array<variant>')}, array({v}))"
        pieces = f"transform({parts}, {x} -> {_trimmed(_part(x, TEXT))})"
        return f"if({v} IS NULL, NULL, array_join(filter({pieces}, {y} -> {y} <> ''), ' '))"

    return let(fresh, f"parse_json({element})", own)


def _trimmed(text: str) -> str:
    return f"trim(BOTH {BLANKS} FROM {text})"


def _tag(fresh: Fresh, t: Type, element: str) -> str:
    return _part(f"parse_json({element})", TAG)


def _text_node(fresh: Fresh, t: Type, value: str) -> str:
    return text_json(value)


def text_json(value: str) -> str:
    """The text of a `CData`."""
    return f"concat('{{\"CData\":', {_quoted(value)}, '}}')"


def node_start(tag: str, attributes: str) -> str:
    """The text of a `Node` up to its children; its attributes are an array of texts, in their order."""
    return f"concat('{{\"Node\":[', {_quoted(tag)}, ',[', array_join({attributes}, ','), '],[')"


NODE_END = "']]}'"


def attribute_json(name: str, value: str) -> str:
    """An attribute as JSON."""
    return f"concat('[', {_quoted(name)}, ',', {_quoted(value)}, ']')"


def _quoted(value: str) -> str:
    return f"to_json(CAST({value} AS VARIANT))"


def _element(fresh: Fresh, t: Type, tag: str, names: str, values: str, parts: str) -> str:
    """An element; attributes and parts that are missing are left out, and so are texts of blanks alone."""
    n, v, a, b = fresh("n"), fresh("v"), fresh("a"), fresh("b")
    pairs = f"zip_with({names}, {values}, ({n}, {v}) -> named_struct('n', {n}, 'v', {v}))"
    given = f"sort_array(filter({pairs}, {a} -> {a}.v IS NOT NULL))"
    attributes = f"transform({given}, {b} -> {attribute_json(f'{b}.n', f'{b}.v')})"
    p = fresh("p")
    blank = f"startswith({p}, '{{\"CData\"') AND {_trimmed(_part(f'parse_json({p})', TEXT))} = ''"
    kept = f"filter({parts}, {p} -> {p} IS NOT NULL AND NOT ({blank}))"
    return f"concat({node_start(tag, attributes)}, array_join({kept}, ','), {NODE_END})"


BLANKS = "'" + "".join(f"\\u{code:04x}" for code in range(1, 33)) + "'"
"""The characters that Java's `trim` removes, in SQL; a text has no character 0."""

FUNCTIONS: dict[str, Template] = {
    "children": _elements(_children),
    "all_children": _elements(_all_children),
    "attribute": _attribute,
    "attributes": _elements(_attributes),
    "text": _text,
    "tag": _tag,
    "text_node": _text_node,
    "element": _element,
}
"""The functions on elements, each of the supply of names, the type of the first argument, and the arguments."""
