"""JSON values in Catalyst: kept as texts, and as VARIANTs while they are taken apart.

A VARIANT cannot be compared, grouped, sorted or made a key, so a column of type `any` or `XML` holds canonical texts
(`algebra.values.json_text`), which `text` makes of VARIANTs. What takes a value apart parses its text by `parse_json`,
follows a whole path, and casts or writes only the value at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.functions.binary import to_base64_sql
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import BLANKS, INT_RANGES, INTEGER_TEXT, NUMBER_TEXT
from mrql.algebra.values.json_typed import NOT_FINITE
from mrql.runtime.spark.expressions.canonical_order import Fresh, in_order, let
from mrql.runtime.spark.expressions.file_texts import is_read_as_text, value_of
from mrql.runtime.spark.expressions.layout import labels, quote, record_sql, sql_type
from mrql.runtime.spark.expressions.number_text import json_text, number_text

Template = Callable[..., str]
TextReader: TypeAlias = Callable[[str, Type], str]
"""Reads a text as a value of a type, null where it is none."""


def member(variant: str, name: str, *before: int) -> str:
    r"""A member as a VARIANT, null where there is none; with indexes `before`, that of the element at these.

    A `$` in SQL text is written as its code, since Spark would substitute a variable for `${…}`.

    >>> print(member("v", "b c", 0))
    try_variant_get(v, '\U00000024[0]["b c"]', 'variant')
    """
    path = "".join(f"[{index}]" for index in before)
    if not name or any(c in '"?' for c in name):  # no path can have such a name
        inside = f"try_variant_get({variant}, '${path}', 'map<string,variant>')"
        return f"try_element_at({inside}, {text_sql(name)})"
    return f"""try_variant_get({variant}, {text_sql(f'${path}["{name}"]')}, 'variant')"""


def element(variant: str, index: int) -> str:
    """An element of an array as a VARIANT."""
    return f"try_variant_get({variant}, '$[{index}]', 'variant')"


def text(variant: str, fresh: Fresh) -> str:
    """The text of a VARIANT that is a part of a canonical value; null for a JSON null."""
    return json_text(_as_spark_writes(variant), fresh)


def _as_spark_writes(variant: str) -> str:
    return f"nullif(to_json({variant}), 'null')"


def canonical_text(variant: str, fresh: Fresh) -> str:
    """The text of a VARIANT that was just parsed: `1e0` is a double, written `1.0`, and read again as `1`."""

    def read_again(t: str) -> str:
        return rf"if({t} RLIKE '\\.0([,}}\\]]|$)', {_as_spark_writes(f'parse_json({t})')}, {t})"

    return json_text(let(fresh, _as_spark_writes(variant), read_again), fresh)


def _as_string(variant: str, written: str, fresh: Fresh) -> str:
    """A VARIANT as a string: a string as it is, any other value as it is `written`."""
    string = f"try_variant_get({variant}, '$', 'string')"
    return let(fresh, written, lambda t: f"if(startswith({t}, '\"'), {string}, {t})")


def is_null(variant: str) -> str:
    return f"({variant} IS NULL OR is_variant_null({variant}))"


def array(variant: str) -> str:
    """The elements of a VARIANT that is an array; null for any other."""
    return f"try_variant_get({variant}, '$', 'array<variant>')"


def is_object(variant: str) -> str:
    return f"(try_variant_get({variant}, '$', 'struct<mrql: variant>') IS NOT NULL)"


def members(variant: str) -> str:
    """The members of a VARIANT that is an object, as a map; null for any other."""
    return f"try_variant_get({variant}, '$', 'map<string,variant>')"


# --- casts --------------------------------------------------------------------------------------


def taken_as(variant: str, t: Type, at: str, fresh: Fresh) -> str:
    """`e as t`; raises an error with the value where it is not of the type."""
    return let(fresh, variant, lambda v: _taken(v, t, at, fresh))


def _taken(v: str, t: Type, at: str, fresh: Fresh) -> str:
    match t:
        case ty.Basic(ty.Kind.ANY):
            return text(v, fresh)
        case ty.STRING:
            return _as_string(v, text(v, fresh), fresh)
    failed = f"raise_error(concat('{at}', {text(v, fresh)}, {text_sql(f' is not a value of type {t}')}))"
    otherwise = f"if({is_null(v)}, NULL, {failed})"
    match t:
        case ty.Basic(ty.Kind.BOOL):
            string = f"try_variant_get({v}, '$', 'string')"
            shown = f"lower({trimmed(string)})"
            return f"CASE {shown} WHEN 'true' THEN true WHEN 'false' THEN false ELSE {otherwise} END"
        case ty.DATE | ty.TIMESTAMP | ty.BYTES:
            return f"coalesce({_read_from_text(v, t, fresh)}, {otherwise})"
        case ty.DecimalType():
            return f"coalesce({_decimal(v, t, fresh)}, {otherwise})"
        case ty.Basic():
            # Spark accepts more texts as numbers than the language does.
            string, form = f"try_variant_get({v}, '$', 'string')", INTEGER_TEXT if t in INT_RANGES else NUMBER_TEXT
            wrong = f"schema_of_variant({v}) = 'BOOLEAN'"
            wrong += f" OR (schema_of_variant({v}) = 'STRING' AND NOT {is_number_sql(string, form)})"
            number = _whole(v, t) if t in INT_RANGES else f"try_variant_get({v}, '$', '{sql_type(t).lower()}')"
            return f"coalesce(if({wrong}, NULL, {number}), {otherwise})"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            return f"transform(coalesce({array(v)}, {otherwise}), {x} -> {_taken(x, item, at, fresh)})"
        case ty.RecordType(fields):
            made = record_sql((name, taken_as(member(v, name), item, at, fresh)) for name, item in fields)
            return f"CASE WHEN NOT {is_object(v)} THEN {otherwise} ELSE {made} END"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def _whole(v: str, t: ty.Basic) -> str:
    """The number of a VARIANT as an integer, null where it is none: for a double out of range, Spark would give the
    largest long, and a number read as an INT would be rounded, by way of a double."""
    low, high = INT_RANGES[t]
    number, double = (f"try_variant_get({v}, '$', '{kind}')" for kind in ("bigint", "double"))
    least, beyond = (f"{float(end)}D" for end in INT_RANGES[ty.LONG])
    within = f"(schema_of_variant({v}) <> 'DOUBLE' OR ({double} >= {least} AND {double} < {beyond}))"
    if t != ty.LONG:
        within += f" AND {number} BETWEEN {low} AND {high}"
    return f"if({within}, CAST({number} AS {sql_type(t)}), NULL)"


def _decimal(v: str, t: ty.DecimalType, fresh: Fresh) -> str:
    """A number, or the text of one, as a decimal, else null; a number is rounded to the digits of the type."""
    double = let(fresh, f"try_variant_get({v}, '$', 'double')", lambda x: number_text(x, ty.DOUBLE, fresh))
    return (
        f"CASE schema_of_variant({v}) WHEN 'STRING' THEN {_read_from_text(v, t, fresh)} WHEN 'BOOLEAN' THEN NULL"
        f" WHEN 'DOUBLE' THEN try_cast({double} AS {sql_type(t)})"
        f" ELSE try_variant_get({v}, '$', '{sql_type(t).lower()}') END"
    )


def is_number_sql(text: str, written: str = NUMBER_TEXT) -> str:
    """Whether a string is a number as the language writes it; Spark accepts more strings."""
    return f"{text} RLIKE '^\\\\s*({written})\\\\s*\\\\z'"


def trimmed(text: str) -> str:
    """A string without the blanks around it; Spark's own `trim` removes spaces only, its casts other blanks, too."""
    blanks = "".join(f"\\u{ord(blank):04x}" for blank in BLANKS)
    return f"trim(BOTH '{blanks}' FROM {text})"


