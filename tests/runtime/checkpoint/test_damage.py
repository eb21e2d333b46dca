"""Damage to any file that a stream has left is reported by the next start, or nothing depends on it."""

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
    """A policy under which a few batches suffice for runs of changes and lists of files."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 1)


CASES = 170
"""The number of damages that are tried for each of the streams: more than 500 in all."""


@pytest.mark.parametrize("scene", SCENES)
def test_damage(tmp_path: Path, scene: Callable[[Path], Left]) -> None:
    """Damage to any file is reported or harmless; here a sample of the damages is tried, `make soak` has all."""
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
    """With a damaged outbox, a database gets what was committed, or nothing."""
    damage_the_outbox(undelivered(tmp_path, postgresql))


def test_damage_to_the_outbox_of_delta(tmp_path: Path) -> None:
    """The same for a table of Delta Lake, whose log does not say what the content of its files should be."""
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
"""The number of damages to files that a start on Spark reads, which ends before a batch; `make soak` has more."""


@pytest.mark.spark
def test_damage_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """On Spark too damage is reported or harmless; most of it is to runs, as the other files are the same in both
    engines."""
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
    """Whether a checksum detects a flipped bit in the last page of each column of a Parquet file."""
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
    """`has_checksums` distinguishes files with checksums of pages from those without, which are read just as well."""
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
    pq.write_table(table, tmp_path / "f", write_page_checksum=checked)
    assert pq.read_table(tmp_path / "f", page_checksum_verification=True) == table
    assert has_checksums(tmp_path / "f", tmp_path / "flipped") == checked
