"""Local checkpoints of rows."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.jvm.persisted import _signature

pytestmark = pytest.mark.spark


def found(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, df.collect()))


def test_rows_are_kept_as_spark_keeps_them(spark: SparkSession) -> None:
    """Rows are kept with their columns and partitioning, from their first computation until they are freed."""
    rows = spark.range(9).selectExpr("id % 4 AS a", "CAST(id AS STRING) AS b").repartition(2, "a")
    theirs = rows.localCheckpoint(eager=False)
    before = jvm.persistent_rdds(spark)
    kept, shape = jvm.local_checkpoint(rows, small=True)
    assert jvm.persistent_rdds(spark) == before + 1
    assert shape.signature == _signature(theirs._jdf.queryExecution().logical())
    assert shape.is_by_key
    assert not kept.isCheckpointed()
    assert found(shape.over(spark, kept)) == found(rows)
    assert kept.isCheckpointed(), "it does not know any more what it was made of"
    jvm.free(kept)
    assert jvm.persistent_rdds(spark) == before
