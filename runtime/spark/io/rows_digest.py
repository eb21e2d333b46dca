"""A digest of the rows of a frame, whatever their order."""

from __future__ import annotations

import hashlib

from pyspark.sql import SparkSession

from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import to_sql
from mrql.runtime.spark.relation.frame import Frame

AS_TEXT = (
    "to_json(struct(row), map('ignoreNullFields', 'false', 'timestampFormat', 'y-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'y-MM-dd HH:mm:ss.SSSSSS'))"
)
"""A row as a complete text: Spark's hash does not tell a missing element from none."""

SHOWN_DIGITS = 16
"""The number of hexadecimal digits of a hash that are shown."""


def rows_digest(frame: Frame, spark: SparkSession) -> str:
    """The number of rows, and a hash of that number and the sums of two 64-bit hashes of each row."""
    texts = frame.df.select(f"{to_sql(canonical(Expressions(), frame.value))} AS row").select(f"{AS_TEXT} AS text")
    hashes = texts.select("xxhash64(text) AS one", "xxhash64(1L, text) AS other")
    sums = [f"sum(CAST({name} AS DECIMAL(38, 0))) AS {name}" for name in ("one", "other")]
    found = hashes.aggregate([], ["count(1) AS rows", *sums]).dataframe(spark).head()
    assert found is not None
    whole = hashlib.sha256(f"{found['rows']} {found['one']} {found['other']}".encode()).hexdigest()
    return f"{found['rows']} rows, {whole[:SHOWN_DIGITS]}"
