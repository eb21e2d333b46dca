"""How files are read, whatever the session says of that."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession


def file_reader(spark: SparkSession) -> DataFrameReader:
    """Reads the files of a source, or of a checkpoint: one that is gone or damaged is an error, and days before the
    calendar of Gregory are those that the files have. For frames that a program hands over that is what it is in its
    session."""
    return spark.read.options(
        ignoreCorruptFiles="false",
        ignoreMissingFiles="false",
        datetimeRebaseMode="CORRECTED",
        int96RebaseMode="CORRECTED",
    )
