"""Tables that a session has by name: those of its catalogs, and its temporary views."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.errors import UserError


def table_of(spark: SparkSession, name: str) -> DataFrame:
    """A table by its name.

    Raises: UserError if there is none.
    """
    try:
        df = spark.table(name)
        df.schema  # noqa: B018  under Spark Connect nothing is looked up before
    except AnalysisException as error:
        said = str(error).split("\n")[0]
        raise UserError(
            f"the session has no table `{name}`: {said}", hint="spark.catalog.listTables() has its tables"
        ) from None
    return df
