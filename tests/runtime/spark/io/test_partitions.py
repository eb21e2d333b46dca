"""Columns from the paths of files, on Spark as in the reference reader."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mrql.algebra.values.values import Bag, Record, same
from mrql.jobs.loading import compile_over_files
from mrql.runtime.sources.arrived import Arrived
from mrql.runtime.sources.files import list_files
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.readers import read, read_batch
from mrql.runtime.spark.relation.frame import ColumnNames, flat
from tests.runtime.sources.test_partitions import write
from tests.runtime.spark.io.test_formats import assert_same
from tests.runtime.spark.test_equivalence import few
from tests.support.partitioned import WRITERS, table, tables

pytestmark = pytest.mark.spark

DAY = date(2024, 1, 31)


def test_a_float_is_rounded_once(spark: SparkSession, tmp_path: Path) -> None:
    """From its text, and not by way of a double."""
    write(tmp_path, {"d/x=1.0000000596046447754/a.csv": "1\n", "d/x=NaN/a.csv": "2\n", "d/x=-Infinity/a.csv": "3\n"})
    found = assert_same(spark, 'source(csv, "d", ",", type(<x: float, n: int>))', tmp_path)
    assert Record({"x": 1.0000001192092896, "n": 1}) in list(found)


@seed(2026)
@settings(few, max_examples=14)
@given(tables(), st.sampled_from([*WRITERS]))
def test_generated_values(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    given: tuple,  # type: ignore[type-arg]
    format: str,
) -> None:
    """Generated values in paths are read alike by both engines, also if Spark reads a directory through a link."""
    home = tmp_path_factory.mktemp("home")
    source, expected = table(home, *given, format)
    assert same(assert_same(spark, f"source({source})", home), expected)


def test_names_as_they_lie_on_the_disk(spark: SparkSession, tmp_path: Path) -> None:
    """Unescaped characters and invalid escapes in paths stand for themselves, and malformed rows are found there."""
    odd = ["a+b", "a%2Bb", "50%", "%zz", "é%C3%A9", "[1]", "a:b", "{x}%7D", " ", "a=b", "%5", "%4:", "\\", "*"]
    write(tmp_path, {f"d/N={name}/h={i}/f{i}.csv": f"{i}\nbad\n" for i, name in enumerate(odd)})
    rows = assert_same(spark, 'source(csv, "d", ",", type(<N: string, x: int, h: long>))', tmp_path)
    assert sorted(row["N"] for row in rows)[:3] == [" ", "%4:", "%5"]
    write(
        tmp_path,
        {"e/n=0x1p3/a": "1\n", "e/n=-Infinity/a": "1\n", "e/n=0.1/a": "1\n", "e/n=7/a": "x\n", "e/n=y/a": "1\n"},
    )
    for t in ("float", "double", "string"):
        assert_same(spark, f'source(csv, "e", ",", type(<n: {t}, x: int>))', tmp_path)
    write(tmp_path, {"j/n=1/a": '{"x": 1}\n', "j/n=2/a": '{"x": 2.5}\n{"x"}\n'})
    assert_same(spark, 'source(json, "j")', tmp_path)
    assert_same(spark, 'source(json, "j", type(<n: int>))', tmp_path)
    write(tmp_path, {"c/n=1/a": "x,y\n1,2\n", "c/n=2/a": "y,x\n1,2\n1\n"})
    assert_same(spark, 'source(csv, "c", ",", type(<n: int>), header)', tmp_path)
    assert_same(spark, 'source(csv, "c", ",", type(<y: int, n: int, x: int>), header)', tmp_path)
    options = 'header, nullValue("1"), comment("2"), multiline, dateFormat("dd.MM.yyyy")'
    write(tmp_path, {"m/d=2024-01-31/a": '2,\nx,y\n1,31.01.2024\n"1",1\n', "m/d=x/a": "x,y\n"})
    rows = assert_same(spark, f'source(csv, "m", ",", type(<x: string, y: date, d: date>), {options})', tmp_path)
    assert rows == Bag(Record({"x": x, "y": y, "d": DAY}) for x, y in ((None, DAY), ("1", None)))
    write(tmp_path, {"k/n=1/a": '[{"x": 1},\n{"x": 2}]', "k/n=2/a": '{"x": 2.5}', "k/n=3/a": "[", "k/n=4/a": "[5]"})
    assert len(assert_same(spark, 'source(json, "k", type(<x: double, n: int>), multiline)', tmp_path)) == 3


def test_one_plan_reads_all_files_of_a_batch_and_of_the_next(spark: SparkSession, tmp_path: Path) -> None:
    """One plan reads all files of a batch, and is of the same kind in later batches: it contains no value of a path."""
    text = 'stream(csv, "d", ",", type(<dt: date, x: int>))'
    (spec,) = compile_over_files(f"count({text});", base=tmp_path).sources.values()
    kinds = []
    for day in range(1, 4):
        write(tmp_path, {f"d/dt=2024-01-0{day}/h={i}/f{i}.csv": f"{i}\n" for i in range(day)})
        files = [file for file in list_files(spec) if f"01-0{day}" in str(file)]
        frame = read_batch(spark, spec, [Arrived(file) for file in files], ColumnNames())
        kinds.append(frame.df.table.kind)  # type: ignore[attr-defined]
        found = collect_value(flat(frame, ColumnNames()).df.dataframe(spark), spec.type)
        assert found == Bag(Record({"dt": date(2024, 1, day), "x": i}) for i in range(day))
    assert len({*kinds}) == 1
    plan = read(spark, spec).df.dataframe(spark)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan") == 1
    assert "2024" not in plan.split("Location")[0]


def test_columns_of_other_types(spark: SparkSession, tmp_path: Path) -> None:
    """Files whose columns have different types also have the columns of their paths."""
    for i, t in enumerate((pa.int32(), pa.int64(), pa.int32())):
        (tmp_path / "d" / f"n={i}").mkdir(parents=True)
        pq.write_table(pa.table({"x": pa.array([i], t)}), tmp_path / "d" / f"n={i}" / "f")
    rows = assert_same(spark, 'source(parquet, "d", type(<n: int, x: long>))', tmp_path)
    assert rows == Bag(Record({"n": i, "x": i}) for i in range(3))
    assert len(assert_same(spark, 'source(parquet, "d", type(<n: int>))', tmp_path)) == 3
