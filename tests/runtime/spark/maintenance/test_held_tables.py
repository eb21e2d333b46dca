"""Static tables in files are read in place, and a file that has changed is an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError

pytestmark = pytest.mark.spark

JOIN = "select (a, sum(d)) from (a, b) in S, (c, d) in T where b = c group by a"
OVER_ALL = "(sum(select b from (a, b) in S), count(T))"
PAIRS = "bag((long, long))"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A table with an odd name: `1 → 10`."""
    file = tmp_path / "rates of = % \u00e9.csv"
    file.write_text("1,10\n")
    return file


def read(spark: SparkSession, file: Path) -> DataFrame:
    return spark.read.schema("c BIGINT, d BIGINT").csv(str(file))


def one(spark: SparkSession, a: int) -> DataFrame:
    return spark.createDataFrame([(a, 1)], "a BIGINT, b BIGINT")


@pytest.mark.parametrize("text", [JOIN, OVER_ALL])
@pytest.mark.parametrize("gone", [False, True])
def test_a_file_that_has_changed(spark: SparkSession, file: Path, text: str, gone: bool) -> None:
    """If a file has changed or is gone, a batch is refused, as is an answer that reads the table; the view stays as it
    was."""
    with mrql.compile(text, S=PAIRS, T=PAIRS).view(spark, T=read(spark, file)) as view:
        view.apply(S=one(spark, 7))
        kept = shutil.copy2(file, file.with_suffix(".kept"))
        before = view.answer().collect()
        if gone:
            file.unlink()
        else:
            file.write_text("1,10\n1,20\n")
        what = "has gone" if gone else "has changed"
        with pytest.raises(UserError, match=f"{what} since the view was made"):
            view.apply(S=one(spark, 8))
        if text == OVER_ALL:
            with pytest.raises(UserError, match=what):
                view.answer()
        else:
            assert view.answer().collect() == before
        shutil.copy2(kept, file)
        view.apply(S=one(spark, 8))
        assert len(view.answer().collect()) == (2 if text == JOIN else 1)


def test_a_table_that_is_cached(spark: SparkSession, file: Path) -> None:
    """A cached table keeps its rows, whatever becomes of the file."""
    cached = read(spark, file).cache()
    cached.count()
    with mrql.compile(JOIN, S=PAIRS, T=PAIRS).view(spark, T=cached) as view:
        file.write_text("1,99\n")
        view.apply(S=one(spark, 7))
        assert [tuple(row) for row in view.answer().collect()] == [(7, 10)]
    cached.unpersist()
