"""Views that are fed by a process that is killed: `python -m tests.runtime.checkpoint.fed_views HOME WAY`.

The process opens the view of HOME, feeds it all data in its directories in the given way, and writes the changes of
each batch to a file with the batch's number.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import attrs
import psycopg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.api import View
from tests.runtime.checkpoint.crashes import KilledProcess
from tests.runtime.postgresql.test_change_log import clear
from tests.support import iceberg_tables
from tests.support.postgresql import Server
from tests.support.spark_settings import INTERPRETED

JOIN = mrql.compile(
    "select (l.A, sum(r.D), max(r.D)) from l in left, r in right where l.B = r.C group by l.A",
    left="bag(<A: long, B: long>)",
    right="bag(<C: long, D: long>)",
)
SCHEMAS = {"left": "A long, B long", "right": "C long, D long"}
NUMBERS = mrql.compile(
    "select (k, count(x), sum(x.n)) from x in numbers group by k: x.n mod 7", numbers="bag(<n: long>)"
)

PATIENCE = 240
"""The seconds after which a process that has not ended is taken to hang."""

Rows = Mapping[str, DataFrame]


@attrs.frozen
class Way:
    """A way in which a view is fed."""

    query: mrql.Query
    fill: Callable[[Path, int, Random], int | None]
    """Writes data for about so many batches; returns their exact number, if it is known."""
    feed: Callable[[View, SparkSession, Path], None]
    rows: Callable[[SparkSession, Path, View], Rows]
    """The rows of each stream once everything has been fed."""
    grow: Callable[[Path, int, Random], None] | None = None
    """Writes data for about so many further batches, if all data that were there at first make one batch."""

    def view(self, spark: SparkSession, home: Path) -> View:
        return self.query.view(spark, checkpoint=home / "state")


def deliver(home: Path, changes: DataFrame, number: int) -> None:
    """Writes the changes of a batch to the file with its number, replacing an earlier one."""
    file = home / "changes" / f"{number:06d}.json"
    file.parent.mkdir(exist_ok=True)
    aside = file.with_suffix(".aside")
    aside.write_text(json.dumps([list(row) for row in changes.collect()]))
    aside.rename(file)


def follow(view: View, home: Path, **streams: DataFrame | mrql.FollowedSource) -> None:
    """Follows streams until all available data are read."""
    view.follow(trigger={"availableNow": True}, deliver=partial(deliver, home), **streams).awaitTermination()


def files(spark: SparkSession, directory: Path, schema: str) -> DataFrame:
    """A stream of the files in a directory, one file per batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(directory))


# --- files of insertions and of deletions -------------------------------------------------------


