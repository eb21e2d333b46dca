"""The queries in `queries/tpch`, their counterparts in SQL beside this file, and the data for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.functions import convert
from mrql.algebra.values.values import Bag, Record, Value
from mrql.algebra.values.zset import ZSet
from mrql.api import Query
from mrql.jobs.loading import compile_over_files
from queries.tpch.generate import COLUMNS, Batch, Row, nations, regions

SQL = Path(__file__).parent
QUERIES = SQL.parent.parent / "queries" / "tpch"
NAMES = tuple(sorted(file.stem for file in QUERIES.glob("*.mrql")))

Tables = Mapping[str, Sequence[Row]]
"""The rows of each table."""

FIXED: Tables = {"region": regions(), "nation": nations()}
"""The tables that no batch changes."""


# --- the queries --------------------------------------------------------------------------------


@attrs.frozen
class Case:
    """A query over the tables that it declares."""

    name: str
    query: Query
    sources: Mapping[str, SourceSpec]

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(name for name, source in self.sources.items() if source.stream)

    @property
    def fixed(self) -> tuple[str, ...]:
        return tuple(name for name, source in self.sources.items() if not source.stream)

    def values(self, table: str, rows: Sequence[Row]) -> list[Value]:
        """Rows of a table as the query reads them: without the columns that it does not use."""
        row_type = self.sources[table].row
        assert isinstance(row_type, ty.RecordType)
        places = {name: (COLUMNS[table].index(name), t) for name, t in row_type.fields}
        return [Record({name: convert(row[place], t) for name, (place, t) in places.items()}) for row in rows]

    def contents(self, tables: Tables) -> dict[str, Bag]:
        """The contents of all tables of the query."""
        return {name: Bag(self.values(name, tables.get(name, ()))) for name in self.sources}

    def changes(self, batch: Batch) -> dict[str, ZSet]:
        """The changes that a batch makes to the query's streams."""
        return {
            name: ZSet.of(self.values(name, batch.inserted.get(name, ())))
            - ZSet.of(self.values(name, batch.deleted.get(name, ())))
            for name in self.streams
        }


@cache
def case(name: str) -> Case:
    """The query of a file in `queries/tpch`."""
    program = compile_over_files((QUERIES / f"{name}.mrql").read_text(encoding="utf-8"), f"{name}.mrql")
    (query,) = program.queries
    return Case(name, Query(query, {name: source.type for name, source in program.sources.items()}), program.sources)


def net(batches: Sequence[Batch]) -> Iterator[Tables]:
    """The rows of all tables after each of some batches."""
    held: dict[str, dict[Row, None]] = {}
    for batch in batches:
        for table, rows in batch.inserted.items():
            for row in rows:
                assert row not in held.setdefault(table, {}), f"{row} comes to {table} twice"
                held[table][row] = None
        for table, rows in batch.deleted.items():
            for row in rows:
                del held[table][row]
        yield {**FIXED, **{table: tuple(rows) for table, rows in held.items()}}


# --- DuckDB -------------------------------------------------------------------------------------


def expected(tables: Tables) -> dict[str, Value]:
    """The answer in SQL of each query over some contents of the tables, as a value of the query's type."""
    # Threads of its own would take longer to start than the queries take.
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute((SQL / "schema.sql").read_text(encoding="utf-8"))
        for table, rows in tables.items():
            columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS[table])
            arrived = pa.table(dict(zip(COLUMNS[table], map(list, columns), strict=True)))
            connection.register("arrived", arrived)
            connection.execute(f"INSERT INTO {table} SELECT * FROM arrived")
            connection.unregister("arrived")
        return {name: _answer(connection, case(name)) for name in NAMES}


def _answer(connection: duckdb.DuckDBPyConnection, wanted: Case) -> Value:
    rows = connection.execute((SQL / f"{wanted.name}.sql").read_text(encoding="utf-8")).fetchall()
    match wanted.query.type:
        case ty.ListType(ty.RecordType() as record):
            return [Record(dict(zip(record.names, row, strict=True))) for row in rows]
        case _:
            ((value,),) = rows
            return value
