"""Streams that are killed publish every batch once, with the answers of an uninterrupted run."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.values.values import close
from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.crashes import survives
from tests.runtime.checkpoint.fed_views import FOLLOWED, LAKES, LOGS, SNAPSHOTS, logged, view_survives
from tests.runtime.checkpoint.streams import Stream, batch_answer, fill
from tests.support.postgresql import Server

BATCHES = 24


@pytest.mark.slow
def test_kills_of_the_reference_engine(tmp_path: Path, postgresql: Server) -> None:
    """A stream with deletions survives eight kills, with a directory and a table as output; a state is larger than what
    is written whole. In `make soak` the output may also be changes."""
    fill(tmp_path, BATCHES, Random(1), first=1200)
    stream = Stream(tmp_path, emit=Emit.SNAPSHOT)
    assert survives(stream, Random(2), kills=8, delay=0.2, server=postgresql) == 8
    assert len(stream.answers()) == BATCHES
    assert close(stream.answers()[f"batch-{BATCHES - 1:06d}"], batch_answer(stream))


@pytest.mark.spark
@pytest.mark.slow
def test_kills_of_spark(tmp_path: Path) -> None:
    """A stream on Spark survives a kill, after which it is started once more."""
    fill(tmp_path, 5, Random(3), first=1200)
    assert survives(Stream(tmp_path, engine="spark"), Random(4), kills=1, delay=2) == 1


@pytest.mark.spark
@pytest.mark.slow
def test_kills_of_a_view(spark: SparkSession, tmp_path: Path) -> None:
    """A view that follows two streams of files survives a kill; that numbered batches count once is in
    `tests/mrql/api`, and more of both in `make soak`."""
    view_survives(spark, tmp_path, FOLLOWED, Random(2), kills=1, delay=1)


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("way", [LAKES, SNAPSHOTS])
def test_kills_of_a_view_of_versions(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """A view that follows two tables of Delta Lake, or of Iceberg, survives a kill."""
    view_survives(spark, tmp_path, way, Random(3), kills=1, delay=1)


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.slow
def test_kills_of_a_view_of_logs(spark: SparkSession, tmp_path: Path, postgresql: Server) -> None:
    """A view that follows two tables of a database survives kills; each transaction changes both tables."""
    with logged(postgresql, tmp_path):
        view_survives(spark, tmp_path, LOGS, Random(4), kills=2, delay=1)