def fill_pairs(home: Path, batches: int, random: Random) -> int:
    """Writes a file of each stream for each batch, and one of deletions of rows of the batch before; returns the number
    of batches."""
    for name in SCHEMAS:
        (home / name).mkdir()
        (home / f"{name}-gone").mkdir()
        before: list[str] = []
        for number in range(batches):
            gone = random.sample(before, len(before) // 3)
            (home / f"{name}-gone" / f"{number:04d}.csv").write_text("".join(gone))
            before = [f"{random.randint(0, 9)},{random.randint(0, 9)}\n" for _ in range(random.randint(1, 30))]
            (home / name / f"{number:04d}.csv").write_text("".join(before))
    return len(SCHEMAS) * batches


def number_them(view: View, spark: SparkSession, home: Path) -> None:
    """Applies all batches of insertions and deletions, each with its number as offset, alternating between the
    streams."""
    for number, file in enumerate(sorted((home / "left").iterdir())):
        for name, schema in SCHEMAS.items():
            come, gone = (spark.read.schema(schema).csv(str(home / at / file.name)) for at in (name, f"{name}-gone"))
            delta = mrql.Delta(insert=come, delete=gone)
            view.apply(offset=number, deliver=partial(deliver, home), **{name: delta})


def pairs_left(spark: SparkSession, home: Path, view: View) -> Rows:
    def rows(name: str) -> DataFrame:
        come, gone = (spark.read.schema(SCHEMAS[name]).csv(str(home / at)) for at in (name, f"{name}-gone"))
        return come.exceptAll(gone)

    return {name: rows(name) for name in SCHEMAS}


def follow_files(view: View, spark: SparkSession, home: Path) -> None:
    follow(view, home, **{name: files(spark, home / name, schema) for name, schema in SCHEMAS.items()})


def all_pairs(spark: SparkSession, home: Path, view: View) -> Rows:
    return {name: spark.read.schema(schema).csv(str(home / name)) for name, schema in SCHEMAS.items()}


# --- a source of Spark --------------------------------------------------------------------------


def fill_ticks(home: Path, batches: int, random: Random) -> None:
    (home / "batches").write_text(str(batches))


def follow_ticks(view: View, spark: SparkSession, home: Path) -> None:
    """Follows the numbers that Spark generates, for at least as many batches as the file `batches` says."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    following = view.follow(numbers=source.selectExpr("value AS n"), deliver=partial(deliver, home))
    while view.batches < int((home / "batches").read_text()):
        following.awaitTermination(0.05)
    following.stop()


def all_ticks(spark: SparkSession, home: Path, view: View) -> Rows:
    return {"numbers": spark.range(5 * (view.offsets["numbers"]["batchId"] + 1)).selectExpr("id AS n")}


# --- tables with versions, and change logs ------------------------------------------------------


def drawn(random: Random) -> list[tuple[int, int]]:
    return [(random.randint(0, 9), random.randint(0, 9)) for _ in range(random.randint(1, 30))]


def columns_of(name: str) -> list[str]:
    """The names of the columns of a stream."""
    return [column.split(" ")[0] for column in SCHEMAS[name].split(", ")]


def append_to_lake(home: Path, name: str, rows: list[tuple[int, int]]) -> None:
    columns = columns_of(name)
    arrays = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    write_deltalake(home / name, pa.table(arrays, columns), mode="append")


def fill_lakes(home: Path, batches: int, random: Random) -> None:
    for name in SCHEMAS:
        append_to_lake(home, name, drawn(random))


def grow_lakes(home: Path, batches: int, random: Random) -> None:
    """Adds versions to each table, every other one of which deletes rows."""
    for number in range(batches):
        for name, schema in SCHEMAS.items():
            if number % 2:
                DeltaTable(home / name).delete(f"{schema[0]} = {random.randint(0, 9)}")
            else:
                append_to_lake(home, name, drawn(random))


def follow_lakes(view: View, spark: SparkSession, home: Path) -> None:
    follow(view, home, **{name: mrql.delta_table(home / name, max_files=1) for name in SCHEMAS})


def rows_of_lakes(spark: SparkSession, home: Path, view: View) -> Rows:
    return {
        name: spark.createDataFrame(DeltaTable(home / name).to_pyarrow_table().to_pylist(), schema)
        for name, schema in SCHEMAS.items()
    }


def fill_snapshots(home: Path, batches: int, random: Random) -> None:
    for name in SCHEMAS:
        columns = columns_of(name)
        iceberg_tables.create(home / name, pa.schema([(column, pa.int64()) for column in columns]))
        append_snapshot(home, name, random)


def append_snapshot(home: Path, name: str, random: Random) -> None:
    columns = columns_of(name)
    iceberg_tables.append(home / name, [dict(zip(columns, row, strict=True)) for row in drawn(random)])


def grow_snapshots(home: Path, batches: int, random: Random) -> None:
    """Adds snapshots to each table, every other one of which deletes rows, if any match."""
    for number in range(batches):
        for name, schema in SCHEMAS.items():
            if number % 2:
                iceberg_tables.delete(home / name, f"{schema[0]} = {random.randint(0, 9)}")
            else:
                append_snapshot(home, name, random)


def follow_snapshots(view: View, spark: SparkSession, home: Path) -> None:
    follow(view, home, **{name: mrql.iceberg_table(home / name, max_files=1) for name in SCHEMAS})


def rows_of_snapshots(spark: SparkSession, home: Path, view: View) -> Rows:
    return {
        name: spark.createDataFrame(iceberg_tables.table_at(home / name).scan().to_arrow().to_pylist(), schema)
        for name, schema in SCHEMAS.items()
    }


@attrs.frozen
class Tables:
    """The tables of a server that feed the streams of a home; the file `server` there identifies them."""

    address: str
    names: Mapping[str, str]

    @staticmethod
    def of(home: Path) -> Tables:
        address, suffix = (home / "server").read_text().split()
        return Tables(address, {name: f"{name}_{suffix}" for name in SCHEMAS})

    def transaction(self, *statements: str) -> None:
        with psycopg.connect(self.address) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def insertion(self, name: str, random: Random) -> str:
        return f"INSERT INTO {self.names[name]} VALUES {', '.join(map(str, drawn(random)))}"


@contextmanager
def logged(server: Server, home: Path) -> Iterator[None]:
    """Chooses the tables of a server that feed the streams of a home; removes them at the end, with slots and
    publications."""
    (home / "server").write_text(f"{server.conninfo()} {secrets.token_hex(4)}")
    try:
        yield
    finally:
        for table in Tables.of(home).names.values():
            clear(server, table)


def fill_tables(home: Path, batches: int, random: Random) -> None:
    tables = Tables.of(home)
    for name, schema in SCHEMAS.items():
        columns = ", ".join(f'"{column}" bigint' for column in schema.replace(" long", "").split(", "))
        made = f"CREATE TABLE {tables.names[name]} ({columns})"
        whole = f"ALTER TABLE {tables.names[name]} REPLICA IDENTITY FULL"
        tables.transaction(made, whole, tables.insertion(name, random))


def grow_tables(home: Path, batches: int, random: Random) -> None:
    """Runs transactions, each of which changes both tables."""
    tables = Tables.of(home)
    for _ in range(batches):
        gone = [
            f'DELETE FROM {of} WHERE "{SCHEMAS[name][0]}" = {random.randint(0, 9)}' for name, of in tables.names.items()
        ]
        tables.transaction(*gone, *(tables.insertion(name, random) for name in SCHEMAS))


def follow_logs(view: View, spark: SparkSession, home: Path) -> None:
    tables = Tables.of(home)
    sources = {
        name: mrql.postgresql_cdc(f"{tables.address}?table={table}", max_rows=1) for name, table in tables.names.items()
    }
    follow(view, home, **sources)


def rows_of_tables(spark: SparkSession, home: Path, view: View) -> Rows:
    tables = Tables.of(home)
    with psycopg.connect(tables.address) as connection:
        found = {
            name: connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
            for name, table in tables.names.items()
        }
    return {name: spark.createDataFrame(rows, SCHEMAS[name]) for name, rows in found.items()}


NUMBERED, FOLLOWED, TICKS = "numbered", "followed", "rate-micro-batch"
LAKES, SNAPSHOTS, LOGS = "versions", "snapshots", "logs"
WAYS: dict[str, Way] = {
    NUMBERED: Way(JOIN, fill_pairs, number_them, pairs_left),
    FOLLOWED: Way(JOIN, fill_pairs, follow_files, all_pairs),
    TICKS: Way(NUMBERS, fill_ticks, follow_ticks, all_ticks),
    LAKES: Way(JOIN, fill_lakes, follow_lakes, rows_of_lakes, grow_lakes),
    SNAPSHOTS: Way(JOIN, fill_snapshots, follow_snapshots, rows_of_snapshots, grow_snapshots),
}
"""The ways in which a view is fed: batches with their numbers, streaming DataFrames, and tables with versions."""
ALL_WAYS = {**WAYS, LOGS: Way(JOIN, fill_tables, follow_logs, rows_of_tables, grow_tables)}
"""The same, and the way that needs a server."""


def feed(home: Path, way: Way) -> None:
    """Opens the view, and feeds it all data that are there."""
    from tests.conftest import local_spark

    spark = local_spark(INTERPRETED)
    with way.view(spark, home) as view:
        way.feed(view, spark, home)
    spark.stop()


# --- the process that is killed -----------------------------------------------------------------


@attrs.define
class KilledView(KilledProcess):
    """A process that feeds a view."""

    home: Path
    way: str

    patience = PATIENCE

    @property
    def directory(self) -> Path:
        return self.home / "state"

    @property
    def said(self) -> Path:
        return self.home / "stderr"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.runtime.checkpoint.fed_views", str(self.home), self.way]


def view_survives(spark: SparkSession, home: Path, name: str, random: Random, *, kills: int, delay: float) -> int:
    """Kills a process that feeds a view at random moments, and returns the number of kills; each row given must count
    once."""
    way, size = ALL_WAYS[name], random.randint(2, 4)
    batches = way.fill(home, size, random)
    if way.grow is not None:
        with way.view(spark, home) as view:
            way.feed(view, spark, home)
        way.grow(home, size, random)
    killed = KilledView(random, delay, home, name).until_done(kills)
    with way.view(spark, home) as view:
        expected = sorted(map(tuple, way.query.batch(spark, **way.rows(spark, home, view)).collect()))
        assert batches is None or view.batches == batches
        assert sorted(map(tuple, view.answer().collect())) == expected
        numbers = range(view.batches)
    files = sorted((home / "changes").glob("*.json"))
    assert [file.stem for file in files] == [f"{number:06d}" for number in numbers]
    total: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in (row for file in files for row in json.loads(file.read_text())):
        total[tuple(row)] += weight
    assert sorted(row for row, weight in total.items() if weight) == expected
    assert {*total.values()} <= {0, 1}
    return killed


if __name__ == "__main__":
    feed(Path(sys.argv[1]), ALL_WAYS[sys.argv[2]])
