"""JSON values and XML elements in Catalyst: texts outside, VARIANTs while they are taken apart.

A VARIANT cannot be compared, grouped, sorted or made a key, so a value of type `any` or `XML` lies in its column as its
canonical text (`algebra.documents`), which `to_json` makes of a VARIANT. What takes it apart reads the text with
`parse_json`, follows a whole path, and casts or writes only what it leads to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mrql.algebra import types as ty
from mrql.algebra.documents import NOT_FINITE
from mrql.algebra.errors import InternalError
from mrql.algebra.functions.conversion import NUMBER_TEXT
from mrql.algebra.types import Type
from mrql.runtime.layout import labels, sql_type
from mrql.runtime.times import is_time, time_of


class Fresh(Protocol):
    """A supply of names for lambda variables."""

    def __call__(self, base: str = ..., /) -> str: ...


Template = Callable[..., str]


def let(fresh: Fresh, value: str, body: Callable[[str], str]) -> str:
    """An expression that names a value which it uses more than once."""
    x = fresh("v")
    return f"transform(array({value}), {x} -> {body(x)})[0]"


def path(*steps: str | int) -> str:
    """A path to a member or an element, as `variant_get` takes it.

    >>> print(path(0, "b c"))
    '$[0]["b c"]'
    """
    if any(isinstance(step, str) and ('"' in step or "\\" in step) for step in steps):
        raise InternalError("variants", f"no path leads to {steps}")
    written = "".join(f"[{step}]" if isinstance(step, int) else f'["{step}"]' for step in steps).replace("'", "\\'")
    return f"'${written}'"


def member(variant: str, name: str) -> str:
    """A member as a VARIANT: null where there is none."""
    return f"try_variant_get({variant}, {path(name)}, 'variant')"


def text(variant: str) -> str:
    """The text of a part of a value that is canonical."""
    return f"nullif(to_json({variant}), 'null')"


def canonical_text(variant: str, fresh: Fresh) -> str:
    """The text of a VARIANT that has just been read: `1e0` is a double, written `1.0`, which would be read as `1`."""
    return let(fresh, text(variant), lambda t: rf"if({t} RLIKE '\\.0([,}}\\]]|$)', {text(f'parse_json({t})')}, {t})")


def is_null(variant: str) -> str:
    return f"({variant} IS NULL OR is_variant_null({variant}))"


def array(variant: str) -> str:
    """The elements of an array; null where it is none."""
    return f"try_variant_get({variant}, '$', 'array<variant>')"


def is_object(variant: str) -> str:
    return f"(try_variant_get({variant}, '$', 'struct<mrql: variant>') IS NOT NULL)"


def members(variant: str) -> str:
    """The members of an object as a map; null where it is none."""
    return f"try_variant_get({variant}, '$', 'map<string,variant>')"


# --- casts --------------------------------------------------------------------------------------


def taken_as(variant: str, t: Type, at: str, fresh: Fresh) -> str:
    """`e as t`; an error that names the value where it is none of the type."""
    return let(fresh, variant, lambda v: _taken(v, t, at, fresh))


def _taken(v: str, t: Type, at: str, fresh: Fresh) -> str:
    match t:
        case ty.Basic(ty.Kind.ANY):
            return text(v)
        case ty.Basic(ty.Kind.STRING):
            return f"try_variant_get({v}, '$', 'string')"
    failed = f"raise_error(concat('{at}', to_json({v}), ' is not a value of type {_escaped(str(t))}'))"
    otherwise = f"if({is_null(v)}, NULL, {failed})"
    match t:
        case ty.Basic(ty.Kind.BOOL):
            shown = f"lower(trim(try_variant_get({v}, '$', 'string')))"
            return f"CASE {shown} WHEN 'true' THEN true WHEN 'false' THEN false ELSE {otherwise} END"
        case ty.DATE | ty.TIMESTAMP:
            return f"coalesce({_time(v, t, fresh)}, {otherwise})"
        case ty.Basic():
            number = f"try_variant_get({v}, '$', '{sql_type(t).lower()}')"
            wrong = f"schema_of_variant({v}) = 'BOOLEAN'"
            if t in (ty.FLOAT, ty.DOUBLE):
                # Spark takes more texts for a number than the language does.
                string = f"try_variant_get({v}, '$', 'string')"
                wrong += f" OR (schema_of_variant({v}) = 'STRING' AND NOT {is_number_sql(string)})"
            return f"coalesce(if({wrong}, NULL, {number}), {otherwise})"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            return f"transform(coalesce({array(v)}, {otherwise}), {x} -> {_taken(x, item, at, fresh)})"
        case ty.RecordType(fields):
            parts = (f"'{_escaped(name)}', {taken_as(member(v, name), item, at, fresh)}" for name, item in fields)
            return f"CASE WHEN NOT {is_object(v)} THEN {otherwise} ELSE named_struct({', '.join(parts)}) END"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def is_number_sql(text: str) -> str:
    """Whether a string is a number as the language writes it; Spark takes more for one."""
    return f"{text} RLIKE '^\\\\s*({NUMBER_TEXT})\\\\s*\\\\z'"


def of_value(sql: str, t: Type, fresh: Fresh) -> str:
    """A value as the text of a JSON value."""
    return let(fresh, sql, lambda x: f"if({x} IS NULL, NULL, to_json({_variant(x, t, fresh)}))")


def _variant(x: str, t: Type, fresh: Fresh) -> str:
    match t:
        case ty.Basic(ty.Kind.ANY):
            return f"parse_json({x})"
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT):
            # Written like the number that stands in a text, so that 0.5 is equal to 0.5.
            double = f"CAST({x} AS DOUBLE)"
            plain = f"CAST(CAST(CAST({double} AS STRING) AS DECIMAL(38, 19)) AS VARIANT)"
            return (
                f"if({double} = 0 OR (abs({double}) >= 1e-3D AND abs({double}) < 1e15D), {plain}, "
                f"CAST({double} AS VARIANT))"
            )
        case ty.DATE | ty.TIMESTAMP:
            return f"CAST(CAST({x} AS STRING) AS VARIANT)"
        case ty.Basic() | ty.Nothing():
            return f"CAST({x} AS VARIANT)"
        case ty.RecordType(()):
            return "parse_json('{}')"
        case ty.RecordType(fields):
            parts = (f"'{_escaped(name)}', {_variant(f'{x}.`{name}`', item, fresh)}" for name, item in fields)
            return f"if({x} IS NULL, NULL, to_variant_object(named_struct({', '.join(parts)})))"
        case ty.BagType(item) | ty.ListType(item):
            e = fresh("e")
            items = f"sort_array({x})" if isinstance(t, ty.BagType) else x
            return f"if({x} IS NULL, NULL, to_variant_object(transform({items}, {e} -> {_variant(e, item, fresh)})))"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def as_variants(sql: str, t: Type, fresh: Fresh) -> str:
    """A value with the JSON values and elements in it as VARIANTs, which Spark writes as what they are."""
    if not any(part in (ty.ANY, ty.XML) for part in ty.walk(t)):
        return sql
    match t:
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("o")
            return f"transform({sql}, {x} -> {as_variants(x, item, fresh)})"
        case ty.TupleType() | ty.RecordType():

            def struct(v: str) -> str:
                parts = (f"'{_escaped(name)}', {as_variants(f'{v}.`{name}`', item, fresh)}" for name, item in labels(t))
                return f"if({v} IS NULL, NULL, named_struct({', '.join(parts)}))"

            return let(fresh, sql, struct)
        case _:
            return f"parse_json({sql})"


# --- rows of JSON files -------------------------------------------------------------------------


def _time(variant: str, t: Type, fresh: Fresh) -> str:
    """A string as a date or timestamp; missing where it is none."""
    return let(fresh, f"try_variant_get({variant}, '$', 'string')", lambda text: time_of(text, t))


def held(variant: str, t: Type, fresh: Fresh) -> str:
    """A VARIANT that fits a declared type, as a value of it."""
    match t:
        case ty.Basic(ty.Kind.ANY):
            return canonical_text(variant, fresh)
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP):
            return _time(variant, t, fresh)
        case ty.Basic():
            return f"try_variant_get({variant}, '$', '{sql_type(t).lower()}')"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            return f"transform({array(variant)}, {x} -> {held(x, item, fresh)})"
        case ty.RecordType(fields):

            def struct(v: str) -> str:
                parts = (f"'{_escaped(name)}', {held(member(v, name), item, fresh)}" for name, item in fields)
                made = f"named_struct({', '.join(parts)})" if fields else "true"
                return f"if({is_null(v)}, NULL, {made})"

            return let(fresh, variant, struct)
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def unfit(variant: str, t: Type, fresh: Fresh) -> str:
    """Whether a VARIANT, a column or a lambda variable, does not fit a declared type; null, or not there, fits any."""
    match t:
        case ty.Basic(ty.Kind.ANY | ty.Kind.STRING):
            return "false"
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP):
            return f"(NOT {is_null(variant)} AND {_time(variant, t, fresh)} IS NULL)"
        case ty.Basic(kind):
            return f"coalesce(NOT ({_of_kind(variant, kind)}), false)"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            inside = f"coalesce(exists({array(variant)}, {x} -> {unfit(x, item, fresh)}), true)"
            return f"(NOT {is_null(variant)} AND {inside})"
        case ty.RecordType(fields):
            parts = [_unfit_member(variant, name, item, fresh) for name, item in fields]
            return f"(NOT {is_null(variant)} AND ({' OR '.join([f'NOT {is_object(variant)}', *parts])}))"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def _unfit_member(variant: str, name: str, t: Type, fresh: Fresh) -> str:
    if isinstance(t, ty.Basic) and t != ty.INT and not is_time(t):
        return unfit(member(variant, name), t, fresh)
    return let(fresh, member(variant, name), lambda m: unfit(m, t, fresh))


def _of_kind(variant: str, kind: ty.Kind) -> str:
    found = f"schema_of_variant({variant})"
    match kind:
        case ty.Kind.BOOL:
            return f"{found} IN ('VOID', 'BOOLEAN')"
        case ty.Kind.INT:
            fits = f"try_variant_get({variant}, '$', 'int') IS NOT NULL"
            return f"{found} = 'VOID' OR ({found} = 'BIGINT' AND {fits})"
        case ty.Kind.LONG:
            return f"{found} IN ('VOID', 'BIGINT')"
        case _:
            named = f"try_variant_get({variant}, '$', 'string') IN ({', '.join(map(repr, NOT_FINITE))})"
            numbers = f"{found} IN ('VOID', 'BIGINT', 'DOUBLE') OR {found} LIKE 'DECIMAL%'"
            return f"{numbers} OR ({found} = 'STRING' AND {named})"


# --- XML ----------------------------------------------------------------------------------------


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
