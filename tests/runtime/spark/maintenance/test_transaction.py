"""Steps of a loop that are planned before it is known whether they are taken leave nothing behind if they are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, close
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.maintenance.loops.iteration import Rounds
from mrql.runtime.spark.maintenance.transaction import Savepoint, Transaction
from mrql.runtime.spark.view_states import ViewStates

PAIRS = parse_type("{(long, long)}")
WAYS = """
repeat ways = select distinct e from e in S
  step select distinct w from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in S where b = c))
"""
RANKS = """
repeat ranks = select (n, 1.0) from n in (select distinct a from (a, b) in S)
  step select (b, 0.15 + 0.85 * sum(r)) from (a, r) in ranks, (c, b) in S where a = c group by b
  limit 5
"""
FAILING = """
repeat ways = select distinct e from e in S
  step select distinct w
       from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in S where b = c and 10 / (a + d - 8) < 100))
"""
CHAIN = [(1, 2), (2, 3), (3, 4), (4, 5), (2, 9)]
CHANGES = [([(5, 6)], []), ([(3, 4), (9, 4)], [(3, 4), (4, 5)])]


@attrs.define
class Holder:
    """Something with a list, a dict and a set."""

    items: list[int]
    places: dict[str, int]
    names: set[str]


@attrs.define(eq=False)
class Freed:
    """A run, or a table with one, that is interrupted once."""

    log: list[str]
    name: str
    interrupted: bool = False
    runs: list[Freed] = attrs.Factory(list)

    def free(self) -> None:
        self._once("free")

    def rollback(self) -> list[Freed]:
        self._once("roll back")
        runs, self.runs = self.runs, []
        return runs

    def _once(self, what: str) -> None:
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt
        self.log.append(f"{what} {self.name}")


@pytest.mark.parametrize("interrupted", ["nothing", "A", "B", "a", "b"])
def test_a_rollback_that_is_interrupted_is_completed_by_the_next(interrupted: str) -> None:
    """All tables are rolled back before anything is freed, and each run is freed."""
    log = list[str]()
    runs = [Freed(log, name, name == interrupted) for name in "ab"]
    tables: Any = [
        Freed(log, name.upper(), name.upper() == interrupted, [run]) for name, run in zip("ab", runs, strict=True)
    ]
    transaction = Transaction([])
    with nullcontext() if interrupted == "nothing" else pytest.raises(KeyboardInterrupt):
        transaction.rollback(tables)
    transaction.rollback(tables)
    assert {*log} == {"roll back A", "roll back B", "free a", "free b"}
    assert sorted(log[-2:]) == ["free a", "free b"]
    assert transaction.is_rolled_back


def test_all_is_as_it_was() -> None:
    holder = Holder([1], {"a": 1}, {"x"})
    items = holder.items
    savepoint = Savepoint([holder])
    holder.items.append(2)
    holder.places["b"] = 2
    holder.names, holder.items = {"y"}, []
    savepoint.rollback()
    assert holder == Holder([1], {"a": 1}, {"x"})
    assert holder.items is items


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.parametrize(("text", "loop"), [(WAYS, "fixpoint"), (RANKS, "diffuse")])
def test_what_is_given_up_leaves_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, text: str, loop: mrql.api.Loop
) -> None:
    """After each batch, runs have as many rows as without planning ahead, and Spark keeps as many RDDs."""
    given_up = []
    planning = ViewStates.savepoint

    def noting(states: ViewStates, more: Sequence[object]) -> Callable[[], None]:
        go_back = planning(states, more)

        def noted() -> None:
            given_up.append(text)
            go_back()

        return noted

    monkeypatch.setattr(ViewStates, "savepoint", noting)
    ahead = history(spark, text, loop)
    assert given_up, "no step was planned ahead in vain"
    stepped = Rounds._stepped
    monkeypatch.setattr(
        Rounds,
        "_stepped",
        lambda self, goes_on, step, speculative, changed=(): stepped(self, goes_on, step, speculative=False),
    )
    assert history(spark, text, loop) == ahead


def history(spark: SparkSession, text: str, loop: mrql.api.Loop) -> list[tuple[list[list[int | None]], int]]:
    """The number of rows of each run, and the number of RDDs that Spark keeps, after each batch."""
    query = mrql.compile(text, S=PAIRS)
    before, found = jvm.persistent_rdds(spark), []
    with query.view(spark, loop=loop) as view:
        view.apply(S=frame(spark, CHAIN))
        for come, gone in CHANGES:
            view.apply(S=mrql.Delta(frame(spark, come), frame(spark, gone) if gone else None))
            runs = [[run.rows for run in table.runs] for table in view._view.states.tables()]
            found.append((runs, jvm.persistent_rdds(spark) - before))
    return found


@pytest.mark.spark
def test_a_step_that_fails_while_the_next_one_is_planned(spark: SparkSession) -> None:
    """If a step fails while the next is planned, the view is as before the batch, and can be used further."""
    query = mrql.compile(FAILING, S=PAIRS)
    with query.view(spark, loop="fixpoint") as view:
        view.apply(S=frame(spark, [(1, 2), (2, 3)]))
        before = jvm.persistent_rdds(spark)
        for _ in range(2):
            with pytest.raises(mrql.UserError, match="division by zero"):
                view.apply(S=frame(spark, [(3, 7)]))
            assert answer(view, query) == [(1, 2), (1, 3), (2, 3)]
        view.apply(S=frame(spark, [(3, 5)]))
        expected = evaluate(query.term, {"S": Bag([(1, 2), (2, 3), (3, 5)])})
        assert close(Bag(answer(view, query)), expected), show_value(expected)
        assert jvm.persistent_rdds(spark) < 2 * before, "what has failed is still kept"


def answer(view: mrql.View, query: mrql.Query) -> list[Value]:
    found = collect_value(view.answer(), query.type)
    assert isinstance(found, Bag)
    return sorted(found)


def frame(spark: SparkSession, rows: Collection[tuple[int, int]]) -> DataFrame:
    return to_dataframe(spark, list(rows), PAIRS)
