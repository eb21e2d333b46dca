"""Query 3, fed in each way that `docs/tpch.md` shows: after each batch of one history, the answer is that of DuckDB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Value, same
from mrql.runtime.spark.io.collect import collect_value
from queries.tpch.generate import COLUMNS, Batch, Row, history
from tests.runtime.checkpoint.streams import Stream
from tests.runtime.postgresql.test_change_log import clear
from tests.support.documents import fences
from tests.support.postgresql import Server
from tests.tpch.cases import QUERIES, expected, net

DOCUMENT = {name: body for _, name, body in fences("tpch.md") if name}
"""The examples of the document, by the way that they show."""
TEXT = (QUERIES / "q03.mrql").read_text(encoding="utf-8")
SELECT = TEXT[TEXT.index("\nselect ") :]

MONEY = "decimal(15, 2)"
ARROW = {"long": pa.int64(), "int": pa.int32(), MONEY: pa.decimal128(15, 2), "date": pa.date32(), "string": pa.string()}
SQL = {"long": "bigint", "int": "integer", MONEY: "numeric(15, 2)", "date": "date", "string": "text"}
KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey * 10 + l_linenumber"}
"""The key of a row of each table, in SQL."""
TYPES = {
    "customer": {"c_custkey": "long", "c_mktsegment": "string"},
    "orders": {"o_orderkey": "long", "o_custkey": "long", "o_orderdate": "date", "o_shippriority": "int"},
    "lineitem": {
        "l_orderkey": "long",
        "l_extendedprice": MONEY,
        "l_discount": MONEY,
        "l_shipdate": "date",
        "l_linenumber": "long",
    },
}
"""The columns of the tables: those that the query reads, and after them the rest of the key."""
ASKED_FOR = {table: len(columns) - (table == "lineitem") for table, columns in TYPES.items()}


@cache
def arriving() -> tuple[tuple[Batch, ...], tuple[Value, ...]]:
    """Three batches of two hundred orders with their line items, and the answer in SQL after each of them."""
    batches = history(200, 7, 3)
    return tuple(batches), tuple(answers["q03"] for answers in map(expected, net(batches)))


def moves(batch: Batch, table: str) -> Iterator[tuple[str, Row]]:
    """The rows that a batch inserts into a table and deletes from it, each with its sign."""
    places = [COLUMNS[table].index(name) for name in TYPES[table]]
    for sign, moved in (("+", batch.inserted), ("-", batch.deleted)):
        for row in moved.get(table, ()):
            yield sign, tuple(row[place] for place in places)


def rows(batch: Batch, table: str, sign: str) -> list[Row]:
    return [row for kind, row in moves(batch, table) if kind == sign]


def test_there_is_something_to_keep_up_to_date() -> None:
    """In the history, orders are deleted with their line items, and each batch changes the answer."""
    batches, answers = arriving()
    for batch, before, after in zip(batches, [None, *answers], answers, strict=False):
        gone = {row[0] for row in rows(batch, "orders", "-")}
        assert gone & {row[0] for row in rows(batch, "lineitem", "-")}
        assert after
        assert after != before


# --- ways to write a batch -----------------------------------------------------------------------


def to_a_log(home: Path, number: int, batch: Batch) -> None:
    """Writes a file of JSON with the changes of all tables."""
    lines = [
        {"op": sign, table: dict(zip(TYPES[table], row, strict=True))}
        for table in TYPES
        for sign, row in moves(batch, table)
    ]
    _arrive(home / "log" / f"{number}.json", "".join(f"{json.dumps(line)}\n" for line in lines))


def to_feeds(home: Path, number: int, batch: Batch) -> None:
    """Writes a file for each table, whose rows say whether they are inserted or deleted."""
    called = {"+": "insert", "-": "delete"}
    for table in TYPES:
        lines = [(called[sign], *row[: ASKED_FOR[table]]) for sign, row in moves(batch, table)]
        _arrive(home / table / f"{number}.csv", "".join(f"{','.join(map(str, line))}\n" for line in lines))


def _arrive(file: Path, text: str) -> None:
    """Writes a file that appears as a whole."""
    file.parent.mkdir(exist_ok=True)
    aside = file.with_name(f".{file.name}")
    aside.write_text(text)
    aside.rename(file)


def to_lakes(home: Path, number: int, batch: Batch) -> None:
    """Adds a version of each table with the insertions, and another one with the deletions."""
    for table, columns in TYPES.items():
        write_deltalake(str(home / table), _arrow(columns, rows(batch, table, "+")), mode="append")
        if gone := [_known_by(table, row) for row in rows(batch, table, "-")]:
            DeltaTable(str(home / table)).delete(f"{KEYS[table]} IN ({', '.join(map(str, gone))})")


def _arrow(columns: dict[str, str], rows: Sequence[Row]) -> pa.Table:
    fields = pa.schema([(name, ARROW[t]) for name, t in columns.items()])
    values = [{name: _value(cell, columns[name]) for name, cell in zip(columns, row, strict=True)} for row in rows]
    return pa.Table.from_pylist(values, fields)


def _value(cell: Any, t: str) -> Any:
    return date.fromisoformat(cell) if t == "date" else Decimal(str(cell)) if t == MONEY else cell


def _known_by(table: str, row: Row) -> int:
    return int(row[0]) * 10 + int(row[-1]) if table == "lineitem" else int(row[0])


def to_a_database(server: Server, batch: Batch) -> None:
    """Applies a batch as one transaction."""
    with server.connect() as connection, connection.transaction(), connection.cursor() as cursor:
        for table, columns in TYPES.items():
            places = ", ".join(["%s"] * len(columns))
            cursor.executemany(f"INSERT INTO {table} VALUES ({places})".encode(), rows(batch, table, "+"))
            gone = [_known_by(table, row) for row in rows(batch, table, "-")]
            cursor.execute(f"DELETE FROM {table} WHERE {KEYS[table]} = ANY(%s)".encode(), [gone])


# --- views and streams ---------------------------------------------------------------------------


VIEWS = {
    "foreachBatch": (to_a_log, "running.processAllAvailable()"),
    "follow": (to_feeds, "running.processAllAvailable()"),
    "table_changes": (to_lakes, "look()"),
    "delta_table": (to_lakes, "running.processAllAvailable()"),
}
"""For each example, the function that writes a batch, and the statement that makes the view take it."""


@pytest.mark.wide(keep=2)
@pytest.mark.spark
@pytest.mark.parametrize("way", VIEWS)
def test_views(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """The view of each example in Python has the right answer after each batch."""
    bring, take = VIEWS[way]
    must_keep_up({"spark": spark, "data": tmp_path}, DOCUMENT[way], partial(bring, tmp_path), take)


def must_keep_up(names: dict[str, Any], example: str, bring: Callable[[int, Batch], None], take: str) -> None:
    """Asserts that the view of an example has the right answer after each batch."""
    names["select"] = SELECT
    exec(DOCUMENT["query"], names)
    for number, batch in enumerate(arriving()[0]):
        bring(number, batch)
        if number == 0:
            exec(example, names)
        exec(take, names)
        assert_right(collect_value(names["view"].answer(), names["query"].type), number)
    if "running" in names:
        names["running"].stop()
    names["view"].close()


def test_versions_of_tables(tmp_path: Path) -> None:
    """`mrql stream` over tables of Delta Lake, restarted for each batch, has the right answers."""
    for number, batch in enumerate(arriving()[0]):
        to_lakes(tmp_path, number, batch)
        assert_right(streamed(tmp_path, DOCUMENT["delta"]), number)


@pytest.mark.wide
@pytest.mark.spark
def test_a_view_of_the_log_of_a_database(spark: SparkSession, database: Server) -> None:
    """The view of the example in Python has the right answer after each transaction."""
    example = DOCUMENT["cdc"].replace("postgresql://ann@host/db", database.conninfo())
    must_keep_up({"spark": spark}, example, lambda _, batch: to_a_database(database, batch), VIEWS["delta_table"][1])


def test_the_log_of_a_database(tmp_path: Path, database: Server) -> None:
    """`mrql stream` over tables of PostgreSQL, restarted for each transaction, has the right answers."""
    declared = DOCUMENT["postgresql_cdc"].replace("postgresql://ann@host/db", database.conninfo())
    for number, batch in enumerate(arriving()[0]):
        to_a_database(database, batch)
        assert_right(streamed(tmp_path, declared), number)


@pytest.fixture
def database(postgresql: Server) -> Iterator[Server]:
    """A server with the empty tables; at the end they are dropped, with all slots and publications."""
    with postgresql.connect() as connection:
        for table, columns in TYPES.items():
            typed = ", ".join(f"{name} {SQL[t]}" for name, t in columns.items())
            connection.execute(f"CREATE TABLE {table} ({typed})".encode())
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
    yield postgresql
    for table in TYPES:
        clear(postgresql, table)


def streamed(home: Path, declared: str) -> Value:
    """The answer of the newest batch of a stream that goes on from its checkpoint, in the reference engine: the tests
    of these sources check that Spark reads the same."""
    stream = Stream(home, declared + SELECT, max_files=None)
    stream.run()
    newest = max(stream.out.glob("batch-*"))
    lines = [line for part in sorted(newest.glob("part-*.json")) for line in part.read_text().splitlines()]
    return [tuple(json.loads(line, parse_float=Decimal).values()) for line in lines]


def assert_right(found: Value, number: int) -> None:
    wanted = [tuple(row.fields.values()) for row in arriving()[1][number]]
    fields = [_plain(tuple(row.fields.values()) if hasattr(row, "fields") else row) for row in found]
    assert same(fields, [_plain(row) for row in wanted]), f"batch {number}: {show_value(found)}, not {wanted}"


def _plain(row: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(cell.isoformat() if isinstance(cell, date) else cell for cell in row)
