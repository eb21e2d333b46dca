"""Sessions with other settings: to interpret plans instead of generating code, or as they may be set elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from mrql.runtime.spark import jvm

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Without generated code: to compile that of a plan takes longer than to run it over a handful of rows."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""The defaults of Spark."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """A block in which no code is generated, not even in tasks."""
    with _set_everywhere(spark, INTERPRETED):
        yield


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """A block in which code is generated again."""
    with _set_everywhere(spark, COMPILED):
        yield


@contextmanager
def _set_everywhere(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Sets the session and the properties of the thread: tasks know the settings of the session if a query of Spark has
    started them, but those that compute the rows of a state know only the properties of the thread."""
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in conf}
    switch = jvm.Switch.of(spark, conf)
    switch.on()
    for key, value in conf.items():
        context.setLocalProperty(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            context.setLocalProperty(key, earlier)  # type: ignore[arg-type]
        switch.off()


ODD: Mapping[str, str] = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.legacy.createEmptyCollectionUsingStringType": "true",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.statisticalAggregate": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
}
"""Settings that a session may have for other programs that use it: no answer depends on them."""


@contextmanager
def oddly_set(spark: SparkSession) -> Iterator[None]:
    """A block in which the session has the settings `ODD`."""
    with _set_everywhere(spark, ODD):
        yield
