"""Terms under construction in Python code, apart from the operators, which `test_terms` covers."""

from __future__ import annotations

import pytest

from mrql.algebra import build as b

X = b.var("x", "long")


def test_tuples_come_apart() -> None:
    """Python's unpacking takes a tuple's parts."""
    first, second = b.pair(1, "a")
    assert (str(first), str(second)) == ('(1, "a")#0', '(1, "a")#1')


def test_no_truth_value() -> None:
    """Python's `and`, `if` and `in` cannot be overloaded, and must not decide anything silently."""
    with pytest.raises(TypeError, match="use &"):
        bool(X == 1)
    with pytest.raises(TypeError, match="only tuples are taken apart"):
        list(X)
    with pytest.raises(AttributeError):
        X._private  # noqa: B018
