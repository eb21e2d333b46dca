"""No answer depends on the settings of the session in which it is computed."""

from __future__ import annotations

import contextlib
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Record, same
from mrql.algebra.values.zset import ZSet
from mrql.jobs.batch import ReferenceBatchJob, SparkBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sources.formats.csv import CSV
from mrql.runtime.sources.formats.file_format import FileFormat
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.io.file_reader import file_reader
from tests.runtime.spark.expressions.test_functions import disagreements
from tests.runtime.spark.io.test_formats import assert_same
from tests.runtime.spark.test_equivalence import assert_equal_everywhere, few
from tests.support.planning import planned
from tests.support.queries import histories, queries
from tests.support.spark_settings import oddly_set

pytestmark = pytest.mark.spark


def test_functions(spark: SparkSession) -> None:
    """Functions of some kinds have the reference's values; `make soak` has all kinds."""
    with oddly_set(spark):
        for kind in ("Dates and timestamps", "Lists", "Operators"):
            assert not disagreements(spark, kind, 2026, rows=2)


@seed(2026)
@settings(few, max_examples=1)
@given(queries(), st.data())
def test_generated_queries(spark: SparkSession, text: str, data: st.DataObject) -> None:
    with oddly_set(spark):
        assert_equal_everywhere(spark, text, data.draw(histories(text, deletions=True, most=2)))


ROWS = 'bag(<t: timestamp, `a"b.c`: string, m: decimal(30, 10)>)'
QUERY = r"""
select (r.`a"b.c` + "\\d\"$", date_format(r.t, "d MMM yyyy HH:mm:ss.SSS"), parse_date("31.01.2024", "dd.MM.yyyy"),
        r.m / 3, r.m * r.m, r.t as string, (select x from x in {1} where x > 1))
from r in S
"""


def test_texts_names_times_and_decimals(spark: SparkSession) -> None:
    """Texts, names, times and decimals are the reference's, in an answer that is evaluated once and in a view."""
    rows = Bag([Record({"t": datetime(1500, 1, 1, 10, 0, 0, 123), 'a"b.c': "it's \\n", "m": Decimal("1.5")})])
    query = mrql.compile(QUERY, S=ROWS)
    reference = ReferenceView(planned(query.term).plan)
    reference.apply({"S": ZSet.of(rows)})
    with oddly_set(spark):
        df = to_dataframe(spark, rows, query.trace().plan.streams["S"])
        assert same(collect_value(query.batch(spark, S=df), query.type), reference.answer())
        with query.view(spark) as view:
            view.apply(S=df)
            assert same(collect_value(view.answer(), query.type), reference.answer())


def test_files(spark: SparkSession, tmp_path: Path) -> None:
    days = pa.table({"d": [date(1500, 1, 1)], "t": pa.array([datetime(1500, 1, 1)], pa.timestamp("us")), "m": [1]})
    pq.write_table(days, tmp_path / "f.parquet")
    (tmp_path / "f.csv").write_text('1,2024-02-30,"\\d"\n2,1500-01-01,"q""x"\n')
    (tmp_path / "f.json").write_text('{"a": 1.50, "d": "1500-01-01", "\\"b": "\\\\n"}\n')
    (tmp_path / "f.xml").write_text('<r><a n="1"><a/>x<b>y</b></a><a/></r>')
    with oddly_set(spark):
        assert len(assert_same(spark, 'source(parquet, "f.parquet")', tmp_path)) == 1
        assert len(assert_same(spark, 'source(csv, "f.csv", ",", type((int, date, string)))', tmp_path)) == 1
        assert len(assert_same(spark, 'source(json, "f.json")', tmp_path)) == 1
        assert len(assert_same(spark, 'source(xml, "f.xml", {"a"})', tmp_path)) == 2


def test_a_job_over_files(spark: SparkSession, tmp_path: Path) -> None:
    """What `mrql run` evaluates and stores is the reference's, and an overflow is an error."""
    (tmp_path / "f.csv").write_text("1,2024-02-30\n2,\n")
    (tmp_path / "f.xml").write_text("<r><a>x</a><a>y</a></r>")
    text = """
        R = source(csv, "f.csv", ",", type((long, string)));
        store kept := select (n, (select x from x in {1} where x > n)) from (n, s) in R;
        (kept, (select text(x) from x in source(xml, "f.xml", {"a"})), max(select n / 3.0m from (n, s) in R));
        select n + 9223372036854775807 from (n, s) in R;
    """
    program = compile_over_files(text, base=tmp_path)
    with oddly_set(spark), contextlib.closing(SparkBatchJob(program, lambda: spark)) as job:
        answer, overflow = program.queries
        assert same(job.answer(answer), ReferenceBatchJob(program).answer(answer))
        with pytest.raises(UserError, match="integer overflow"):
            job.answer(overflow)


def test_a_file_that_is_gone_or_damaged_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """A missing or damaged file is an error, also in a session that is set to ignore such files silently."""
    for name in ("gone.parquet", "damaged.parquet"):
        pq.write_table(pa.table({"a": [*range(1000)]}), tmp_path / name)
    with oddly_set(spark):
        gone, damaged = (
            file_reader(spark).schema("a LONG").parquet(str(tmp_path / name))
            for name in ("gone.parquet", "damaged.parquet")
        )
        (tmp_path / "gone.parquet").unlink()
        (tmp_path / "damaged.parquet").write_bytes(b"PAR1" + bytes(100))
        for df in (gone, damaged):
            with pytest.raises((PySparkException, Py4JJavaError)):
                df.collect()


@pytest.mark.parametrize("format", [PARQUET, JSON, CSV], ids=str)
def test_answers_in_files(spark: SparkSession, tmp_path: Path, format: FileFormat) -> None:
    """Answers in files have the right values for other readers."""
    t = parse_type("{<d: date, t: timestamp, m: decimal(10, 2), n: long>}")
    row = {"d": date(1500, 3, 1), "t": datetime(1500, 3, 1, 10), "m": Decimal("1.50"), "n": None}
    with oddly_set(spark):
        rows = SparkRows(to_dataframe(spark, [Record(row)], t), t)
        rows.write(Output(t, False, format), tmp_path / "out", DurableFiles())
    (part,) = (tmp_path / "out").glob("part-*")
    match format.name:
        case "parquet":
            assert pq.read_table(part).to_pylist() == [row]
        case "json":
            said = {"d": "1500-03-01", "t": "1500-03-01 10:00:00", "m": 1.50, "n": None}
            assert json.loads(part.read_text()) == said
        case _:
            assert part.read_text() == "1500-03-01,1500-03-01 10:00:00,1.50,\n"
