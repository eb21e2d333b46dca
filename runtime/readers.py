"""Files as DataFrames, with Spark's own readers, so that the rows are those that the reference reader finds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.files import list_files, read_changes
from mrql.algebra.sources import Format, SourceSpec
from mrql.algebra.types import Type
from mrql.runtime.directories import Arrived, placed
from mrql.runtime.frames import Columns, Frame, changes, from_dataframe
from mrql.runtime.layout import labels, quote, sql_type
from mrql.runtime.ledger import net

TAG = "mrql_tag"
TAGGED = f"CASE {TAG} WHEN '+' THEN 1L WHEN '-' THEN -1L ELSE raise_error('[MALFORMED_TAG]') END"
"""The weight of a row with a tag."""


def read(spark: SparkSession, spec: SourceSpec, files: Iterable[Path] | None = None) -> Frame:
    """The rows of a source, or of some files of it."""
    paths = [str(file) for file in (list_files(spec) if files is None else files)]
    if not paths:
        return from_dataframe(spark.createDataFrame([], row_schema(spec.row)), spec.row)
    match spec.format:
        case Format.CSV:
            frame = from_dataframe(_read_csv(spark, spec, paths), spec.row)
            return attrs.evolve(frame, weight=TAGGED) if spec.tagged else frame
        case Format.JSON:
            df = spark.read.schema(row_schema(spec.row)).option("mode", "FAILFAST").json(paths)
            return from_dataframe(df, spec.row)
        case Format.PARQUET:
            return from_dataframe(conformed(spark.read.parquet(*paths), spec.row, spec.path), spec.row)


def read_batch(spark: SparkSession, spec: SourceSpec, arrived: Iterable[Arrived], columns: Columns) -> Frame:
    """The rows of the files of a batch, with weights where the source can take rows away."""
    files: dict[int, list[Path]] = {1: [], -1: []}
    for part in arrived:
        files[part.weight].append(part.file)
    if not files[-1]:
        return read(spark, spec, files[1])
    inserted = read(spark, spec, files[1]) if files[1] else None
    return changes(inserted, read(spark, spec, files[-1]), columns)


def read_net(spark: SparkSession, spec: SourceSpec) -> Frame:
    """All rows of a source, without those that were taken away.

    Raises: MissingRow when one is taken away that is not there.
    """
    if not spec.shrinks:
        return read(spark, spec)
    columns = Columns()
    arrived = [Arrived(file, weight) for part, weight in spec.directories for file in list_files(part)]
    with placed({spec.name: spec}):
        return net(spec.name, read_batch(spark, spec, arrived, columns), columns, spark)


def _read_csv(spark: SparkSession, spec: SourceSpec, paths: list[str]) -> DataFrame:
    schema = ", ".join(f"{quote(c.name)} {sql_type(c.type or ty.STRING)}" for c in spec.columns)
    if spec.tagged:
        schema = f"{TAG} STRING, {schema}"
    reader = spark.read.schema(schema).options(
        sep=spec.delimiter,
        header=spec.header,
        mode="FAILFAST",
        escape='"',
        # What an empty field without quotes stands for; one with quotes is an empty string, which must not be the same.
        nullValue="\0",
        ignoreLeadingWhiteSpace=spec.delimiter != " ",
        ignoreTrailingWhiteSpace=spec.delimiter != " ",
        # All columns are parsed, also those that the query does not use: a row is malformed or not by itself.
        columnPruning=False,
        enforceSchema=True,
    )
    df = reader.csv(paths)
    kept = [quote(c.name) for c in spec.columns if c.type is not None]
    return df.select(*kept, *([TAG] if spec.tagged else []))


def row_schema(row: Type) -> str:
    """The columns of a row type, in DDL."""
    if isinstance(row, ty.TupleType | ty.RecordType):
        return ", ".join(f"{quote(name)} {sql_type(t)}" for name, t in labels(row))
    return f"value {sql_type(row)}"


def conformed(df: DataFrame, row: Type, what: str) -> DataFrame:
    """A DataFrame's columns in the order and the types of a row: by name for records, else by position.

    Raises: UserError when a column is missing, or of a type that does not widen to the wanted one.
    """
    wanted = labels(row) if isinstance(row, ty.TupleType | ty.RecordType) else (("value", row),)
    if isinstance(row, ty.RecordType):
        missing = [name for name, _ in wanted if name not in df.columns]
        if missing:
            raise UserError(f"{what} has no column `{missing[0]}`", hint=f"its columns: {', '.join(df.columns)}")
        found = {name: df.schema[name].dataType for name, _ in wanted}
    else:
        if len(df.columns) != len(wanted):
            raise UserError(f"{what} has {len(df.columns)} columns, where {len(wanted)} were expected")
        found = {name: field.dataType for (name, _), field in zip(wanted, df.schema.fields, strict=True)}
    as_wanted = [(name, sql_type(t).lower()) for name, t in wanted]
    if [(field.name, field.dataType.simpleString()) for field in df.schema.fields] == as_wanted:
        return df
    if not isinstance(row, ty.RecordType):
        df = df.toDF(*(name for name, _ in wanted))
    columns = []
    for name, t in wanted:
        have = found[name].simpleString()
        if not _widens(have, t):
            raise UserError(f"the column `{name}` of {what} is of type {have}, where {t} was expected")
        columns.append(f"CAST({quote(name)} AS {sql_type(t)}) AS {quote(name)}")
    return df.selectExpr(*columns)


_WIDENING: dict[Type, tuple[str, ...]] = {
    ty.BOOL: ("boolean",),
    ty.INT: ("tinyint", "smallint", "int"),
    ty.LONG: ("tinyint", "smallint", "int", "bigint"),
    ty.FLOAT: ("float",),
    ty.DOUBLE: ("tinyint", "smallint", "int", "bigint", "float", "double"),
    ty.STRING: ("string",),
}


def _widens(have: str, wanted: Type) -> bool:
    if wanted in _WIDENING:
        return have in _WIDENING[wanted] or have == "void"
    return have.replace(" ", "") == sql_type(wanted).lower().replace("`", "").replace(" ", "") or not have.isalpha()


def find_malformed(specs: Iterable[tuple[SourceSpec, Iterable[Path]]]) -> None:
    """Reads files with the reference reader.

    Raises: UserError at the first malformed row, with its file and line.
    """
    for spec, files in specs:
        for file in files:
            for _ in read_changes(spec, file):
                pass
