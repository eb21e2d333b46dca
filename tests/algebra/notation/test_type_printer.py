"""The text of types and monoids: it reads back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.notation.parser import parse_monoid, parse_type
from mrql.algebra.notation.type_printer import show_monoid, show_type
from tests.support.strategies import types


@settings(max_examples=60, deadline=None)
@given(types())
def test_type_reads_back(t: ty.Type) -> None:
    """`parse_type(show_type(t)) == t`."""
    assert parse_type(show_type(t)) == t


def test_what_records_leave_out_reads_back() -> None:
    """Fields that a record leaves out read back at any depth, with any name; they are shown only on request."""
    inner = ty.RecordType((("a b", ty.INT),), left_out=(('b"', "[binary]"), ("c;>", "a: b, <c>")))
    row = ty.RecordType((("x", ty.ListType(inner)), ("y", ty.LONG)), left_out=(("é", "interval"),))
    assert ";" not in show_type(row)
    again = parse_type(show_type(row, left_out=True))
    assert (again, again.left_out) == (row, row.left_out)
    assert again.field("x").item.left_out == inner.left_out


@pytest.mark.parametrize(
    "m",
    [
        mo.SUM,
        mo.AND,
        mo.BAG,
        mo.LIST,
        mo.INVARIANT,
        mo.Keyed(mo.Keyed(mo.MIN)),
        mo.ProductMonoid(()),
        mo.ProductMonoid((mo.SUM,)),
        mo.Keyed(mo.ProductMonoid((mo.SUM, mo.ProductMonoid((mo.OR,))))),
    ],
)
def test_monoids_read_back(m: mo.Monoid) -> None:
    """`parse_monoid(show_monoid(m)) == m`."""
    assert parse_monoid(show_monoid(m)) == m
