"""Conversions of values to other types, and to a form in which equal values are identical, in SQL."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.functions.binary import text_of_bytes_sql
from mrql.algebra.functions.function import fails
from mrql.algebra.functions.time_parsing import parsed_date_sql, parsed_timestamp_sql
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import INTEGER_TEXT
from mrql.algebra.values.decimals import out_of_range
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.canonical_order import Fresh, has_bag, in_order, let
from mrql.runtime.spark.expressions.file_texts import value_of
from mrql.runtime.spark.expressions.layout import (
    Atom,
    Layout,
    Struct,
    labels,
    part,
    quote,
    record_sql,
    sql_type,
    to_sql,
)
from mrql.runtime.spark.expressions.number_text import number_text, unsigned_sql

if TYPE_CHECKING:
    from mrql.runtime.spark.expressions.expressions import Expressions


def cast(value: Layout, source: Type, target: Type, at: str) -> Layout:
    """A value widened or converted; parts that have the wanted type already are left as they are."""
    if source == target:
        return value
    if isinstance(value, Struct) and isinstance(target, ty.TupleType | ty.RecordType):
        parts = zip(value.fields, labels(source), labels(target), strict=True)
        return Struct(tuple((name, cast(item, a, b, at)) for (_, item), (_, a), (name, b) in parts), target)
    if source == ty.NOTHING:
        return Atom(f"CAST(NULL AS {sql_type(target)})", target)  # a value of no type is null, whatever its column
    sql = to_sql(value)
    if target == ty.ANY:
        return Atom(json_variant.of_value(sql, source, numbered("j")), target)
    if source == ty.ANY:
        return Atom(json_variant.taken_as(f"parse_json({sql})", target, at, numbered("j")), target)
    return Atom(converted(sql, source, target, at), target)


def converted(value: str, source: Type, target: Type, at: str) -> str:
    """A value of one type as one of another."""
    if ty.NOTHING in ty.walk(source):
        return _typed(value, source, target, at)
    if source == ty.STRING:
        return from_text(value, target, at)
    if isinstance(target, ty.DecimalType):
        return to_decimal(value, source, target, at)
    if target == ty.STRING and source == ty.BYTES:
        return text_of_bytes_sql(value, at)
    if target == ty.STRING and source in ty.FRACTIONS:
        return number_text(value, source, numbered("t"))
    made = f"CAST({value} AS {sql_type(target)})"
    if not isinstance(target, ty.Basic) or not ty.is_integral(target) or not ty.is_numeric(source):
        return made
    if ty.fits(source, target):
        return made
    # Spark's own error for a number out of range lacks the place in the query.
    low, high = fn.INT_RANGES[target]
    if isinstance(source, ty.DecimalType):
        # Spark rounds a decimal that becomes an INT, by way of a double.
        made = f"CAST(CAST({value} AS BIGINT) AS {sql_type(target)})"
        held = _holds_whole(value, source, target)
    elif source == ty.LONG:
        held = f"{value} BETWEEN {low} AND {high}"
    elif target == ty.INT:
        held = f"{value} > {low - 1}D AND {value} < {high + 1}D"
    else:
        held = f"{value} >= {float(low)}D AND {value} < {float(high)}D"
    wrong = fails(at, "integer overflow")
    if source in ty.FRACTIONS:
        text = f"CAST({value} AS STRING)"
        none = fails(at, "{} is no whole number", text)
        wrong = f"CASE WHEN {text} IN ('NaN', 'Infinity', '-Infinity') THEN {none} ELSE {wrong} END"
    return f"CASE WHEN {value} IS NULL OR {held} THEN {made} ELSE {wrong} END"


def to_decimal(value: str, source: Type, target: ty.DecimalType, at: str) -> str:
    """A number as a decimal. Spark's error for one out of range quotes this text, and so the place in it."""
    if source not in ty.FRACTIONS:
        return f"CAST({value} AS {at}{sql_type(target)})"
    # From its shortest digits: those that Spark writes for a double depend on the version of Java.
    digits = f"CAST({number_text(value, source, numbered('t'))} AS {at}{sql_type(target)})"
    wrong = fails(at, out_of_range(target))
    return f"CASE WHEN {value} IS NULL OR abs({value}) < 1e38D THEN {digits} ELSE {wrong} END"


def _holds_whole(value: str, source: ty.DecimalType, target: ty.Basic) -> str:
    """Whether the integer part of a decimal is in the range of an integer type."""
    low, high = fn.INT_RANGES[target]
    if source.whole < len(str(high)):
        return "true"
    return f"{value} > {low - 1}BD AND {value} < {high + 1}BD"


