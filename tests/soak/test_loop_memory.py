"""The memory that batches of a loop leave in use: how `make soak`, which looks at 200 of them, judges it, and a
leak."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.soak.loop_memory import EDGE, HOPS, Sample, edges, growth


def test_what_grows_is_seen() -> None:
    """An RDD or a megabyte more with each batch is detected as growth."""
    lost = [Sample(n, n, 100.0 + n) for n in range(3, 31, 3)]
    assert growth(lost) == (12, 1.0)
    assert growth([Sample(n, 5, 100.0) for n in range(3, 31, 3)]) == (0, 0.0)


def test_what_goes_up_and_down_is_not_lost() -> None:
    """Memory that goes up and down is no growth, even if the least in use rises by some megabytes by chance, if the
    most does not."""
    used = [111.8, 108.2, 110.2, 96.0, 110.2, 93.9, 110.2, 100.0, 110.4, 102.0]
    rdds, megabytes = growth([Sample(20 * n, 15, each) for n, each in enumerate(used, 1)])
    assert rdds == 0
    assert megabytes < 0.01


@pytest.mark.wide
@pytest.mark.spark
def test_what_only_the_steps_of_a_loop_change_stays_in_a_few_runs(spark: SparkSession) -> None:
    """A table of the join in the loop, to which the streams add nothing, stays in a few runs over many batches."""
    query = mrql.compile(HOPS, E="bag((int, int))")
    with query.view(spark, loop="fixpoint") as view:
        for number in range(8):
            view.apply(E=to_dataframe(spark, edges(number), EDGE))
        runs = [len(table.runs) for table in view._view.states.tables()]
    assert max(runs) <= 4, runs
