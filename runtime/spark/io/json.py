"""JSON, read and written by Spark.

Lines are read as text and parsed strictly: Spark's own JSON reader accepts single quotes, a key twice, and anything
behind the value. A document has been read and checked by the driver before, and is only split into its elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.envelope import Envelope
from mrql.algebra.functions.sql_text import text_sql
from mrql.runtime.engine.answer import Output
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.canonical_order import Fresh
from mrql.runtime.spark.expressions.file_texts import written_value
from mrql.runtime.spark.expressions.layout import label, quote
from mrql.runtime.spark.io.create_dataframe import to_write
from mrql.runtime.spark.io.csv import TAG
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.spark_format import FILE, ONCE, ParsedRows, SparkFormat

FIRST, SECOND, THIRD = (json_variant.element("mrql_array", place) for place in range(3))
"""The value of a line, and what follows it in the array."""
ENDS = ("mrql end", "end of mrql")
"""Texts that are put behind the value of a line, to find that it ends there."""


def read_json(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    numbers = count()

    def fresh(base: str = "j") -> str:
        return f"{base}_{next(numbers)}"

    arrays = (_elements if spec.multiline else _lines)(spark, paths)
    faults = ["mrql_array IS NULL", "mrql_number < 0L"]
    if spec.changes is not None:
        changes = _unwrapped(arrays, spec.changes)
        return _changes(spec, _records(changes, _whole(spec), spec, faults, fresh), apart)
    if not isinstance(spec.row, ty.RecordType):
        value = f"{FIRST} AS mrql_value"
        arrays = arrays.selectExpr("mrql_file", "mrql_number", f"({_any(faults)}) AS mrql_wrong", value)
        wrong = ["mrql_wrong", json_variant.unfit("mrql_value", spec.row, fresh)]
        wrong += [] if spec.row == ty.ANY else ["coalesce(is_variant_null(mrql_value), false)"]
        held = f"{json_variant.held('mrql_value', spec.row, fresh)} AS value"
        return ParsedRows(arrays.selectExpr("*", held), ["value"], _any(wrong), apart)
    df = _records(arrays, spec.row, spec, faults, fresh)
    return ParsedRows(df, [label(i) for i, _ in enumerate(spec.row.names)], "mrql_unfit", apart)


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """The values of lines, each as the first element of an array; null for a line that is not one value.

    Spark reads one value of a text, and does not look at what follows: the `]` of a line `1] 2` would end an array
    around it. So an end is put behind the value, which has to be the second element and the last one. A line that
    contains the text of that end has to be followed by another one, too.
    """
    lines = file_reader(spark).text(paths).selectExpr("value", FILE).where(r"value RLIKE '[^ \\t]'")

    def parsed(end: str) -> str:
        return f"""try_parse_json(concat('[', value, ', "{end}"]'))"""

    other = f"if(contains(value, '{ENDS[0]}'), {parsed(ENDS[1])}, NULL)"
    found = f"if(is_valid_utf8(value), {parsed(ENDS[0])}, NULL) AS mrql_array"
    arrays = lines.selectExpr("value", "mrql_file", ONCE, found, f"{other} AS mrql_other")
    ends = f"{_is_text(SECOND, ENDS[0])} AND {THIRD} IS NULL"
    also = f"NOT contains(value, '{ENDS[0]}') OR {_is_text(json_variant.element('mrql_other', 1), ENDS[1])}"
    return arrays.selectExpr("mrql_file", "mrql_number", f"if({ends} AND ({also}), mrql_array, NULL) AS mrql_array")


def _is_text(variant: str, text: str) -> str:
    return f"coalesce(to_json({variant}), '') = '\"{text}\"'"


def _elements(spark: SparkSession, paths: list[str]) -> DataFrame:
    """The elements of documents, each as an array of one. A document that Spark cannot read is an error."""
    texts = file_reader(spark).text(paths, wholetext=True).selectExpr("value", FILE)
    text = r"regexp_replace(value, '^\\uFEFF', '')"
    array = rf"if({text} RLIKE '^[ \\t\\r\\n]*\\[', {text}, concat('[', {text}, ']'))"
    parsed = f"from_json({array}, 'ARRAY<VARIANT>', map('mode', 'FAILFAST'))"
    values = texts.selectExpr("mrql_file", f"explode({parsed}) AS mrql_value")
    return values.selectExpr("mrql_file", ONCE, "to_variant_object(array(mrql_value)) AS mrql_array")


def _records(arrays: DataFrame, row: ty.RecordType, spec: SourceSpec, faults: Sequence[str], fresh: Fresh) -> DataFrame:
    """The fields of records, and `mrql_unfit`, which says whether a value is not such a record."""
    wrong = [*faults, f"NOT {json_variant.is_object(FIRST)}"]
    if spec.no_new_columns:
        names = f"map_keys({json_variant.members(FIRST)})"
        is_new = f"x__v_0 NOT IN ({_texts(row.names)})" if row.names else "true"
        wrong.append(f"exists({names}, x__v_0 -> {is_new})")
    parts = [f"{json_variant.member('mrql_array', name, 0)} AS m{i}" for i, name in enumerate(row.names)]
    members = arrays.selectExpr("mrql_file", "mrql_number", f"({_any(wrong)}) AS mrql_wrong", *parts)
    held, unfit = [], ["mrql_wrong"]
    for i, (name, t) in enumerate(row.fields):
        read_text = partial(written_value, column=name, texts=spec.texts)
        held.append(f"{json_variant.held(f'm{i}', t, fresh, read_text)} AS {label(i)}")
        test = json_variant.unfit(f"m{i}", t, fresh, read_text)
        unfit += [test] if test != "false" else []
    return members.selectExpr("mrql_file", "mrql_number", f"({_any(unfit)}) AS mrql_unfit", *held)


# --- changes ------------------------------------------------------------------------------------


def _whole(spec: SourceSpec) -> ty.RecordType:
    assert spec.changes is not None
    assert isinstance(spec.row, ty.RecordType)
    return spec.changes.whole(spec.row)


def _unwrapped(arrays: DataFrame, envelope: Envelope) -> DataFrame:
    """Changes taken out of what they are wrapped in, without those that are null."""
    if envelope.payload is not None:
        payload, said = (json_variant.member("mrql_array", name, 0) for name in (envelope.payload, envelope.op))
        is_inside = f"{payload} IS NOT NULL AND {said} IS NULL"
        inner = f"if({is_inside}, to_variant_object(array({payload})), mrql_array)"
        arrays = arrays.selectExpr("mrql_file", "mrql_number", f"{inner} AS mrql_array")
    return arrays.where(f"NOT coalesce(is_variant_null({FIRST}), false)")


def _changes(spec: SourceSpec, whole: DataFrame, apart: bool) -> ParsedRows:
    """The rows that changes delete and insert, each with its tag (`runtime.sources.formats.envelopes`)."""
    envelope, places = spec.changes, {name: label(i) for i, name in enumerate(_whole(spec).names)}
    assert envelope is not None
    said, sides, faults = places[envelope.op], [], ["mrql_unfit"]
    faults.append(f"{said} IS NULL OR {said} NOT IN ({_texts(envelope.known)})")
    for tag, side, kinds in (
        ("-", envelope.before, envelope.taken_away(keyed=spec.key is not None)),
        ("+", envelope.after, envelope.comes),
    ):
        is_one = f"{said} IN ({_texts(kinds)})"
        if side is not None:
            faults.append(f"{is_one} AND {places[side]} IS NULL")
        sides.append(f"if({is_one}, struct({', '.join([*_row(spec, side, places), repr(tag)])}), NULL)")
    names = ", ".join(columns_of(spec))
    rows = f"inline(filter(array({', '.join(sides)}), x__v_0 -> x__v_0 IS NOT NULL)) AS ({names})"
    return ParsedRows(whole, [rows], " OR ".join(f"({fault})" for fault in faults), apart)


def _row(spec: SourceSpec, side: str | None, places: Mapping[str, str]) -> Iterator[str]:
    """The fields of a row, in SQL, from a change whose fields are columns."""
    assert spec.changes is not None
    assert isinstance(spec.row, ty.RecordType)
    for i, name in enumerate(spec.row.names):
        path: tuple[str, ...] = (name,)
        if side is not None:
            path = spec.changes.metadata.get(name, (side, name))
        yield f"{'.'.join([places[path[0]], *map(quote, path[1:])])} AS {label(i)}"


def _texts(kinds: Iterable[str]) -> str:
    return ", ".join(map(text_sql, sorted(kinds)))


def _any(faults: Sequence[str]) -> str:
    return " OR ".join(faults)


def columns_of(spec: SourceSpec) -> list[str]:
    """A column for each field of a record, or one for the value."""
    names = [label(i) for i, _ in enumerate(spec.row.names)] if isinstance(spec.row, ty.RecordType) else ["value"]
    return [*names, TAG] if spec.tagged else names


def write_json(df: DataFrame, output: Output, path: str) -> None:
    """One object per line."""
    writer = to_write(df, ty.BagType(ty.RecordType(output.columns))).write.mode("overwrite")
    writer.option("ignoreNullFields", "false").json(path)


JSON = SparkFormat(read=read_json, columns=columns_of, write=write_json)
