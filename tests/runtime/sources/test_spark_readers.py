"""Python data sources of Spark as adapters: with the test kit for adapters, and in streams that are killed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row

from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Document, Record
from mrql.runtime.sources.source import Adapter, open_adapter
from mrql.runtime.sources.spark_reader import SparkReader
from mrql.testing import check_adapter
from tests.runtime.checkpoint.crashes import survives
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.runtime.sources.test_adapters import NUMBER, command, grown
from tests.support.data_sources import Lines


def opened(name: str, text: str | Path, row: str = "<n: long>") -> Adapter:
    return open_adapter(
        SourceSpec("s", True, ADAPTER, str(text), parse_type(row), adapter=f"tests.support.data_sources:{name}")
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [("Lines", ""), ("Lines", "?rows=2"), ("Reader", "?ROWS=100"), ("SimpleLines", ""), ("SimpleReader", "")],
)
def test_they_keep_what_adapters_promise(tmp_path: Path, name: str, options: str) -> None:
    """A data source, or its reader by itself, with or without a limit of its own, keeps the contract of adapters."""
    file = tmp_path / "n"
    assert opened(name, file).replays
    check_adapter(lambda: opened(name, f"{file}{options}"), grown(file), NUMBER)


def test_what_is_committed_is_told(tmp_path: Path) -> None:
    """A reader is told once of a commit, when the rows after it are asked for; such a reader may forget, unless it
    declares otherwise."""
    file = tmp_path / "n"
    check_adapter(lambda: opened("Committing", file), grown(file), NUMBER)
    told = file.with_suffix(".committed")
    assert told.read_text().split() == ["5", "10", "15"]
    told.unlink()
    adapter = opened("Committing", file)
    assert not adapter.replays
    end = adapter.latest(None, None)
    assert not told.exists()
    assert adapter.latest(end, None) == adapter.latest(end, None) == end
    assert told.read_text().split() == ["15"]


def test_it_begins_where_it_said(tmp_path: Path) -> None:
    """A stream begins at the initial offset of its reader, also if another reader reads the rows again; `latestOffset`
    may have the form from before Spark 4.2."""
    file = tmp_path / "n"
    file.write_text("0\n1\n")
    first = opened("Older", file)
    assert first.latest(None, None) is None
    file.write_text("0\n1\n2\n3\n")
    end = first.latest(None, None)
    assert end == {"initial": {"line": 2}, "offset": {"line": 4}}
    assert list(opened("Older", file).read(None, end)) == [(Record({"n": 2}), 1), (Record({"n": 3}), 1)]


def test_values(tmp_path: Path) -> None:
    """Columns are found by their names or their places, and Python values are converted as by Spark."""

    class Source(Lines):
        def streamReader(self, schema: Any) -> Any:
            return self

    dates = "t: timestamp, day: date"
    row = parse_type(
        f"<d: decimal(4, 2), x: double, {dates}, more: any, xs: [<a: int>], pair: (int, string), b: {{int}}>"
    )
    spec = SourceSpec("s", True, ADAPTER, "p?a=1%203&b=", row, adapter="a:b")
    reader = SparkReader.of(Source, spec).reader
    assert dict(reader.options) == {"path": "p", "a": "1 3", "b": ""}
    at = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    cells = {"d": Decimal("1.5"), "x": 1, "t": at, "day": date(2026, 1, 31), "more": '{"b": 1, "a": null}'}
    cells |= {"xs": [Row(a=1), {"a": 2}, None], "pair": (1, "x"), "b": [2, 1]}
    found = SparkReader(AsRows([Row(**cells), tuple(cells.values()), (None,) * 8]), spec)
    one, other, missing = (value for value, _ in found.read({"offset": 0}, {"offset": 1}))
    assert one == other
    assert (str(one["d"]), one["x"], one["t"]) == ("1.50", 1.0, at.astimezone(UTC).replace(tzinfo=None))
    assert one["more"] == Document('{"a":null,"b":1}')
    assert one["xs"] == [Record({"a": 1}), Record({"a": 2}), None]
    assert (one["pair"], one["b"]) == ((1, "x"), Bag([1, 2]))
    assert all(part is None for part in missing.fields.values())
    longs = SparkReader(AsRows([(1,), Row(value=2)]), SourceSpec("s", True, ADAPTER, "", parse_type("long")))
    assert [value for value, _ in longs.read({"offset": 0}, {"offset": 1})] == [1, 2]


class AsRows:
    """A reader with given rows."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def partitions(self, start: Any, end: Any) -> list[None]:
        return [None]

    def read(self, partition: None) -> list[Any]:
        return self.rows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Stuck", "failed in `latest`: ValueError: there are rows, and the offset after them is the one before them"),
        ("Wide", "failed in `read`: TypeError: (1, 2) does not have the columns n"),
        ("Demanding", "cannot be made: TypeError: it is not made as Demanding(schema, options); name its DataSource"),
    ],
)
def test_what_is_wrong_with_a_reader_names_it(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "n").write_text("1\n")
    source = f'stream(adapter, "tests.support.data_sources:{name}", "{tmp_path / "n"}", type(<n: long>))'
    result = command(tmp_path, f"select x from x in {source};")
    assert result.exit_code == 1
    assert f"the adapter tests.support.data_sources:{name} {said}" in result.stderr


