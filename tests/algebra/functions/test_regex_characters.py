"""Sets of characters, as ranges."""

from __future__ import annotations

from mrql.algebra.functions.regex_characters import all_but, overlap, ranges


def test_ranges() -> None:
    assert ranges((5, 6), (1, 2), (3, 3)) == ((1, 3), (5, 6))
    assert not overlap(all_but(((5, 6),)), ((5, 6),))
    assert all_but(all_but(((0, 3), (9, 0x10FFFF)))) == ((0, 3), (9, 0x10FFFF))
