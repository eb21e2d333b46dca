"""How Spark reads each format: the rows, and which are malformed.

A row is malformed where the reference reader finds it so (`runtime.sources.files`). Lines of JSON are read as text and
parsed strictly: Spark's own JSON reader takes single quotes, a key twice, and whatever stands behind the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.types import Type
from mrql.algebra.values.json_text import quoted
from mrql.runtime.sources.formats.columnar import of_one_type
from mrql.runtime.sources.formats.csv import NO_CHARACTER
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.layout import label, quote, sql_type, text_sql
from mrql.runtime.spark.expressions.times import is_time, text_type, time_of
from mrql.runtime.spark.io.paths import place_of
from mrql.runtime.spark.io.schema import conformed

TAG = "mrql_tag"
TAGGED = f"CASE {TAG} WHEN '+' THEN 1L ELSE -1L END"
"""The weight of a row with a tag."""
FAULT = "raise_error('[MALFORMED_ROW]')"


@attrs.frozen
class Rows:
    """The rows of some files as columns, with a condition for those that are malformed.

    The columns are called `_1`, `_2`, … whatever the fields are called: ours are beside them.

    With `apart` these are left out, else reading one is an error. `file` is an expression for the file of a row.
    """

    df: DataFrame
    columns: Sequence[str]
    fault: str | None = None
    apart: bool = False

    def kept(self) -> DataFrame:
        """The rows that are not malformed."""
        if self.fault is None:
            return self.df.selectExpr(*self.columns)
        condition = f"NOT ({self.fault})" if self.apart else f"if({self.fault}, {FAULT}, true)"
        return self.df.where(condition).selectExpr(*self.columns)

    @property
    def malformed(self) -> DataFrame | None:
        """The file of each malformed row, if there can be any."""
        if self.fault is None:
            return None
        return self.df.where(self.fault).selectExpr("mrql_file AS file")


Reader = Callable[[SparkSession, SourceSpec, list[str], bool], Rows]

FILE = "_metadata.file_path AS mrql_file"
NUMBER = "monotonically_increasing_id() AS mrql_number"
"""A column that Spark may not compute twice: no filter is pushed below it, where it would parse the row again."""


def _read_text(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> Rows:
    df = spark.read.text(paths).selectExpr("value", FILE)
    return Rows(df, ["value"], "NOT is_valid_utf8(value)", apart)


def _read_json(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> Rows:
    numbers = count()

    def fresh(base: str = "j") -> str:
        return f"{base}_{next(numbers)}"

    lines = spark.read.text(paths).selectExpr("value", FILE).where(r"value RLIKE '[^ \\t]'")
    # Inside an array, what stands behind the value is no JSON, or a second element.
    parsed = "if(is_valid_utf8(value), try_parse_json(concat('[', value, ']')), NULL)"
    arrays = lines.selectExpr("mrql_file", NUMBER, f"{parsed} AS mrql_array")
    faults = ["mrql_array IS NULL", "try_variant_get(mrql_array, '$[1]', 'variant') IS NOT NULL", "mrql_number < 0L"]
    row = "try_variant_get(mrql_array, '$[0]', 'variant')"
    if not isinstance(spec.row, ty.RecordType):
        return Rows(
            arrays.selectExpr("*", f"{json_variant.held(row, spec.row, fresh)} AS value"),
            ["value"],
            _any(faults),
            apart,
        )
    faults.append(f"NOT {json_variant.is_object(row)}")
    parts = [f"{json_variant.member('mrql_array', name, 0)} AS m{i}" for i, name in enumerate(spec.row.names)]
    members = arrays.selectExpr("mrql_file", "mrql_number", f"({_any(faults)}) AS mrql_wrong", *parts)
    held, unfit = [], ["mrql_wrong"]
    for i, (_, t) in enumerate(spec.row.fields):
        held.append(f"{json_variant.held(f'm{i}', t, fresh)} AS {label(i)}")
        test = json_variant.unfit(f"m{i}", t, fresh)
        unfit += [test] if test != "false" else []
    df = members.selectExpr("mrql_file", "mrql_number", f"({_any(unfit)}) AS mrql_unfit", *held)
    return Rows(df, [label(i) for i, _ in enumerate(spec.row.names)], "mrql_unfit", apart)


def _any(faults: Sequence[str]) -> str:
    return " OR ".join(faults)


CORRUPT = "mrql_corrupt"
NOTHING_UNQUOTED = NO_CHARACTER
"""What an empty field without quotes is read as first: Spark would take one in quotes for missing too. No byte is read
as this character."""

BYTES = "ISO-8859-1"
"""Each byte is a character, so that those that are not UTF-8 are told from U+FFFD, which Spark would put for them."""


def _read_csv(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> Rows:
    """The columns are those of the files, of which a record is made by name; where it is none, they are its own."""
    given = [(f"m{i}", c.type) for i, c in enumerate(spec.columns)]
    schema = ", ".join(f"{name} {text_type(t or ty.STRING)}" for name, t in given)
    if spec.tagged:
        schema = f"{TAG} STRING, {schema}"
    # A record ends with a line feed; what ends the lines in quotes is left as it is.
    lines: dict[str, bool | str] = {"multiLine": True, "lineSep": "\n"} if spec.multiline else {}
    reader = spark.read.schema(f"{schema}, {CORRUPT} STRING" if apart else schema).options(
        sep=spec.delimiter,
        encoding="UTF-8" if spec.as_utf8 else BYTES,
        header=spec.header,
        **lines,
        mode="PERMISSIVE" if apart else "FAILFAST",
        columnNameOfCorruptRecord=CORRUPT,
        escape='"',
        nullValue=NOTHING_UNQUOTED,
        emptyValue="",
        ignoreLeadingWhiteSpace=spec.delimiter != " ",
        ignoreTrailingWhiteSpace=spec.delimiter != " ",
        columnPruning=False,
        enforceSchema=True,
    )
    read = [(name, t) for name, t in given if t is not None]
    fields = {c.name: _field(f"m{i}", c.type, as_utf8=spec.as_utf8) for i, c in enumerate(spec.columns) if c.type}
    wanted = spec.row.fields if isinstance(spec.row, ty.RecordType) else [(name, ty.STRING) for name in fields]
    found = [fields.get(name, f"CAST(NULL AS {sql_type(t)})") for name, t in wanted]
    kept = [f"{field} AS {label(i)}" for i, field in enumerate(found)]
    faults = [f"NOT is_valid_utf8({fields[c.name]})" for c in spec.columns if c.type == ty.STRING]
    faults += [f"{name} IS NOT NULL AND {time_of(name, t)} IS NULL" for name, t in read if is_time(t)]
    if spec.tagged:
        faults.append(f"{TAG} NOT IN ('+', '-') OR {TAG} IS NULL")
    # Spark converts only the columns that are asked for, but a row is malformed or not whatever the query uses of it.
    # A condition that is never true asks for them; it is one that Spark does not see through.
    never = f"hash({', '.join(name for name, _ in given) or '1'}) < -2147483648"
    faults.insert(0, f"if({CORRUPT} IS NULL, {never}, true)" if apart else never)
    df = reader.csv(paths)
    fault = " OR ".join(f"coalesce({one}, false)" for one in faults) or None
    return Rows(df.selectExpr("*", FILE) if apart else df, [*kept, *([TAG] if spec.tagged else [])], fault, apart)


def _field(column: str, t: Type, *, as_utf8: bool) -> str:
    """The value of a field, which was read byte by byte, if the file is not read `as_utf8`."""
    if t == ty.STRING and not as_utf8:
        return f"CAST(encode({column}, '{BYTES}') AS STRING)"
    return time_of(column, t)


def _read_xml(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> Rows:
    """Well-formed files only: Spark's reader ends at a fault without a word about what stands behind it."""
    whole: DataFrame | None = None
    for tag in spec.tags:
        options = {
            "rowTag": tag,
            "singleVariantColumn": "v",
            "inferSchema": "false",  # 007 is a text
            "attributePrefix": "@",
            "valueTag": "#text",
            "mode": "FAILFAST",
        }
        elements = spark.read.format("xml").options(**options).load(paths)
        named = elements.selectExpr(f"concat({text_sql(f'{{{quoted(tag)}:')}, to_json(v), '}}') AS value")
        whole = named if whole is None else whole.union(named)
    assert whole is not None
    return Rows(whole, ["value"])


