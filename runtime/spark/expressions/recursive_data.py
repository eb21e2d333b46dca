"""Values of recursive types in Catalyst: texts (`algebra.values.data`), which are parsed to VARIANTs.

A `case` reads only which constructor made a value, and a part of what it was made of.
"""

from __future__ import annotations

from mrql.algebra.functions.function import fails
from mrql.algebra.functions.recursive_data import Folding, too_deep
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import RecordType, Type
from mrql.algebra.values.data import TAG
from mrql.algebra.values.json_text import quoted
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.canonical_order import Fresh, in_order, let
from mrql.runtime.spark.expressions.layout import quote, record_sql


def folded(function: Folding, value: str, at: str, fresh: Fresh) -> str:
    """A value made of a record, or the record that a value was made of."""
    if function.makes:
        return let(fresh, value, lambda record: _made(record, function.record, fresh))
    return let(fresh, _read(function, value, at, fresh), lambda variant: _opened(variant, function.record, fresh))


def part_of(function: Folding, name: str, value: str, at: str, fresh: Fresh) -> str:
    """A field of the record that a value was made of."""
    read = _read(function, value, at, fresh)
    return _tag(read) if name == TAG else _payload(read, name, function.record, fresh)


def made_by(name: str, payload: str | None, t: Type, fresh: Fresh) -> str:
    """A value made by a given constructor."""
    assert isinstance(t, RecordType)
    shown = "'null'" if payload is None else _shown(payload, name, t, fresh)
    return f"concat({text_sql(f'{{{quoted(name)}:')}, {shown}, '}}')"


def _read(function: Folding, value: str, at: str, fresh: Fresh) -> str:
    """A value as a VARIANT."""
    error = fails(at, too_deep(function.data))
    return let(fresh, value, lambda text: f"if({text} IS NULL, NULL, coalesce(try_parse_json({text}), {error}))")


def _tag(variant: str) -> str:
    """The constructor that has made a value: the only key."""
    return f"map_keys({json_variant.members(variant)})[0]"


def _payload(variant: str, name: str, t: RecordType, fresh: Fresh) -> str:
    """The argument of a constructor, null where another constructor has made the value."""
    item = t.field(name)
    assert item is not None
    return json_variant.held(json_variant.member(variant, name), item, fresh)


def _opened(variant: str, t: RecordType, fresh: Fresh) -> str:
    parts = [(TAG, _tag(variant)), *((name, _payload(variant, name, t, fresh)) for name, _ in t.fields[1:])]
    return f"if({variant} IS NULL, NULL, {record_sql(parts)})"


def _made(record: str, t: RecordType, fresh: Fresh) -> str:
    """The text of an object whose only member is the constructor, with its argument."""
    tag = f"{record}.{quote(TAG)}"
    texts = [
        f"WHEN {text_sql(name)} THEN {_shown(f'{record}.{quote(name)}', name, t, fresh)}" for name, _ in t.fields[1:]
    ]
    found = f"CASE {tag} {' '.join(texts)} ELSE 'null' END" if texts else "'null'"
    return f"if({record} IS NULL, NULL, concat('{{\"', {tag}, '\":', {found}, '}}'))"


def _shown(payload: str, name: str, t: RecordType, fresh: Fresh) -> str:
    item = t.field(name)
    assert item is not None
    return let(
        fresh,
        in_order(payload, item, fresh),
        lambda part: f"coalesce({json_variant.text(json_variant.variant_of(part, item, fresh), fresh)}, 'null')",
    )
