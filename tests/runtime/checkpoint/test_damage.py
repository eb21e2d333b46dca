"""Whatever is damaged of what a stream has left, the next start says so, or nothing rests on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mrql.runtime.checkpoint import policy
from tests.runtime.checkpoint.damage import SCENES, Left, stopped, undelivered
from tests.support.postgresql import Server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy under which a few batches have runs of changes."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)


@pytest.mark.parametrize("scene", SCENES)
def test_damage(tmp_path: Path, scene: Callable[[Path], Left]) -> None:
    """A sample: each file is damaged in some way. `make soak` has all positions."""
    left, random = scene(tmp_path), Random(7)
    found = left.damages(random, 1)
    assert {damage.file for damage in found} >= left.rests
    of_each = {damage.file: damage for damage in random.sample(found, len(found))}
    for damage in [*of_each.values(), *random.sample(found, 40)]:
        left.after(damage)


def test_damage_to_the_outbox(tmp_path: Path, postgresql: Server) -> None:
    """What is still to be brought to a database is what was committed, or nothing is brought there."""
    left, random = undelivered(tmp_path, postgresql), Random(9)
    assert left.table is not None
    found = left.damages(random, 1)
    waiting = [damage for damage in found if "/outbox/" in damage.file]
    assert waiting
    for damage in [*waiting, *random.sample(found, 12)]:
        left.after(damage)
    left.table.drop()


@pytest.mark.spark
def test_damage_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """Some of them on Spark: most of a run, as what is written otherwise is the same in both engines."""
    left = stopped(tmp_path, "spark", spark)
    written = [tmp_path / file for file in left.rests if file.endswith(".parquet")]
    assert sum(pq.read_table(file, page_checksum_verification=True).num_rows for file in written) > 0
    random = Random(8)
    found = left.damages(random, 1)
    runs = [damage for damage in found if damage.file in left.rests and damage.file.endswith(".parquet")]
    for damage in [*random.sample(runs, min(12, len(runs))), *random.sample(found, 3)]:
        left.after(damage)
