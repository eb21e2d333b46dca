"""Addresses as libpq has them, with additional parameters of mrql."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from mrql.runtime.postgresql.address import apart_from, parse_address


@pytest.mark.parametrize(
    ("address", "known", "shown"),
    [
        ("postgresql:///?table=t", {}, "postgresql:///?table=t"),
        ("postgresql:///db?table=s.t&host=/run/pg", {"dbname": "db", "host": "/run/pg"}, "postgresql:///db?table=s.t"),
        (
            "postgres://ann:x@/db?table=t",
            {"dbname": "db", "user": "ann", "password": "x"},
            "postgresql://ann@/db?table=t",
        ),
    ],
)
def test_parts_that_are_missing(address: str, known: dict[str, str], shown: str) -> None:
    """Missing parts of an address are left to the environment; libpq gets no parameters of mrql, and no password is
    shown."""
    found = parse_address(address)
    assert conninfo_to_dict(found.conninfo) == known
    assert found.shown == shown
    assert apart_from(f"{address}&column=id", "column") == (apart_from(address, "column")[0], "id")
