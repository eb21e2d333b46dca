"""Plans on Spark that run as they are, and not as generated code: what tests do over a handful of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from mrql.runtime.spark.session import session

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To compile the code of a plan takes longer than to run it over a handful of rows."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""As Spark is set by itself."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Nothing is compiled for the time of the block, in tasks neither."""
    with _set_everywhere(spark, INTERPRETED):
        yield


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """A block in which plans are compiled again."""
    with _set_everywhere(spark, COMPILED):
        yield


@contextmanager
def _set_everywhere(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Tasks know the settings of the session if a query of Spark's has started them. Those that compute the rows of a
    state know only what is a property of the thread."""
    context = spark.sparkContext
    before = {key: context.getLocalProperty(key) for key in conf}
    with session.settings(spark, conf):
        for key, value in conf.items():
            context.setLocalProperty(key, value)
        try:
            yield
        finally:
            for key, earlier in before.items():
                context.setLocalProperty(key, earlier)  # type: ignore[arg-type]
