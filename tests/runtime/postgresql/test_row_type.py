"""Types of rows that are found in the catalog of a database."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag
from mrql.jobs.loading import compile_over_files
from tests.runtime.checkpoint.streams import Stream
from tests.runtime.postgresql.test_change_log import clear
from tests.support.postgresql import Server


@pytest.fixture
def table(postgresql: Server) -> Iterator[str]:
    """The name of a table for the test; at the end the table is dropped, with all slots and publications of the
    server."""
    name = f"row_{secrets.token_hex(4)}"
    yield name
    clear(postgresql, name)


def catalogued(server: Server, table: str) -> None:
    """Makes a table with columns of all kinds, the first of which grows."""
    columns = (
        "id bigserial, n int, s smallint, r real, x double precision, price numeric(10, 2), b boolean, t text,"
        " v varchar(9), c char(3), u uuid, raw bytea, d date, at timestamp, z timestamptz, clock time, j json,"
        " mood mood, size positive, any_digits numeric, tens numeric(3, -1), span interval, many int[],"
        " twice bigint GENERATED ALWAYS AS (n * 2) STORED"
    )
    with server.connect() as connection:
        for statement in (
            "DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS positive",
            "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            f"CREATE TABLE {table} ({columns})",
            f"ALTER TABLE {table} REPLICA IDENTITY FULL",
            f"INSERT INTO {table} (n, price, mood, clock, raw, c) VALUES (3, 1.5, 'ok', '10:20', '\\x00', 'a')",
        ):
            connection.execute(statement.encode())


CATALOGUED = (
    "<id: long, n: int, s: int, r: float, x: double, price: decimal(10, 2), b: bool, t: string, v: string, c: string,"
    " u: string, raw: binary, d: date, at: timestamp, z: timestamp, clock: string, j: any, mood: string, size: int"
)


@pytest.mark.parametrize("kind", ["postgresql", "postgresql_cdc"])
def test_types_of_the_catalog(tmp_path: Path, postgresql: Server, table: str, kind: str) -> None:
    """Without a type in the query, the type of the rows is that of the table, and stays so over restarts."""
    catalogued(postgresql, table)
    address = postgresql.address(table) + ("&column=id" if kind == "postgresql" else "")
    text = f'o = stream({kind}, "{address}"); select (x.id, x.n, x.mood, hex(x.raw), x.c, x.clock) from x in o;'
    stream = Stream(tmp_path, text)
    stream.run()
    row = stream.job.program.sources["o"].row
    assert str(row) == CATALOGUED + (", twice: long>" if kind == "postgresql" else ">")
    assert isinstance(row, ty.RecordType)
    left_out = {"any_digits": "numeric", "tens": "numeric(3,-1)", "span": "interval", "many": "integer[]"}
    assert dict(row.left_out) == left_out | ({} if kind == "postgresql" else {"twice": "bigint, generated"})
    with postgresql.connect() as connection:
        connection.execute(f"ALTER TABLE {table} ADD later text".encode())
        connection.execute(f"INSERT INTO {table} (n, later) VALUES (4, 'x')".encode())
    again = Stream(tmp_path, text)
    assert again.job.program.sources["o"].row == row
    again.run()
    whole = [(1, 3, "ok", "00", "a", "10:20:00"), (2, 4, None, None, None, None)]
    assert list(again.answers().values())[-1] == Bag(whole)
    for asked, said in (
        ("any_digits", "say how many digits it has: `type(<any_digits: decimal(12, 2)>)`, or `double`"),
        ("span", "the field `span` is of type interval, which the language does not have"),
    ):
        with pytest.raises(UserError) as caught:
            compile_over_files(f'select x.{asked} from x in stream({kind}, "{address}");')
        assert said in (caught.value.message, caught.value.hint)


@pytest.mark.parametrize("kind", ["postgresql", "postgresql_cdc"])
def test_tables_that_have_none(postgresql: Server, table: str, kind: str) -> None:
    """A table without a column of a known type, or one that does not exist, has no type of rows: this is an error."""
    column = "&column=x" if kind == "postgresql" else ""

    def said(name: str) -> str:
        with pytest.raises(UserError) as caught:
            compile_over_files(f'count(stream({kind}, "{postgresql.address(name)}{column}"));')
        assert caught.value.span is not None
        return caught.value.message

    with postgresql.connect() as connection:
        connection.execute(f"CREATE TABLE {table} (x interval)".encode())
    assert said(table) == f"{table} has no column of a type that the language has, but x interval"
    assert said(f"{table}_gone") == f"there is no table {table}_gone"
