"""No memory is lost from batch to batch of a loop. `make soak` looks at 200 batches."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from mrql.api import Loop
from tests.loop_memory import WAYS, Sample, growth, require_level

BATCHES, EVERY = 30, 3


@pytest.mark.spark
@pytest.mark.parametrize("way", WAYS)
def test_no_memory_is_lost(spark: SparkSession, way: Loop) -> None:
    """RDDs that are kept and the heap after a collection stay level ([MRQL] §13 has them grow)."""
    require_level(spark, way, BATCHES, EVERY)


def test_what_grows_is_seen() -> None:
    """An RDD or a megabyte more with each batch."""
    lost = [Sample(n, n, 100.0 + n) for n in range(3, 31, 3)]
    assert growth(lost) == (18, 1.0)
    assert growth([Sample(n, 5, 100.0) for n in range(3, 31, 3)]) == (0, 0.0)
