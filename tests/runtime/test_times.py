"""Dates and timestamps on their way through files, keys, tables and JSON, in both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession
from rich.console import Console

import mrql
from mrql.algebra import types as ty
from mrql.algebra.catalog import Columns
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Record, Value
from mrql.jobs.loading import compile_over_files
from mrql.output.tables import json_line, print_table, show_value
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.reference.answer import ReferenceRows
from mrql.runtime.sinks.files import write_output
from mrql.runtime.sources.arrived import static_files
from mrql.runtime.sources.files import read_source
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.io.readers import find_malformed, read
from mrql.runtime.spark.session.errors import translated

DAY, AT = date(2026, 1, 31), datetime(2026, 1, 31, 10, 20, 30, 500_000)
CSV = '2026-01-31,2026-01-31 10:20:30.5\n 2026-01-31 ,"2026-01-31T12:20:30.5+02:00"\n,\n0001-01-01,9999-12-31\n'
ROWS = Bag([(DAY, AT), (DAY, AT), (None, None), (date(1, 1, 1), datetime(9999, 12, 31))])
NESTED = "<d: date, t: timestamp, in: [<d: date>], pair: <t: timestamp, n: long>>"
JSON_LINES = (
    '{"d": "2026-01-31", "t": "2026-01-31T10:20:30.500Z", "in": [{"d": "2026-01-31"}, {"d": null}, null],'
    ' "pair": {"t": "2026-01-31", "n": 1}}\n{"in": []}\n'
)
NESTED_ROWS = Bag(
    [
        Record(
            {
                "d": DAY,
                "t": AT,
                "in": [Record({"d": DAY}), Record({"d": None}), None],
                "pair": Record({"t": datetime(2026, 1, 31), "n": 1}),
            }
        ),
        Record({"d": None, "t": None, "in": [], "pair": None}),
    ]
)


def write_parquet(path: Path) -> None:
    """Writes dates, and timestamps with a time zone and without one."""
    columns = {
        "d": pa.array([DAY, None], pa.date32()),
        "zoned": pa.array([AT.replace(tzinfo=UTC), None], pa.timestamp("us", tz="Europe/Zurich")),
        "clock": pa.array([AT, None], pa.timestamp("us")),
        "coarse": pa.array([datetime(2026, 1, 31), None], pa.timestamp("ms")),
    }
    pq.write_table(pa.table(columns), path)


PARQUET_ROWS = Bag(
    [
        Record({"d": DAY, "zoned": AT, "clock": AT, "coarse": datetime(2026, 1, 31)}),
        Record({"d": None, "zoned": None, "clock": None, "coarse": None}),
    ]
)
SOURCES: list[tuple[str, str, str | None, Bag]] = [
    (
        "f.csv",
        'source(csv, "f.csv", ",", type((string, int)))',
        '"",1\n,2\na,\n',
        Bag([("", 1), (None, 2), ("a", None)]),
    ),
    ("f.csv", 'source(csv, "f.csv", ",", type((date, timestamp)))', CSV, ROWS),
    ("f.json", f'source(json, "f.json", type({NESTED}))', JSON_LINES, NESTED_ROWS),
    ("f.parquet", 'source(parquet, "f.parquet")', None, PARQUET_ROWS),
]
MALFORMED = [
    ('source(csv, "f", ",", type((date, int)))', '"",1\n', '"" is not a value of type date'),
    ('source(csv, "f", ",", type((int, int)))', '"",1\n', '"" is not a value of type int'),
    (
        'source(csv, "f", ",", type((date, int)))',
        "2026-01-31,1\n2026-02-30,2\n",
        '"2026-02-30" is not a value of type date',
    ),
    ('source(csv, "f", ",", type(timestamp))', "2026-01-31 24:00\n", "is not a value of type timestamp"),
    ('source(json, "f", type(<d: date>))', '{"d": 5}\n', "5 is not a value of type date"),
    ('source(json, "f", type(<d: [date]>))', '{"d": ["31.1.2026"]}\n', '"31.1.2026" is not a value of type date'),
]


def write(directory: Path, name: str, text: str | None) -> None:
    if text is None:
        write_parquet(directory / name)
    else:
        (directory / name).write_text(text)


@contextmanager
def zone(spark: SparkSession, name: str) -> Iterator[None]:
    """A block in which the session has another time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        assert spark.conf.get("spark.sql.session.timeZone") == name
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")


@pytest.mark.parametrize(("name", "source", "text", "expected"), SOURCES, ids=["strings", "csv", "json", "parquet"])
def test_sources(tmp_path: Path, name: str, source: str, text: str | None, expected: Bag) -> None:
    """Dates and timestamps are read from each format, also inside lists and records."""
    write(tmp_path, name, text)
    spec = next(iter(compile_over_files(f"count({source});", base=tmp_path).sources.values()))
    assert read_source(spec) == expected


@pytest.mark.spark
@pytest.mark.parametrize("away", ["UTC", "America/New_York"])
@pytest.mark.parametrize(("name", "source", "text", "expected"), SOURCES, ids=["strings", "csv", "json", "parquet"])
def test_sources_on_spark(
    spark: SparkSession, tmp_path: Path, name: str, source: str, text: str | None, expected: Bag, away: str
) -> None:
    """Spark reads the same values, whatever the time zone of its session."""
    write(tmp_path, name, text)
    spec = next(iter(compile_over_files(f"count({source});", base=tmp_path).sources.values()))
    with zone(spark, away):
        frame = read(spark, spec)
        assert collect_value(frame.df.table, spec.type) == expected