def of_value(sql: str, t: Type, fresh: Fresh) -> str:
    """A value as JSON text."""

    def written(x: str) -> str:
        return f"if({x} IS NULL, NULL, {text(variant_of(x, t, fresh), fresh)})"

    return let(fresh, in_order(sql, t, fresh), written)


def variant_of(x: str, t: Type, fresh: Fresh) -> str:
    match t:
        case ty.Basic(ty.Kind.ANY | ty.Kind.XML | ty.Kind.DATA):
            return f"parse_json({x})"
        case ty.TupleType():
            items = ", ".join(variant_of(f"{x}.{name}", item, fresh) for name, item in labels(t))
            return f"if({x} IS NULL, NULL, to_variant_object(CAST(array({items}) AS ARRAY<VARIANT>)))"
        case ty.Basic(ty.Kind.DOUBLE | ty.Kind.FLOAT):
            # As a decimal, like a number in a JSON text, so that 0.5 is equal to the 0.5 there.
            double = f"CAST({x} AS DOUBLE)"
            plain = f"CAST(CAST(CAST({double} AS STRING) AS DECIMAL(38, 19)) AS VARIANT)"
            return (
                f"if({double} = 0 OR (abs({double}) >= 1e-3D AND abs({double}) < 1e15D), {plain}, "
                f"CAST({double} AS VARIANT))"
            )
        case ty.DATE | ty.TIMESTAMP:
            return f"CAST(CAST({x} AS STRING) AS VARIANT)"
        case ty.BYTES:
            return f"CAST({to_base64_sql(x)} AS VARIANT)"
        case ty.Basic() | ty.Nothing():
            return f"CAST({x} AS VARIANT)"
        case ty.RecordType(()):
            return "parse_json('{}')"
        case ty.RecordType(fields):
            made = record_sql((name, variant_of(f"{x}.{quote(name)}", item, fresh)) for name, item in fields)
            return f"if({x} IS NULL, NULL, to_variant_object({made}))"
        case ty.BagType(item) | ty.ListType(item):
            e = fresh("e")
            return f"if({x} IS NULL, NULL, to_variant_object(transform({x}, {e} -> {variant_of(e, item, fresh)})))"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def is_written_as_variant(t: Type) -> bool:
    """Whether Spark is to write values of a type as VARIANTs."""
    return ty.is_document(t) or isinstance(t, ty.DecimalType)