# --- in a query ---------------------------------------------------------------------------------

QUERY = """
numbers = stream(adapter, "tests.support.data_sources:{name}", "{file}", type(<n: long>));
select (k, count(x), sum(x.n)) from x in numbers group by k: x.n mod 3;
"""


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_stream_of_a_data_source(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """A stream of a data source goes on after the offset that was committed."""
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    file = tmp_path / "n"
    file.write_text("1\n2\n3\n4\n")
    stream = Stream(tmp_path, QUERY.format(name="Lines", file=file), engine, spark=spark)
    stream.run()
    with file.open("a") as out:
        out.write("7\n8\n")
    stream.run()
    last = stream.answers()["batch-000001"]
    assert last == batch_answer(stream)
    assert sorted(last) == [(0, 1, 3), (1, 3, 12), (2, 2, 10)]
    manifest = json.loads(max(stream.checkpoint.glob("manifest-*")).read_text())
    assert manifest["sources"]["numbers"]["offset"] == {"initial": {"line": 0}, "offset": {"line": 6}}


READERS = ("Committing", "SimpleLines")
"""Data sources whose streams are killed: one may forget what was committed, the other one is simple."""


def source_survives(
    home: Path, name: str, random: Random, *, engine: str, batches: int, kills: int, delay: float
) -> int:
    """Kills the stream of a data source at random moments, and returns the number of kills.

    Each line must count once, and only offsets that were committed may be reported to the source.
    """
    file = home / "n"
    file.write_text("".join(f"{random.randint(0, 999)}\n" for _ in range(3 * batches)))
    stream = Stream(home, QUERY.format(name=name, file=f"{file}?rows=3"), engine, max_rows=100)
    killed = survives(stream, random, kills=kills, delay=delay)
    if name == "Committing":
        told = [int(line) for line in file.with_suffix(".committed").read_text().split()]
        alone, among_kills = told[:batches], told[batches:]
        assert alone == [*range(3, 3 * batches + 1, 3)]
        assert among_kills == sorted(among_kills)
        assert {*alone} == {*among_kills}
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_kills_of_a_data_source(tmp_path: Path, name: str) -> None:
    assert source_survives(tmp_path, name, Random(5), engine="reference", batches=40, kills=3, delay=0.1) == 3


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.slow
def test_kills_of_a_data_source_on_spark(tmp_path: Path) -> None:
    """On Spark, a stream of the data source that may forget survives a kill; more of both in `make soak`."""
    assert source_survives(tmp_path, "Committing", Random(5), engine="spark", batches=5, kills=1, delay=1) == 1
