"""Streams that follow tables of Delta Lake, version by version."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.runtime.spark.test_equivalence import few
from tests.support.delta_tables import apply, create, histories, shapes
from tests.support.followed_tables import GROUPS, JOIN, ROWS, assert_follows


def follow_a_history(home: Path, data: st.DataObject, spark: SparkSession | None = None) -> None:
    """After each batch, of one version or several, the answer is that over the table as `deltalake` reads it."""
    shape = data.draw(shapes())
    steps = data.draw(histories(shape))
    create(home / "t", shape)
    text = data.draw(st.sampled_from([ROWS, GROUPS, JOIN]))
    assert_follows(home, text, steps, partial(apply, home / "t", shape), data, spark)


@settings(max_examples=40, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_a_history(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A stream follows any history of appends, deletions, updates, merges, overwrites, compactions and restores, with
    odd values and names."""
    follow_a_history(tmp_path_factory.mktemp("home"), data)


@pytest.mark.spark
@settings(few, max_examples=6)
@given(st.data())
def test_a_history_on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """The same on Spark, which reads the files itself."""
    follow_a_history(tmp_path_factory.mktemp("home"), data, spark)