def as_variants(sql: str, t: Type, fresh: Fresh) -> str:
    """A value with the documents in it as VARIANTs, which Spark writes as nested JSON; and with the decimals, some of
    which it would write with an exponent."""
    if not any(map(is_written_as_variant, ty.walk(t))):
        return sql
    match t:
        case ty.DecimalType():
            return f"CAST({sql} AS VARIANT)"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("o")
            return f"transform({sql}, {x} -> {as_variants(x, item, fresh)})"
        case ty.TupleType() | ty.RecordType():

            def struct(v: str) -> str:
                parts = ((name, as_variants(f"{v}.{quote(name)}", item, fresh)) for name, item in labels(t))
                return f"if({v} IS NULL, NULL, {record_sql(parts)})"

            return let(fresh, sql, struct)
        case _:
            return f"parse_json({sql})"


# --- rows of JSON files -------------------------------------------------------------------------


def _read_from_text(variant: str, t: Type, fresh: Fresh, read: TextReader = value_of) -> str:
    """A string as a date, a timestamp, bytes or a decimal, a number as a decimal; null where it is none."""
    string = f"try_variant_get({variant}, '$', 'string')"
    if t == ty.BYTES:  # a number may look like bytes, too
        string = f"if(schema_of_variant({variant}) = 'STRING', {string}, NULL)"
    return let(fresh, string, lambda text: read(text, t))


def held(variant: str, t: Type, fresh: Fresh, read: TextReader = value_of) -> str:
    """A VARIANT that fits a declared type, as a value of it; `read` parses dates and timestamps, bytes and decimals."""
    match t:
        case ty.Basic(ty.Kind.ANY):
            return canonical_text(variant, fresh)
        case ty.Basic(ty.Kind.XML | ty.Kind.DATA):
            return text(variant, fresh)
        case ty.STRING:
            return let(fresh, variant, lambda v: _as_string(v, canonical_text(v, fresh), fresh))
        case ty.TupleType():

            def parts_of(v: str) -> str:
                parts = ((name, held(element(v, i), item, fresh, read)) for i, (name, item) in enumerate(labels(t)))
                return f"if({is_null(v)}, NULL, {record_sql(parts)})"

            return let(fresh, variant, parts_of)
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP | ty.Kind.BINARY | ty.Kind.DECIMAL):
            return _read_from_text(variant, t, fresh, read)
        case ty.Basic():
            return f"try_variant_get({variant}, '$', '{sql_type(t).lower()}')"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            return f"transform({array(variant)}, {x} -> {held(x, item, fresh, read)})"
        case ty.RecordType(fields):

            def struct(v: str) -> str:
                parts = ((name, held(member(v, name), item, fresh, read)) for name, item in fields)
                return f"if({is_null(v)}, NULL, {record_sql(parts)})"

            return let(fresh, variant, struct)
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def unfit(variant: str, t: Type, fresh: Fresh, read: TextReader = value_of) -> str:
    """Whether a VARIANT, a column or lambda variable, does not fit a declared type; null, or absent, fits any."""
    match t:
        case ty.Basic(ty.Kind.ANY | ty.Kind.STRING):
            return "false"
        case ty.Basic(ty.Kind.DATE | ty.Kind.TIMESTAMP | ty.Kind.BINARY):
            return f"(NOT {is_null(variant)} AND {_read_from_text(variant, t, fresh, read)} IS NULL)"
        case ty.DecimalType():
            exact = f"schema_of_variant({variant}) NOT IN ('BOOLEAN', 'DOUBLE')"
            wrong = f"coalesce({exact} AND {_read_from_text(variant, t, fresh, read)} IS NOT NULL, false)"
            return f"(NOT {is_null(variant)} AND NOT {wrong})"
        case ty.Basic(kind):
            return f"coalesce(NOT ({_of_kind(variant, kind)}), false)"
        case ty.BagType(item) | ty.ListType(item):
            x = fresh("e")
            inside = f"coalesce(exists({array(variant)}, {x} -> {unfit(x, item, fresh, read)}), true)"
            return f"(NOT {is_null(variant)} AND {inside})"
        case ty.RecordType(fields):
            parts = [_unfit_member(variant, name, item, fresh, read) for name, item in fields]
            return f"(NOT {is_null(variant)} AND ({' OR '.join([f'NOT {is_object(variant)}', *parts])}))"
        case _:
            raise InternalError("variants", f"JSON has no values of type {t}")


def _unfit_member(variant: str, name: str, t: Type, fresh: Fresh, read: TextReader) -> str:
    if isinstance(t, ty.Basic) and t != ty.INT and not is_read_as_text(t):
        return unfit(member(variant, name), t, fresh, read)
    return let(fresh, member(variant, name), lambda m: unfit(m, t, fresh, read))


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
