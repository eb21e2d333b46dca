"""An answer on Spark: a DataFrame of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from mrql.algebra.catalog import item_type
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.runtime.engine.answer import Output, RowCount
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.answer_rows import rows_alone
from mrql.runtime.spark.io.collect import collect_changes, collect_value
from mrql.runtime.spark.io.formats import writer_of
from mrql.runtime.spark.io.paths import path_to_write
from mrql.runtime.spark.session.session import AS_WRITTEN, settings

IN_FILES: Mapping[str, str] = {
    **AS_WRITTEN,
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
"""Settings by which every reader finds the same dates before the Gregorian calendar, and lists as Parquet has them."""


@attrs.frozen
class SparkRows:
    """The rows of an answer of a type, or of its `changes`, with their weights in the last column."""

    df: DataFrame
    type: Type
    changes: bool = False

    def collect(self) -> Value:
        """Collects the rows to the driver."""
        if self.changes:
            return collect_changes(self.df, item_type(self.type))
        return collect_value(self.df, self.type)

    def write(self, output: Output, directory: Path, files: DurableFiles) -> None:
        """Writes the rows by Spark, in as many files as there are partitions."""
        spark = self.df.sparkSession
        with settings(spark, IN_FILES):
            rows = rows_alone(self.df, self.type, weighted=self.changes)
            with nullcontext() if jvm.is_remote(spark) else jvm.ending_with(spark):
                writer_of(output.format)(rows, output, path_to_write(spark, directory))
        # The checksum that Hadoop keeps of the `_SUCCESS` file, which may be written anew.
        files.remove(directory / "._SUCCESS.crc")

    def counted(self) -> tuple[SparkRows, RowCount]:
        """The same rows, counted by the job that computes them, and a function that returns their number."""
        observed = Observation()
        counted = self.df.observe(observed, F.count(F.lit(1)).alias("rows"))

        def rows() -> int | None:
            found = jvm.observed_now(observed)
            return None if found is None else int(found)

        return attrs.evolve(self, df=counted), rows