PROLEPTIC = "orc.proleptic.gregorian.default"
"""Files that do not say how they count the days before 1582 count as those of Arrow do, and not as Java once did."""


def _read_columns(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> Rows:
    reader = spark.read.option(PROLEPTIC, True)
    # Spark takes the types of one file for those of all.
    alike = [paths] if len(paths) == 1 else of_one_type(spec, paths, place_of)
    found = [reader.parquet(*some) if spec.format is Format.PARQUET else reader.orc(some) for some in alike]
    if isinstance(spec.row, ty.RecordType) and not spec.row.fields:
        return Rows(found[0], [])  # without a column there is one type
    whole = [conformed(df, spec.row, spec.path) for df in found]
    rows = reduce(DataFrame.union, whole)
    return Rows(rows, [f"{quote(name)} AS {label(i)}" for i, name in enumerate(rows.columns)])


FORMATS: Mapping[Format, Reader] = {
    Format.CSV: _read_csv,
    Format.JSON: _read_json,
    Format.TEXT: _read_text,
    Format.XML: _read_xml,
    Format.PARQUET: _read_columns,
    Format.ORC: _read_columns,
}


def column_names(spec: SourceSpec) -> list[str] | None:
    """The columns that the rows of a source are read into; None where they depend on the files."""
    match spec.format:
        case Format.CSV:
            columns = [c.name for c in spec.columns if c.type is not None]
            names = [label(i) for i, _ in enumerate(spec.row.names if isinstance(spec.row, ty.RecordType) else columns)]
            return [*names, TAG] if spec.tagged else names
        case Format.JSON if isinstance(spec.row, ty.RecordType):
            return [label(i) for i, _ in enumerate(spec.row.names)]
        case Format.JSON | Format.TEXT | Format.XML:
            return ["value"]
        case _:
            return None
