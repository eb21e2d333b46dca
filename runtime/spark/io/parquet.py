"""Parquet, read and written by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.runtime.engine.answer import Output
from mrql.runtime.sources.formats.parquet import IN_ARROW
from mrql.runtime.spark.io.columnar import columnar_format


def write_parquet(df: DataFrame, output: Output, path: str) -> None:
    """Writes the columns of the rows as they are."""
    df.write.mode("overwrite").parquet(path)


PARQUET = columnar_format(IN_ARROW, lambda reader, paths: reader.parquet(*paths), write_parquet)