@pytest.mark.spark
@pytest.mark.parametrize(("source", "text", "reason"), MALFORMED)
def test_malformed_on_spark(spark: SparkSession, tmp_path: Path, source: str, text: str, reason: str) -> None:
    """Spark finds the same rows malformed; a malformed date or timestamp in CSV also if its column is not used."""
    (tmp_path / "f").write_text(text)
    spec = next(iter(compile_over_files(f"count({source});", base=tmp_path).sources.values()))
    df = read(spark, spec).df.table
    looked_at = df.selectExpr("count(1)") if isinstance(spec.format.rows, Columns) and "int, int" not in source else df
    with (
        pytest.raises(UserError, match="malformed row") as caught,
        translated(None, lambda: find_malformed([(spec, static_files(spec))])),
    ):
        looked_at.collect()
    assert reason in caught.value.message


@pytest.mark.parametrize(("source", "text", "reason"), MALFORMED)
def test_malformed(tmp_path: Path, source: str, text: str, reason: str) -> None:
    """A row with a field that is no value of its type is malformed."""
    (tmp_path / "f").write_text(text)
    spec = next(iter(compile_over_files(f"count({source});", base=tmp_path).sources.values()))
    with pytest.raises(UserError) as caught:
        read_source(spec)
    assert caught.value.message.startswith("malformed row: ")
    assert reason in caught.value.message


def test_parquet_of_nanoseconds(tmp_path: Path) -> None:
    """Timestamps have microseconds; a file with no other column than one of nanoseconds is refused."""
    pq.write_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "f.parquet")
    with pytest.raises(UserError, match=r"no column of a type that the language has, but <t: timestamp\[ns\]>"):
        compile_over_files('source(parquet, "f.parquet")', base=tmp_path)


@pytest.mark.parametrize("since", [-(2**34), 2**35])
def test_timestamps_of_orc_that_arrow_does_not_read(tmp_path: Path, since: int) -> None:
    """A timestamp in ORC outside the years of 64-bit nanoseconds is an error, as Arrow does not read it; Spark has all
    years."""
    orc.write_table(pa.table({"t": pa.array([since], pa.timestamp("s"))}), tmp_path / "f.orc")
    program = compile_over_files('source(orc, "f.orc")', base=tmp_path)
    with pytest.raises(UserError, match=r"f\.orc has a timestamp that is not of the years 1678 to 2261"):
        read_source(next(iter(program.sources.values())))


def test_printing() -> None:
    """Values are printed in ISO 8601 with a blank, with no more digits than needed, and likewise in JSON and in
    tables."""
    t = parse_type("{(date, timestamp)}")
    assert show_value((DAY, AT)) == "(2026-01-31, 2026-01-31 10:20:30.5)"
    assert json.loads(json_line(1, t, ROWS)) == {
        "line": 1,
        "type": "bag((date, timestamp))",
        "value": [
            ["2026-01-31", "2026-01-31 10:20:30.5"],
            ["2026-01-31", "2026-01-31 10:20:30.5"],
            [None, None],
            ["0001-01-01", "9999-12-31 00:00:00"],
        ],
    }
    out = StringIO()
    print_table(ROWS, t, Console(file=out, width=80))
    assert "│ 2026-01-31 10:20:30.5" in out.getvalue()


def lines(directory: Path) -> list[dict[str, object]]:
    """The objects of a batch, sorted by their field `d`."""
    found = [json.loads(line) for part in directory.glob("part-*.json") for line in part.read_text().splitlines()]
    return sorted(found, key=lambda line: str(line["d"]))


@pytest.mark.spark
def test_the_files_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Both engines write the same text, down to the microsecond, also inside lists and records."""
    t = parse_type(f"{{{NESTED}}}")
    for engine, rows in (
        ("reference", ReferenceRows(NESTED_ROWS, t)),
        ("spark", SparkRows(to_dataframe(spark, NESTED_ROWS, t), t)),
    ):
        write_output(Output(t, False, JSON), rows, tmp_path / engine / "batch-000000", DurableFiles())
    written = lines(tmp_path / "spark" / "batch-000000")
    assert written == lines(tmp_path / "reference" / "batch-000000")
    assert {"d": "2026-01-31", "t": "2026-01-31 10:20:30.5"}.items() <= written[0].items()


@pytest.mark.spark
def test_frames_of_a_session_elsewhere(spark: SparkSession) -> None:
    """A timestamp in a user's DataFrame is read as UTC; the columns of the answer do not depend on the session
    either."""
    with zone(spark, "America/New_York"):
        df = spark.sql("SELECT DATE'2026-01-31' AS d, TIMESTAMP'2026-01-31 05:20:30.5' AS t, 1L AS n")
        query = mrql.compile(
            'select (p.d, p.t, hour(p.t), date_format(p.t, "H"), date_trunc("day", p.t), timestamp(p.d)) from p in P',
            P="bag(<d: date, t: timestamp, n: long>)",
        )
        midnight = datetime(2026, 1, 31)
        expected: Value = Bag([(DAY, AT, 10, "10", midnight, midnight)])
        assert collect_value(query.batch(spark, P=df), query.type) == expected
        with query.view(spark) as view:
            view.apply(P=df)
            assert collect_value(view.answer(), query.type) == expected


@pytest.mark.spark
def test_a_clock_that_is_set_forward(spark: SparkSession) -> None:
    """A time that the session's zone skips is a timestamp like others, as it exists in UTC."""
    query = mrql.compile('select (hour(t), date_format(t, "HH"), to_unix(t)) from t in T', T="bag(timestamp)")
    rows = Bag([datetime(2026, 3, 8, 2, 30)])
    with zone(spark, "America/New_York"):
        df = to_dataframe(spark, rows, ty.BagType(ty.TIMESTAMP))
        assert collect_value(query.batch(spark, T=df), query.type) == Bag([(2, "02", 1772937000)])
