"""XML elements in Catalyst: texts outside, VARIANTs while they are taken apart, as JSON values (`json_variant`)."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.json_variant import Template, array, members


def _inside(element: str) -> str:
    """The content of an element as a VARIANT; a piece of text is its own."""
    return f"map_values({members(f'parse_json({element})')})[0]"


def _elements(of: Template) -> Template:
    """A function that gives a list for one element, for one or for a list of them."""

    def template(fresh: Fresh, t: Type, elements: str, *more: str) -> str:
        if t == ty.XML:
            return f"if({elements} IS NULL, NULL, {of(fresh, elements, *more)})"
        x, y = fresh("x"), fresh("x")
        present = f"filter({elements}, {y} -> {y} IS NOT NULL)"
        return f"flatten(transform({present}, {x} -> {of(fresh, x, *more)}))"

    return template


def _each(fresh: Fresh, tag: str, found: str) -> str:
    """What stands under a tag, one or several, as elements."""

    def one(v: str) -> str:
        y = fresh("y")
        items = f"coalesce({array(v)}, array({v}))"
        shown = f"concat('{{\"', {tag}, '\":', to_json({y}), '}}')"
        return f"if({v} IS NULL, CAST(array() AS ARRAY<STRING>), transform({items}, {y} -> {shown}))"

    return let(fresh, found, one)


def _children(fresh: Fresh, element: str, tag: str) -> str:
    return _each(fresh, tag, f"try_variant_get({_inside(element)}, concat('$[\"', {tag}, '\"]'), 'variant')")


def _entries(element: str) -> str:
    return f"map_entries({members(_inside(element))})"


def _all_children(fresh: Fresh, element: str) -> str:
    x, e = fresh("c"), fresh("c")
    kept = f"filter({_entries(element)}, {x} -> NOT startswith({x}.key, '@') AND NOT startswith({x}.key, '#'))"
    inside = f"flatten(transform({kept}, {e} -> {_each(fresh, f'{e}.key', f'{e}.value')}))"
    return f"coalesce({inside}, CAST(array() AS ARRAY<STRING>))"


def _attributes(fresh: Fresh, element: str) -> str:
    x, e = fresh("c"), fresh("c")
    kept = f"filter({_entries(element)}, {x} -> startswith({x}.key, '@'))"
    values = f"transform({kept}, {e} -> try_variant_get({e}.value, '$', 'string'))"
    return f"coalesce({values}, CAST(array() AS ARRAY<STRING>))"


def _attribute(fresh: Fresh, t: Type, elements: str, name: str) -> str:
    def one(element: str) -> str:
        return f"try_variant_get({_inside(element)}, concat('$[\"@', {name}, '\"]'), 'string')"

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
    def inside(v: str) -> str:
        piece = f"try_variant_get({v}, '$[\"#text\"]', 'variant')"
        pieces = f"try_variant_get({piece}, '$', 'array<string>')"
        several = f"coalesce(array_join({pieces}, ' '), try_variant_get({piece}, '$', 'string'), '')"
        return f"if({members(v)} IS NULL, coalesce(try_variant_get({v}, '$', 'string'), ''), {several})"

    def own(e: str) -> str:
        content = f"if(startswith({e}, '\"'), parse_json({e}), {_inside(e)})"
        return f"if({e} IS NULL, NULL, {let(fresh, content, inside)})"

    return let(fresh, element, own)


def _tag(fresh: Fresh, t: Type, element: str) -> str:
    return f"map_keys({members(f'parse_json({element})')})[0]"


def _text_node(fresh: Fresh, t: Type, value: str) -> str:
    return f"to_json(CAST({value} AS VARIANT))"


def _element(fresh: Fresh, t: Type, tag: str, names: str, values: str, parts: str) -> str:
    """The object of an element, put together as text; `parse_json` brings its keys into their order."""
    return let(fresh, parts, lambda p: _whole(fresh, tag, names, values, p))


def _whole(fresh: Fresh, tag: str, names: str, values: str, parts: str) -> str:
    n, v, a = fresh("n"), fresh("v"), fresh("a")
    shown = f"if({v} IS NULL, NULL, concat('\"@', {n}, '\":', to_json(CAST({v} AS VARIANT))))"
    given = f"filter(zip_with({names}, {values}, ({n}, {v}) -> {shown}), {a} -> {a} IS NOT NULL)"
    given = f"CAST({given} AS ARRAY<STRING>)"
    p, q, r, s = (fresh("p") for _ in range(4))
    trimmed = f"trim(BOTH {BLANKS} FROM try_variant_get(parse_json({q}), '$', 'string'))"
    texts = f"transform(filter({parts}, {p} -> startswith({p}, '\"')), {q} -> {trimmed})"
    texts = f"transform(filter({texts}, {r} -> {r} <> ''), {s} -> to_json(CAST({s} AS VARIANT)))"
    c, d = fresh("c"), fresh("c")
    children = (
        f"transform(filter({parts}, {c} -> startswith({c}, '{{')), "
        f"{d} -> struct(map_keys({members(f'parse_json({d})')})[0] AS k, to_json({_inside(d)}) AS v))"
    )

    def grouped(found: str) -> str:
        k, e, g = fresh("k"), fresh("e"), fresh("g")
        own = f"transform(filter({found}, {e} -> {e}.k = {k}), {g} -> {g}.v)"
        x = fresh("x")
        keys = f"array_distinct(transform({found}, {x} -> {x}.k))"
        return f"transform({keys}, {k} -> concat('\"', {k}, '\":', {_one_or_all(fresh, own)}))"

    def content(text: str) -> str:
        shown = f"array(concat('\"#text\":', {_one_or_all(fresh, text)}))"
        own = f"if(size({text}) = 0, CAST(array() AS ARRAY<STRING>), {shown})"
        members_ = f"concat({given}, {own}, {let(fresh, children, grouped)})"

        def written(m: str) -> str:
            only_text = f"size({m}) = 1 AND size({text}) = 1"
            whole = f"concat('{{', array_join({m}, ','), '}}')"
            return f"CASE WHEN size({m}) = 0 THEN 'null' WHEN {only_text} THEN {text}[0] ELSE {whole} END"

        return let(fresh, members_, written)

    inside = let(fresh, texts, content)
    return f"to_json(parse_json(concat('{{\"', {tag}, '\":', {inside}, '}}')))"


def _one_or_all(fresh: Fresh, items: str) -> str:
    return let(fresh, items, lambda i: f"if(size({i}) = 1, {i}[0], concat('[', array_join({i}, ','), ']'))")


BLANKS = "'" + "".join(f"\\u{code:04x}" for code in range(1, 33)) + "'"
"""What Java's `trim` takes away, in SQL; a text has no character 0."""

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
"""The functions on elements, over the supply of names, the type of the first argument, and the arguments."""
