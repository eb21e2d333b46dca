"""Files with typed columns, such as Parquet and ORC, read by Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.formats.columnar import ArrowReader, file_schema, of_one_type
from mrql.runtime.spark.expressions.layout import label, quote
from mrql.runtime.spark.io.arrow_frames import readable_schema
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.paths import place_of
from mrql.runtime.spark.io.schema import conformed
from mrql.runtime.spark.io.spark_format import ParsedRows, SparkFormat, Writer
from mrql.runtime.spark.session.session import settings

_AS_NUMBERS = {"spark.sql.legacy.parquet.nanosAsLong": "true"}
"""Otherwise Spark reads no file with a column of nanosecond timestamps, even if that is not asked for."""

_ILLEGAL = (
    "UNSUPPORTED_TIME_TYPE",
    "PARQUET_TYPE_ILLEGAL",
    "PARQUET_TYPE_NOT_SUPPORTED",
    "PARQUET_TYPE_NOT_RECOGNIZED",
)
"""Spark's error conditions for a file with a column of a type that it does not have, such as a time of day."""


def columnar_format(
    columnar: ArrowReader, load: Callable[[DataFrameReader, Sequence[str]], DataFrame], write: Writer | None = None
) -> SparkFormat:
    """A format of such files; `load` reads files whose columns are of the same types."""

    def loaded(spark: SparkSession, spec: SourceSpec, paths: Sequence[str]) -> DataFrame:
        try:
            return load(file_reader(spark), paths)
        except AnalysisException as error:
            if error.getCondition() not in _ILLEGAL:
                raise
            return load(file_reader(spark).schema(_asked_for(columnar, spec, place_of(paths[0]))), paths)

    def read(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
        # Spark assumes that all files have the types of one of them.
        alike = [paths] if len(paths) == 1 else of_one_type(columnar, spec, paths, place_of)
        with settings(spark, _AS_NUMBERS):
            found = [loaded(spark, spec, some) for some in alike]
        if isinstance(spec.row, ty.RecordType) and not spec.row.fields:
            return ParsedRows(found[0], [])  # without a column, all files are of one type
        missing = spec.may_lack_columns
        numbers = spec.truncate_timestamps
        # An ENUM of Parquet is bytes in Arrow, and so may be asked for as bytes, but is a text in Spark.
        whole = [
            conformed(df, spec.row, spec.path, missing_columns=missing, nanoseconds=numbers, enumerations=True)
            for df in found
        ]
        rows = reduce(DataFrame.union, whole)
        return ParsedRows(rows, [f"{quote(name)} AS {label(i)}" for i, name in enumerate(rows.columns)])

    def apart(spec: SourceSpec, files: Sequence[Path]) -> Sequence[Sequence[Path]]:
        return of_one_type(columnar, spec, files, Path)

    return SparkFormat(read=read, columns=lambda spec: None, apart=apart, write=write)


def _asked_for(columnar: ArrowReader, spec: SourceSpec, file: Path) -> StructType:
    """The columns of a file that are asked for, or all if there are none, without types that Spark does not have."""
    schema = file_schema(columnar, file)
    assert not isinstance(schema, Malformed)
    assert isinstance(spec.row, ty.RecordType)
    names = [name for name in spec.row.names if name in schema.names] or schema.names
    return readable_schema([schema.field(name) for name in names])