def _typed(value: str, source: Type, target: Type, at: str) -> str:
    """A value with parts of no type, which are null: Spark cannot cast their columns to structs."""
    fresh = numbered("n")
    match source, target:
        case ty.Nothing(), _:
            return f"CAST(NULL AS {sql_type(target)})"
        case ty.BagType(own) | ty.ListType(own), ty.BagType(item) | ty.ListType(item):
            x = fresh()
            return f"transform({value}, {x} -> {_part(x, own, item, at)})"
        case _:
            pairs = [*zip(labels(source), labels(target), strict=True)]

            def parts(v: str) -> str:
                made = ((name, _part(f"{v}.{quote(old)}", own, item, at)) for (old, own), (name, item) in pairs)
                return f"if({v} IS NULL, NULL, {record_sql(made)})"

            return let(fresh, value, parts)


def _part(value: str, source: Type, target: Type, at: str) -> str:
    """A part of a value as one of another type."""
    return value if source == target else converted(value, source, target, at)


def from_text(text: str, target: Type, at: str) -> str:
    """A string as a value of a basic type; Spark accepts more strings than the language does."""
    read = f"CAST({text} AS {at}{sql_type(target)})"
    wrong = fails(at, f'"{{}}" is not a value of type {target}', text)
    match target:
        case ty.DATE:
            return parsed_date_sql(text, at)
        case ty.TIMESTAMP:
            return parsed_timestamp_sql(text, at)
        case ty.BOOL:
            known = f"lower({json_variant.trimmed(text)}) IN ('true', 'false')"
            return f"CASE WHEN {text} IS NULL OR {known} THEN {read} ELSE {wrong} END"
        case ty.DecimalType():
            return f"CASE WHEN {text} IS NULL THEN NULL ELSE coalesce({value_of(text, target)}, {wrong}) END"
        case ty.FLOAT | ty.DOUBLE:
            return f"CASE WHEN {text} IS NULL OR {json_variant.is_number_sql(text)} THEN {read} ELSE {wrong} END"
        case ty.INT | ty.LONG:
            whole = json_variant.is_number_sql(text, INTEGER_TEXT)
            return f"CASE WHEN {text} IS NULL OR {whole} THEN {read} ELSE {wrong} END"
        case _:
            return read


def numbered(base: str) -> Fresh:
    """A supply of names of lambda variables for a self-contained piece of SQL."""
    numbers = count()
    return lambda prefix=base: f"{prefix}__v_{next(numbers)}"


def cast_array(sql: str, source: Type, target: Type) -> str:
    if ty.NOTHING in ty.walk(source):
        return converted(sql, source, target, "")
    same = sql_type(source) == sql_type(target)
    return sql if same else f"CAST({sql} AS {sql_type(target)})"


def unsigned(expressions: Expressions, value: Layout) -> Layout:
    """The value with each −0.0 in it replaced by 0.0, its equal."""
    match value:
        case Struct(fields, t):
            return Struct(tuple((name, unsigned(expressions, item)) for name, item in fields), t)
        case Atom(sql, t, missing):
            return Atom(_unsigned(expressions, sql, t), t, missing)


def _unsigned(expressions: Expressions, sql: str, t: Type) -> str:
    if not any(inner in ty.FRACTIONS for inner in ty.walk(t)):
        return sql
    x = expressions.fresh()
    match t:
        case ty.BagType(item) | ty.ListType(item):
            return f"transform({sql}, {x} -> {_unsigned(expressions, x, item)})"
        case ty.TupleType() | ty.RecordType():
            parts = ((name, _unsigned(expressions, f"({sql}).{quote(name)}", item)) for name, item in labels(t))
            return f"if({sql} IS NULL, NULL, {record_sql(parts)})"
        case _:
            return unsigned_sql(sql, t)


def has_null(value: Layout) -> str:
    """Whether a value, or a part of it if it is a tuple or record, is missing."""
    match value:
        case Struct(()):
            return "false"
        case Struct(fields):
            return f"({' OR '.join(has_null(item) for _, item in fields)})"
        case Atom(sql, ty.TupleType() | ty.RecordType() as t) if labels(t):
            parts = [has_null(part(value, name, item)) for name, item in labels(t)]
            return f"({sql} IS NULL OR {' OR '.join(parts)})"
        case Atom(sql, _, missing):
            return f"({sql} IS NULL)" if missing else "false"


def canonical(expressions: Expressions, value: Layout) -> Layout:
    """The value with the bags in it sorted, so that equal bags are equal arrays."""
    match value:
        case Struct(fields, t):
            return Struct(tuple((name, canonical(expressions, item)) for name, item in fields), t)
        case Atom(sql, t, missing) if has_bag(t):
            return Atom(in_order(sql, t, expressions.fresh), t, missing)
        case _:
            return value
