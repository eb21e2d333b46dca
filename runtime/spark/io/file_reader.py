"""The reader of files, whatever the settings of the session."""

from __future__ import annotations

from pyspark.sql import DataFrameReader, SparkSession


def file_reader(spark: SparkSession) -> DataFrameReader:
    """Reads the files of a source, or of a checkpoint: a missing or damaged file is an error, and dates before the
    Gregorian calendar are taken as they are in the files. Frames that a program hands over follow the settings of its
    session instead."""
    return spark.read.options(
        ignoreCorruptFiles="false",
        ignoreMissingFiles="false",
        datetimeRebaseMode="CORRECTED",
        int96RebaseMode="CORRECTED",
    )
