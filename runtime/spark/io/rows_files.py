"""Rows that a source has written to files, read by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.sources.rows_file import RowsFile
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.paths import path_to_read
from mrql.runtime.spark.io.schema import conformed
from mrql.runtime.spark.relation.frame import Frame, from_dataframe


def rows_files(spark: SparkSession, row: Type, files: Sequence[RowsFile]) -> Frame | None:
    """The rows of some files, each of them once; None where there are no files."""
    if not files:
        return None
    assert isinstance(row, ty.RecordType)
    by_place = ty.TupleType(tuple(t for _, t in row.fields))
    paths = [path_to_read(spark, file.path, 0) for file in files]
    return from_dataframe(conformed(file_reader(spark).parquet(*paths), by_place, "the rows of a source"), row)
