"""Plans on Spark that run as they are, and not as generated code: what tests do over a handful of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from mrql.runtime.spark.session import session

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To compile the code of a plan takes longer than to run it over a handful of rows."""


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Nothing is compiled for the time of the block, in tasks neither.

    Tasks know the settings of the session if a query of Spark's has started them. Those that compute the rows of a
    state know only what is a property of the thread, and would compile each expression.
    """
    context = spark.sparkContext
    with session.settings(spark, INTERPRETED):
        for key, value in INTERPRETED.items():
            context.setLocalProperty(key, value)
        try:
            yield
        finally:
            for key in INTERPRETED:
                context.setLocalProperty(key, None)  # type: ignore[arg-type]
