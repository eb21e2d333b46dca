"""Streams that follow tables of Iceberg, snapshot by snapshot."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.runtime.spark.test_equivalence import few
from tests.support.delta_tables import histories
from tests.support.followed_tables import GROUPS, JOIN, ROWS, assert_follows
from tests.support.iceberg_tables import KINDS_OF_STEPS, apply, create_shape, shapes


def follow_a_history(home: Path, data: st.DataObject, spark: SparkSession | None = None) -> None:
    """After each batch, of one snapshot or several, the answer is that over the table as `pyiceberg` reads it."""
    shape = data.draw(shapes())
    steps = data.draw(histories(shape, KINDS_OF_STEPS))
    create_shape(home / "t", shape)
    text = data.draw(st.sampled_from([ROWS, GROUPS, JOIN])).replace("delta", "iceberg")
    assert_follows(home, text, steps, partial(apply, home / "t", shape), data, spark)


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_a_history(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A stream follows any history of appends, deletions, overwrites of some rows and of partitions, added columns,
    compactions and rollbacks, with odd values."""
    follow_a_history(tmp_path_factory.mktemp("home"), data)


@pytest.mark.spark
@settings(few, max_examples=2)
@given(st.data())
def test_a_history_on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """The same on Spark, which reads the files itself."""
    follow_a_history(tmp_path_factory.mktemp("home"), data, spark)
