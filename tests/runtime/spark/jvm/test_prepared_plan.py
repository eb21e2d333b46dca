"""Prepared plans: their RDDs, made again over other rows, have the rows that Spark computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.jvm import PreparedPlan
from mrql.runtime.spark.jvm.handles import items, nothing
from mrql.runtime.spark.relation.persisted_rows import Gathering
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import settings, step_settings
from mrql.runtime.spark.state.run import Run
from tests.support.spark_settings import compiled

pytestmark = pytest.mark.spark

GATHERING = Gathering(("a",), ("b",), ("a", "b"))


@cache
def numbers(below: int) -> Relation:
    """A static table."""
    return Relation.of(SparkSession.active().range(below).toDF("n"))


RELATIONS: dict[str, Callable[[Relation, Relation], Relation]] = {
    "select": lambda r, s: r.select("a", "a + b AS c"),
    "where": lambda r, s: r.where("a > 1").select("b"),
    "join": lambda r, s: r.select("a", "b").join(s.select("a AS c", "b AS d"), "a = c"),
    "outer join": lambda r, s: r.select("a", "b").join(s.select("a AS c", "b AS d"), "a = c AND b < d", "full_outer"),
    "semi-join": lambda r, s: r.semi_join(s, ["a"]),
    "anti-join": lambda r, s: r.select("a", "b").join(s.select("a AS c"), "a = c", "left_anti"),
    "cross": lambda r, s: r.select("a", "b").cross(s.select("b AS d")),
    "total": lambda r, s: r.union(s).aggregate([], ["count(1) AS n", "sum(b) AS b"]),
    "groups": lambda r, s: r.union(s).aggregate(["a"], ["sum(b) AS b", "max(b) AS m"]),
    "groups of arrays": lambda r, s: r.union(s).gathered(GATHERING).select("a", "sort_array(rows.b) AS b"),
    "opened": lambda r, s: r.gathered(GATHERING).opened(GATHERING).semi_join(s, ["a"]),
    "union": lambda r, s: r.union(s).union(r),
    "one partition": lambda r, s: r.union(s).in_one_partition(),
    "moved": lambda r, s: r.repartition("b").union(s),
    "moved to one": lambda r, s: r.union(s).repartition().aggregate(["b"], ["count(1) AS n"]),
    "broadcast": lambda r, s: r.select("a", "b").join(s.select("a AS c", "b AS d").broadcast(), "a = c"),
    "the first": lambda r, s: r.union(s).order(("b", True), ("a", False)).limit(3),
    "sorted": lambda r, s: r.union(s).order(("b", True), ("a", False)),
    "beside a table": lambda r, s: r.join(numbers(9), "a = n"),
    "a table that is sent": lambda r, s: numbers(9).broadcast()
    .join(r.select("a", "b"), "a = n").union(s.select("b AS n", "a", "b")),
    "a table that is sent, and rows that are moved": lambda r, s: r.select("a", "b").repartition("b")
    .cross(numbers(3).union(numbers(2)).broadcast())
    .join(s.select("b AS c"), "a = c"),
    "beside nothing": lambda r, s: r.union(Relation.empty("a bigint, b bigint")).union(s),
    "longs": lambda r, s: r.cross(Relation.range(0, 3, "n")),
}  # fmt: skip


LOOKED_AT = {"broadcast", "cross", "sorted"}
"""The relations whose plans look at rows: to broadcast them, to pair each with each, or to sort them by ranges."""


def rows(spark: SparkSession, count: int, first: int, partitions: int) -> DataFrame:
    """Rows in the given number of partitions; with 0, none."""
    df = spark.range(first, first + count, 1, max(1, partitions)).selectExpr("id % 4 AS a", "id AS b")
    return df if partitions else jvm.rows(spark, nothing(spark), df._jdf.schema())


def found(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(map(tuple, df.collect()), key=repr)


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[PreparedPlan]:
    """The plans that are executed, in order."""
    plans, execute = list[PreparedPlan](), PreparedPlan._executed

    def noted(plan: PreparedPlan, spark: SparkSession, filled: list[object]) -> object:
        plans.append(plan)
        return execute(plan, spark, filled)

    monkeypatch.setattr(PreparedPlan, "_executed", noted)
    return plans


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("name", RELATIONS)
def test_over_any_rows(spark: SparkSession, name: str, executed: list[PreparedPlan]) -> None:
    """A plan has the right rows for any numbers of partitions, 0 included; it is executed each time only if it looks at
    rows."""
    before_kept, by_turns = [(1, 1)], [(1, 1), (3, 1), (0, 1), (1, 0), (0, 0)]
    turns = before_kept + 2 * by_turns
    with settings(spark, in_two := step_settings(spark, 2)):
        plans = Plans(spark, in_two)
        for turn, (left, right) in enumerate(turns):
            if turn == len(before_kept + by_turns):
                executed.clear()
            batch = [rows(spark, 5 + turn, turn, left), rows(spark, 4, 2 * turn, right)]
            made = plans.dataframe(RELATIONS[name](*(Relation.of(df).of_batch() for df in batch)))
            assert found(made) == found(RELATIONS[name](*map(Relation.of, batch)).dataframe(spark)), (left, right)
    assert (executed == []) == (name not in LOOKED_AT)


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("generated", [True, False])
def test_over_states(spark: SparkSession, generated: bool, executed: list[PreparedPlan]) -> None:
    """Over the runs of states, only plans that look at rows, or whose RDDs cannot be made again, are executed again."""
    with compiled(spark) if generated else nullcontext(), settings(spark, in_one := step_settings(spark, 1)):
        plans = Plans(spark, in_one)
        for turn in range(3):
            if turn == 2:
                executed.clear()
            runs = [Run.of(plans, Relation.of(rows(spark, 5 + turn + n, turn, 2)).repartition()) for n in range(2)]
            for name, of in RELATIONS.items():
                expected = found(of(*(Relation.of(run.df) for run in runs)).dataframe(spark))
                assert found(plans.dataframe(of(*(run.relation for run in runs)))) == expected, name
            for run in runs:
                run.free()
    again = [plan for plan in executed if plan.is_of_one_batch or None in plan._graphs.values()]
    assert len(again) == len(executed) <= 7


def test_rows_are_joined_as_they_are(spark: SparkSession) -> None:
    """The rows of a state that are joined as they are, without an operator before the join, are not copied for it."""
    with compiled(spark), settings(spark, in_one := step_settings(spark, 1)):
        plans = Plans(spark, in_one)
        for turn in range(3):
            runs = [Run.of(plans, Relation.of(rows(spark, 5 + turn + n, turn, 2)).repartition()) for n in range(2)]
            state, wanted = (run.relation for run in runs)
            rdd = plans.rdd(state.semi_join(wanted.hint("shuffle_hash"), ["a"]))
            joined = [below.rdd().id() for below in items(rdd.dependencies())]
            while len(joined) == 1:
                (rdd,) = (below.rdd() for below in items(rdd.dependencies()))
                joined = [below.rdd().id() for below in items(rdd.dependencies())]
            for run in runs:
                run.free()
        assert joined[0] == runs[0].rdd.id()


def test_rows_of_files_are_copied(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of a file reader may be of any kind, so they are converted to those of a plan, also below a filter."""
    spark.range(9).write.json(f"{tmp_path}/rows")
    with compiled(spark):
        df = spark.read.schema("id bigint").json(f"{tmp_path}/rows").where("id > 3")
        scan = jvm.Scan.of(df)
    assert scan is not None
    assert scan.plan.copied == ()
