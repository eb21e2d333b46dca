"""`docs/algebra.md`: its examples run, its table of monoids is that of the code, and the names in it exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mrql
from mrql import streams
from mrql.algebra import build as b
from mrql.algebra import monoids as mo
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_monoid
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag

TEXT = (Path(__file__).parents[2] / "docs" / "algebra.md").read_text(encoding="utf-8")
FIRST, TRACES, LAST = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_example_is_a_query() -> None:
    """The part of the first example that needs no Spark makes a query."""
    names: dict[str, Any] = {}
    exec(FIRST[: FIRST.index("with ")], names)
    assert str(names["query"].type) == "{(string, double)}"
    assert names["query"].streams.keys() == {"orders", "customers"}


def test_the_example_of_traces_is_what_it_says() -> None:
    """The terms of the example have the right values for a stream with a time without a row."""
    names: dict[str, Any] = {"b": b, "mrql": mrql}
    exec(TRACES, names)
    sources = {"S": Bag([("a", 0, 1), ("a", 0, 1), ("a", 2, -1)]), "clock": Bag([0, 1, 2])}
    answers = {name: evaluate(names[name].term, sources) for name in ("whole", "again", "before", "sums")}
    assert answers == {
        "whole": Bag([("a", 0, 2), ("a", 1, 2), ("a", 2, 1)]),
        "again": Bag([("a", 0, 2), ("a", 2, -1)]),
        "before": Bag([("a", 1, 1), ("a", 1, 1)]),
        "sums": Bag([("a", 1)]),
    }
    assert names["query"].streams.keys() == {"S", "clock"}


def test_the_last_example_has_its_value() -> None:
    """The value of the last example is the one in its comment."""
    *lines, last = LAST.strip().splitlines()
    code, expected = last.split("# ")
    names: dict[str, Any] = {"b": b}
    exec("\n".join(lines), names)
    assert eval(code, names) == eval(expected)


def test_the_table_of_monoids() -> None:
    """Each operation has a row with its meaning, zero and laws; the rows of the other monoids have their laws."""
    rows = re.findall(r"^\| `(\S+)` \| ([^|]*) \| `(\S+)` \| (.*) \|$", TEXT, re.MULTILINE)
    for sign, meaning, zero, laws in rows:
        m = parse_monoid(sign)
        found = {"commutative": mo.is_commutative(m), "idempotent": mo.is_idempotent(m), "invertible": mo.is_group(m)}
        assert laws == (", ".join(law for law, holds in found.items() if holds) or "none")
        if isinstance(m, mo.Aggregate):
            assert meaning == m.op.meaning
            assert zero == show_value(m.op.zero)
    assert [sign for sign, *_ in rows] == [*mo.OPS, "⊎", "++"]


def test_what_it_names_is_there() -> None:
    """The operators, stream operators and methods of views in the document exist."""
    assert all(hasattr(b, name) for name in re.findall(r"`b\.(\w+)", TEXT))
    assert all(hasattr(streams, name) for name in re.findall(r"streams\.(\w+)", TEXT))
    assert all(hasattr(mrql.View, name) for name in re.findall(r"`view\.(\w+)", TEXT))
