"""Rows that are inserted and deleted within one batch are not evaluated: the batch is netted first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.support.planning import planned

LONGS, DOUBLES = parse_type("{(string, long)}"), parse_type("{(string, double)}")
NESTED = parse_type("{<K: string, V: double, I: {double}>}")
DIVIDED = "select (k, 100 / v) from (k, v) in S"
nan, inf = math.nan, math.inf

Batches = Sequence[tuple[list[Value], list[Value]]]

CASES: dict[str, tuple[mrql.Query, Batches, Value]] = {
    "a division by zero": (
        mrql.compile(DIVIDED, S=LONGS),
        [([("a", 1)], []), ([("b", 0), ("c", 2)], [("b", 0)]), ([("b", 0), ("b", 0)], [("b", 0), ("b", 0), ("a", 1)])],
        Bag([("c", 50)]),
    ),
    "numbers that do not go away": (
        mrql.compile("(sum(select v from (k, v) in S), (select (k, sum(v)) from (k, v) in S group by k))", S=DOUBLES),
        [
            ([("a", 1.0)], []),
            ([("a", nan), ("b", inf), ("b", -inf), ("c", 2.0)], [("a", nan), ("b", -inf), ("b", inf)]),
        ],
        (3.0, Bag([("a", 1.0), ("c", 2.0)])),
    ),
    "zeros of either sign": (
        mrql.compile("select (k, 1 / (if v = 0 then 0 else 1)) from (k, v) in S", S=DOUBLES),
        [([("a", 1.0)], []), ([("a", -0.0)], [("a", 0.0)])],
        Bag([("a", 1)]),
    ),
    "bags in another order": (
        mrql.compile('select (r.K, 1 / (if r.K = "b" then 0 else 1), count(r.I)) from r in S', S=NESTED),
        [
            ([Record({"K": "a", "V": None, "I": Bag([1.0, -0.0, nan])})], []),
            (
                [Record({"K": "b", "V": nan, "I": Bag([1.0, nan, -0.0])})],
                [Record({"K": "b", "V": nan, "I": Bag([0.0, 1.0, nan])})],
            ),
        ],
        Bag([("a", 1, 3)]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_in_the_reference(name: str) -> None:
    """Rows that are equal, however they are written, cancel before the batch is evaluated."""
    query, batches, expected = CASES[name]
    view = ReferenceView(planned(query.term, shrinking=frozenset("S")).plan)
    for come, gone in batches:
        view.apply({"S": ZSet.of(come) - ZSet.of(gone)})
    assert close(view.answer(), expected), show_value(view.answer())


@pytest.mark.spark
@pytest.mark.parametrize("name", CASES)
def test_on_spark(spark: SparkSession, name: str) -> None:
    """The same rows cancel on Spark, in the given batches and in one batch of all rows."""
    query, batches, expected = CASES[name]
    together = [row for come, _ in batches for row in come], [row for _, gone in batches for row in gone]
    for history in (batches, [together]):
        with query.view(spark) as view:
            for sides in history:
                frames = (to_dataframe(spark, Bag(rows), query.streams["S"]) if rows else None for rows in sides)
                view.apply(S=mrql.Delta(*frames))
            found = collect_value(view.answer(), query.type)
            assert close(found, expected), f"{show_value(found)}, not {show_value(expected)}"


TAGGED = """
S = stream(csv, "s", ",", type((string, long)), tagged);
select (k, 100 / v) from (k, v) in S;
"""


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_files_with_a_tag(tmp_path: Path, engine: str) -> None:
    """Tagged rows cancel within one file, between two files of one batch, and when states are rebuilt from a
    checkpoint."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.csv").write_text("+,b,0\n+,c,2\n-,b,0\n")
    (tmp_path / "s" / "2.csv").write_text("+,a,0\n")
    (tmp_path / "s" / "3.csv").write_text("-,a,0\n+,d,5\n")
    query, out = tmp_path / "q.mrql", tmp_path / "out"
    query.write_text(TAGGED)
    args = ["stream", str(query), "--engine", engine, "--data", str(tmp_path), "--once", "--checkpoint", str(out)]
    done = CliRunner().invoke(main, [*args, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert '[["c", 50], ["d", 20]]' in done.stdout.replace('[["d", 20], ["c", 50]]', '[["c", 50], ["d", 20]]')
    query.write_text(TAGGED.replace("100", "200"))
    again = CliRunner().invoke(main, [*args, "--format", "json"])
    assert again.exit_code == 0, again.output
