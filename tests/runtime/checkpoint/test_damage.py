"""Whatever is damaged of what a stream has left, the next start says so, or nothing rests on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mrql.runtime.checkpoint import policy
from tests.runtime.checkpoint.damage import SCENES, Damage, Left, stopped, undelivered, undelivered_to_delta
from tests.support.postgresql import Server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy under which a few batches have runs of changes, and lists of files."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 1)


CASES = 170
"""So many different damages to what each of the streams has left: more than 500 in all."""


@pytest.mark.parametrize("scene", SCENES)
def test_damage(tmp_path: Path, scene: Callable[[Path], Left]) -> None:
    """A sample: each file is damaged in some way. `make soak` has all positions."""
    left, random = scene(tmp_path), Random(7)
    found = left.damages(random, 1)
    assert {damage.file for damage in found} >= left.rests
    of_each = {damage.file: damage for damage in random.sample(found, len(found))}
    others = [damage for damage in found if damage != of_each[damage.file]]
    tried = [*of_each.values(), *random.sample(others, CASES - len(of_each))]
    assert len(set(tried)) * len(SCENES) > 500
    for damage in tried:
        left.after(damage)


def test_damage_to_the_outbox(tmp_path: Path, postgresql: Server) -> None:
    """What is still to be brought to a database is what was committed, or nothing is brought there."""
    damage_the_outbox(undelivered(tmp_path, postgresql))


def test_damage_to_the_outbox_of_delta(tmp_path: Path) -> None:
    """Nor to a table of Delta Lake, whose log does not know what its files should have in them."""
    damage_the_outbox(undelivered_to_delta(tmp_path))


def damage_the_outbox(left: Left) -> None:
    random = Random(9)
    assert left.table is not None
    found = left.damages(random, 1)
    waiting = [damage for damage in found if "/outbox/" in damage.file]
    assert waiting
    for damage in [*waiting, *random.sample(found, 12)]:
        left.after(damage)
    left.table.drop()


ON_SPARK = 24
"""So many damages to what a start on Spark reads, which does not get as far as a batch; `make soak` has more."""


@pytest.mark.spark
def test_damage_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """Some of them on Spark: most of a run, as what is written otherwise is the same in both engines."""
    left = stopped(tmp_path, "spark", spark)
    written = [tmp_path / file for file in left.rests if file.endswith(".parquet")]
    assert sum(pq.read_metadata(file).num_rows for file in written) > 0
    assert [file.name for file in written if not has_checksums(file, tmp_path / "flipped")] == []
    random = Random(8)
    found = left.damages(random, 1)
    read = [damage for damage in found if damage.file in left.rests]
    of_each = {damage.file: damage for damage in random.sample(read, len(read))}
    runs = [damage for damage in read if damage.file.endswith(".parquet")]
    others = [damage for damage in found if damage.file not in left.rests]
    for damage in [*of_each.values(), *random.sample(runs, ON_SPARK - len(of_each)), *random.sample(others, 3)]:
        left.after(damage)


def has_checksums(file: Path, flipped: Path) -> bool:
    """Whether the last page of each column of a Parquet file has a checksum, which tells that a bit is flipped."""
    metadata, data = pq.read_metadata(file), file.read_bytes()
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            first = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            last = first + column.total_compressed_size - 1
            flipped.write_bytes(Damage(file.name, last, bit=0).of(data) or b"")
            try:
                pq.read_table(flipped, page_checksum_verification=True)
            except OSError as error:
                if "CRC checksum verification failed" not in str(error):
                    return False
            else:
                return False
    return True


@pytest.mark.parametrize("checked", [True, False])
def test_checksums_of_pages_are_told(tmp_path: Path, checked: bool) -> None:
    """A file without them is read as well, so that reading one says nothing."""
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
    pq.write_table(table, tmp_path / "f", write_page_checksum=checked)
    assert pq.read_table(tmp_path / "f", page_checksum_verification=True) == table
    assert has_checksums(tmp_path / "f", tmp_path / "flipped") == checked
