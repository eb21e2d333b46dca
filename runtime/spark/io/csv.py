"""CSV, read and written by Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import Column, SourceSpec
from mrql.algebra.functions.binary import to_base64_sql
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import Type
from mrql.algebra.values.xml_elements import BLANKS
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.formats.csv import (
    LINE_BREAK,
    NO_CHARACTER,
    ONLY_MISSING,
    SURPLUS,
    behind,
    columns_of,
    is_read_as_utf8,
)
from mrql.runtime.sources.formats.csv_records import Dialect, may_end_in_blanks, may_have_a_blank_record
from mrql.runtime.spark.expressions.casts import converted
from mrql.runtime.spark.expressions.file_texts import is_read_as_text, text_type, written_value
from mrql.runtime.spark.expressions.layout import label, quote, sql_type
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.spark_format import FILE, ONCE, ParsedRows, SparkFormat

TAG = "mrql_tag"
TAGGED = f"CASE {TAG} WHEN '+' THEN 1L ELSE -1L END"
"""The weight of a row with a tag."""
CORRUPT = "mrql_corrupt"
NOTHING_UNQUOTED = NO_CHARACTER
"""The text as which Spark reads an empty field without quotes first: otherwise it would take an empty field in quotes
for missing, too. No byte is read as this character."""

BYTES = "ISO-8859-1"
"""Reads each byte as a character, so that bytes that are not UTF-8 are told from U+FFFD, with which Spark replaces
them."""


def read_csv(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    """The rows of CSV files: a record takes its fields by name from the columns; any other row is the typed columns."""
    given = [(f"m{i}", c.type) for i, c in enumerate(spec.columns)]
    schema = ", ".join(f"{name} {_read_type(t or ty.STRING, spec)}" for name, t in given)
    if spec.tagged:
        schema = f"{TAG} STRING, {schema}"
    keeps_text = apart or spec.surplus
    schema = f"{schema}, {CORRUPT} STRING" if keeps_text else schema
    mode = "PERMISSIVE" if keeps_text else "FAILFAST"
    if _is_taken_apart(spec):
        df = _parsed(_records(spark, spec, paths, apart), schema, {**_record_options(spec), "mode": mode}, spec)
    else:
        options = {**_record_options(spec), **_file_options(spec), "mode": mode}
        df = file_reader(spark).schema(schema).options(**options).csv(paths)
        df = df.selectExpr("*", FILE) if apart else df
    fields = {c.name: _field(f"m{i}", c, spec) for i, c in enumerate(spec.columns) if c.type}
    wanted = spec.row.fields if isinstance(spec.row, ty.RecordType) else [(name, ty.STRING) for name in fields]
    found = [fields.get(name, f"CAST(NULL AS {sql_type(t)})") for name, t in wanted]
    kept = [f"{field} AS {label(i)}" for i, field in enumerate(found)]
    faults = [f"NOT is_valid_utf8({fields[c.name]})" for c in spec.columns if c.type == ty.STRING]
    faults += [
        f"m{i} IS NOT NULL AND {fields[c.name]} IS NULL"
        for i, c in enumerate(spec.columns)
        if c.type is not None and _is_read_as_text(c.type, spec)
    ]
    if spec.texts.escape is not None:
        faults.append(UNCLEAR)
    if spec.tagged:
        faults.append(f"{TAG} NOT IN ('+', '-') OR {TAG} IS NULL")
    # Spark converts only the columns that are read, but whether a row is malformed must not depend on the query. So a
    # condition reads all of them: it is never true, but Spark cannot tell that.
    never = f"hash({', '.join(name for name, _ in given) or '1'}) < -2147483648"
    wrong = f"NOT ({_has_all(spec)})" if spec.surplus else "true"
    faults.insert(0, f"if({CORRUPT} IS NULL, {never}, {wrong})" if keeps_text else never)
    fault = " OR ".join(f"coalesce({one}, false)" for one in faults) or None
    return ParsedRows(df, [*kept, *([TAG] if spec.tagged else [])], fault, apart)


Options: TypeAlias = Mapping[str, str | bool]


def _record_options(spec: SourceSpec) -> Options:
    """The options by which a record is split into fields."""
    # A record ends with a line feed; line ends in quotes are left as they are.
    lines: Options = {"multiLine": True, "lineSep": "\n"} if spec.multiline else {}
    quote, escape = spec.texts.quote or NO_CHARACTER, spec.texts.escape
    return {
        "sep": spec.delimiter,
        "columnNameOfCorruptRecord": CORRUPT,
        "quote": quote,
        "escape": escape or quote,
        # The default is NUL, by which a NUL in quotes would be left out.
        "charToEscapeQuoteEscaping": escape or NO_CHARACTER,
        "nullValue": NOTHING_UNQUOTED,
        "emptyValue": "",
        "ignoreLeadingWhiteSpace": spec.delimiter != " ",
        "ignoreTrailingWhiteSpace": spec.delimiter != " ",
        "columnPruning": False,
        **lines,
    }


def _file_options(spec: SourceSpec) -> Options:
    """The options by which a file is split into records."""
    comment: Options = {} if spec.texts.comment is None else {"comment": spec.texts.comment}
    return {"encoding": _encoding(spec), "header": spec.header, "enforceSchema": True, **comment}


# --- records as texts ---------------------------------------------------------------------------
#
# Spark takes a null value in quotes for missing too, and has only one null value. And its parser remembers quotes for
# too long: it takes blanks at the end of a record for an empty string, not for missing, where the field before is in
# quotes with blanks or quotes around or inside, or where all fields before are missing and the record before ended with
# a quote. In such cases records are read as texts, their missing fields are emptied, and then they are split. And where
# a sign escapes quotes, a record is matched against a pattern, since Spark has its own reading of misplaced quotes.

RECORD = "mrql_record"
UNCLEAR = "mrql_unclear"
"""The column that says whether a record has misplaced quotes."""


def _is_taken_apart(spec: SourceSpec) -> bool:
    """Whether records are read as texts first."""
    return bool(spec.texts.null_values) or spec.texts.escape is not None or spec.ends_in_blanks


def _records(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> DataFrame:
    """The records of some files as texts, as they are written."""
    if spec.multiline:
        # Spark keeps the text of a record that it cannot read: here as a date with a character that is in no file.
        schema, mode = f"mrql_never DATE, {RECORD} STRING", "PERMISSIVE"
        text = f"if(mrql_never IS NULL, {RECORD}, NULL)"  # Spark does not give the text alone
        options = {"columnNameOfCorruptRecord": RECORD, "dateFormat": f"'{NO_CHARACTER}'yyyy"}
    else:
        # A line is not split into fields.
        schema, mode, text = f"{RECORD} STRING", "FAILFAST", RECORD
        options = {"sep": NO_CHARACTER * 2, "quote": NO_CHARACTER, "escape": NO_CHARACTER}
        options |= {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
    read = (
        file_reader(spark)
        .schema(schema)
        .options(**{**_record_options(spec), **_file_options(spec), **options, "mode": mode})
    )
    records = read.csv(paths).selectExpr(f"{text} AS {RECORD}", *([FILE] if apart else []))
    # A blank line is no record; Spark drops it by itself only where a record is a line.
    return records.where(f"trim({text_sql(BLANKS)} FROM {RECORD}) <> ''") if spec.multiline else records


def _parsed(records: DataFrame, schema: str, options: Options, spec: SourceSpec) -> DataFrame:
    """The fields of records, parsed after the missing ones are emptied."""
    given = ", ".join(f"'{name}', {text_sql(str(value))}" for name, value in options.items())
    fields = f"from_csv({_without_missing(RECORD, spec)}, {text_sql(schema)}, map({given})) AS mrql_fields"
    others = [name for name in records.columns if name != RECORD]
    if spec.texts.escape is not None:
        pattern = text_sql(rf"\A{Dialect.of(spec).record}\z")
        records, others = records.selectExpr("*", f"NOT {RECORD} RLIKE {pattern} AS {UNCLEAR}"), [*others, UNCLEAR]
    return records.selectExpr(*others, ONCE, fields).where("mrql_number >= 0L").selectExpr(*others, "mrql_fields.*")


def _without_missing(record: str, spec: SourceSpec) -> str:
    """A record in which fields without quotes that are blank, or a null value, are emptied, except for the tag."""
    dialect = Dialect.of(spec)
    # In the encoding in which the files are read.
    nulls = [re.escape(text.encode().decode(_encoding(spec))) for text in spec.texts.null_values]
    missing = f"{dialect.blank}(?:{'|'.join(['', *nulls])}){dialect.blank}"
    is_missing = f"x__v_0 RLIKE {text_sql(rf'^{dialect.between}{missing}{chr(92)}z')}"
    is_missing += " AND x__v_1 > 0" if spec.tagged else ""
    empty = text_sql(spec.delimiter)
    kept = f"transform({_fields(record, spec)}, (x__v_0, x__v_1) -> if({is_missing}, {empty}, x__v_0))"
    left = f"coalesce(nullif(substring(array_join({kept}, ''), 2), ''), {_instead_of_nothing(record, spec)})"
    some = text_sql("|".join([rf"{dialect.between}{dialect.blank}\z", *nulls]))
    return f"if({record} RLIKE {some}, {left}, {record})"


def _instead_of_nothing(record: str, spec: SourceSpec) -> str:
    """The text in place of a record whose only field is a null value: an empty text would be no record."""
    wanted = sum(column != SURPLUS for column in spec.columns)
    if wanted > 1:
        return record  # too few fields, whatever they are
    return "NULL" if len(spec.columns) == 1 else text_sql(spec.delimiter)


def _fields(record: str, spec: SourceSpec) -> str:
    """The fields of a record as they are written, each preceded by the delimiter."""
    dialect = Dialect.of(spec)
    pattern = text_sql(f"{dialect.between}{dialect.field}")
    return f"regexp_extract_all(concat({text_sql(spec.delimiter)}, {record}), {pattern}, 0)"


# --- fields behind the columns ------------------------------------------------------------------


def _has_all(spec: SourceSpec) -> str:
    """Whether a record whose text Spark keeps has a valid field for each column.

    Spark keeps the text of a record with another number of fields than there are columns, or with one that is no value
    of its column's type, which it reads as null. A field that is missing is empty, without quotes.
    """
    fields = _fields(CORRUPT, spec)
    first = int(spec.tagged)
    wanted = [*enumerate(spec.columns[: spec.columns.index(SURPLUS)] if SURPLUS in spec.columns else spec.columns)]
    dialect = Dialect.of(spec)
    empty = text_sql(f"{dialect.between}{dialect.blank}")
    conditions = [f"size({fields}) >= {first + len(wanted)}"]
    conditions += [
        f"(m{i} IS NOT NULL OR regexp_replace(get({fields}, {first + i}), {empty}, '') = '')"
        for i, column in wanted
        if column.type is not None and _read_type(column.type, spec) != "STRING"
    ]
    return " AND ".join(conditions)


def _is_read_as_text(t: Type, spec: SourceSpec) -> bool:
    """Whether the values of a column, which are not strings, are read as texts."""
    return is_read_as_text(t) or (spec.texts.locale is not None and ty.is_numeric(t)) or _is_matched(t, spec)


def _is_matched(t: Type, spec: SourceSpec) -> bool:
    """Whether the text of a value is matched first: in a file that is read as UTF-8, Spark takes the digits of all
    scripts, and the letters that some languages count as an `s`."""
    return spec.as_utf8 and spec.texts.locale is None and (ty.is_integral(t) or t == ty.BOOL)


def _read_type(t: Type, spec: SourceSpec) -> str:
    """The Spark type in which the values of a column are read."""
    return "STRING" if _is_read_as_text(t, spec) else text_type(t)


def _field(sql: str, column: Column, spec: SourceSpec) -> str:
    """The value of a field of a column, which was read byte by byte unless the file is read as UTF-8."""
    t = column.type
    assert t is not None
    if t == ty.STRING and not spec.as_utf8:
        return f"CAST(encode({sql}, '{BYTES}') AS STRING)"
    if _is_matched(t, spec):
        pattern = r"(?i)^(?:true|false)\z" if t == ty.BOOL else r"^[+-]?[0-9]+\z"
        return f"if({sql} RLIKE {text_sql(pattern)}, try_cast({sql} AS {sql_type(t)}), NULL)"
    return written_value(sql, t, column.name, spec.texts, _encoding(spec))


def _encoding(spec: SourceSpec) -> str:
    return "UTF-8" if spec.as_utf8 else BYTES


def read_into(spec: SourceSpec) -> list[str]:
    """The columns of the rows of a source."""
    columns = [c.name for c in spec.columns if c.type is not None]
    names = [label(i) for i, _ in enumerate(spec.row.names if isinstance(spec.row, ty.RecordType) else columns)]
    return [*names, TAG] if spec.tagged else names


def resolved_spec(spec: SourceSpec, file: Path) -> SourceSpec:
    """The source for one file: with the columns in the file's order, which a header may give, and how it is read.

    Raises: UserError where the header does not fit the columns.
    """
    columns = columns_of(spec, file)
    if isinstance(columns, Malformed):
        raise columns.error()
    columns += behind(spec, columns, file)
    blanks = not _is_taken_apart(spec) and (may_end_in_blanks(spec, file) or may_have_a_blank_record(spec, file))
    return attrs.evolve(spec, columns=columns, as_utf8=is_read_as_utf8(spec, file), ends_in_blanks=blanks)


def write_csv(df: DataFrame, output: Output, path: str) -> None:
    """One line for each row, with strings in quotes."""
    at = "" if output.span is None else place(output.span)
    line = csv_line(df.columns, tuple(t for _, t in output.columns), at)
    df.selectExpr(f"{line} AS line").write.mode("overwrite").text(path)


def csv_line(columns: list[str], types: tuple[Type, ...], at: str) -> str:
    """A row as a line: strings in quotes, so that an empty one is not taken for a missing one."""
    fields = []
    for column, t in zip(map(quote, columns), types, strict=True):
        if t == ty.STRING:
            broken = f"raise_error('{at}{LINE_BREAK}')"
            escaped = f"concat('\"', replace({column}, '\"', '\"\"'), '\"')"
            text = f"CASE WHEN {column} RLIKE '[\\\\r\\\\n]' THEN {broken} ELSE {escaped} END"
        elif t == ty.BYTES:
            text = f"concat('\"', {to_base64_sql(column)}, '\"')"
        else:
            text = converted(column, t, ty.STRING, "")
        missing = f"raise_error('{at}{ONLY_MISSING}')" if len(columns) == 1 else "''"
        fields.append(f"coalesce({text}, {missing})")
    return f"concat_ws(',', {', '.join(fields)})"


CSV = SparkFormat(read=read_csv, columns=read_into, resolved=resolved_spec, write=write_csv)
