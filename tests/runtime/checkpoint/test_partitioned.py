"""Streams over partitioned directories: new partitions, restarts, and files that change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.checkpoint.streams import Stream, write

SUMS = """
edges = stream(csv, "edges", ",", type(<dt: date, x: long, h: int>){});
select (d, h, sum(x), count(x)) from <dt: d, x: x, h: h> in edges group by d, h;
"""
FOUND = """
edges = stream(json, "edges");
select (d, sum(x)) from <dt: d, x: x> in edges group by d;
"""


def answers(home: Path, engine: str, spark: SparkSession | None) -> None:
    """Checks the answers of a tagged and of a rewritable stream, each run of which goes on after the last one."""
    tagged = Stream(home, SUMS.format(", tagged"), engine, spark=spark, checkpoint_name="tagged", output="tagged-out")
    rewritten = Stream(home, SUMS.format(""), engine, spark=spark, rewritable=True, max_files=None)
    shutil.rmtree(home / "edges", ignore_errors=True)
    write(home / "edges" / "dt=2024-01-01" / "h=1" / "a.csv", "+,1\n+,2\n", 0)
    tagged.run()
    write(home / "edges" / "dt=2024-01-02" / "h=1" / "b.csv", "+,4\n", 1)
    write(home / "edges" / "dt=2024-01-01" / "h=1" / "c.csv", "-,2\n", 2)
    write(home / "edges" / "dt=__HIVE_DEFAULT_PARTITION__" / "h=%32" / "d.csv", "+,8\n+,9\n", 3)
    tagged.run()
    assert [str(sorted(rows, key=str)) for rows in tagged.answers().values()] == [
        "[('2024-01-01', 1, 3, 2)]",
        "[('2024-01-01', 1, 3, 2), ('2024-01-02', 1, 4, 1)]",
        "[('2024-01-01', 1, 1, 1), ('2024-01-02', 1, 4, 1)]",
        "[('2024-01-01', 1, 1, 1), ('2024-01-02', 1, 4, 1), (None, 2, 17, 2)]",
    ]
    shutil.rmtree(home / "edges")
    write(home / "edges" / "dt=2024-01-01" / "h=1" / "a.csv", "1\n2\n", 0)
    write(home / "edges" / "dt=2024-01-02" / "h=1" / "a.csv", "5\n", 0)
    rewritten.run()
    write(home / "edges" / "dt=2024-01-01" / "h=1" / "a.csv", "7\n", 5)
    (home / "edges" / "dt=2024-01-02" / "h=1" / "a.csv").unlink()
    write(home / "edges" / "dt=2024-01-03" / "h=1" / "a.csv", "6\n", 6)
    rewritten.run()
    assert [str(sorted(rows)) for rows in rewritten.answers().values()] == [
        "[('2024-01-01', 1, 3, 2), ('2024-01-02', 1, 5, 1)]",
        "[('2024-01-01', 1, 7, 1), ('2024-01-03', 1, 6, 1)]",
    ]


def test_in_the_reference_engine(tmp_path: Path) -> None:
    """In the reference engine, new partitions are read, and rows are deleted again from the partition that they were
    in."""
    answers(tmp_path, "reference", None)


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """The same on Spark."""
    answers(tmp_path, "spark", spark)


def test_a_type_that_was_found_becomes_wider(tmp_path: Path) -> None:
    """When a type that was found is widened, the column of the path stays a string, and columns of that name in files
    are ignored."""
    stream = Stream(tmp_path, FOUND, max_files=None)
    write(tmp_path / "edges" / "dt=1" / "a.json", '{"x": 1, "dt": 5}\n', 0)
    stream.run()
    write(tmp_path / "edges" / "dt=2" / "b.json", '{"x": 1.5, "y": [1], "dt": [0]}\n', 1)
    stream = Stream(tmp_path, FOUND, max_files=None)
    stream.run()
    assert [str(sorted(rows)) for rows in stream.answers().values()] == ["[('1', 1)]", "[('1', 1.0), ('2', 1.5)]"]
