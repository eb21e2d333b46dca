"""Injected faults, modelled on real ones: `mrql verify` finds them with its default options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.values.values import Bag, Canonical, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.multilinear import choices_that_are_there
from mrql.rewrite.plan.joins import eager_aggregation
from mrql.runtime.reference import feed_merge, join_inputs, stage_state
from mrql.runtime.reference.stage_state import StageState
from mrql.verify.engines import ReferenceIncremental, Rows, Start, on_spark
from mrql.verify.verifier import Sampler, VerifyOptions, scenarios, verify
from tests.rewrite.incremental.test_theorems import streams_with_static
from tests.support.distributive import distributed
from tests.support.planning import planned

SEEDS = range(10)
DEFAULT = {"histories": 4, "batches": 6, "rows": 30}
"""The default options of the command."""
NUMBERS = {"S": "bag((long, double))", "T": "bag((long, double))", "N": "bag((long, bag(long)))"}
OWN: dict[str, list[Value]] = {
    "S": [(1, 5.5), (1, 0.25), (2, 7.0), (2, 7.0), (3, 1.5), (3, 2.5), (4, 3.0), (5, 1.0), (5, 1.0), (None, 4.0)],
    "T": [(1, 1.0), (1, 2.5), (2, 3.0), (0, 4.0)],
    "N": [(1, Bag()), (2, Bag()), (3, Bag([1])), (4, Bag([1])), (5, Bag([1, 1])), (6, Bag([2]))],
}


MANY: dict[str, list[Value]] = {name: [(n % 2, n * 0.7) for n in range(1, 29)] for name in "ST"}
"""Many rows on both sides of a join."""


def found_by(
    text: str,
    start: Start,
    *,
    static: frozenset[str] = frozenset(),
    rows: Mapping[str, list[Value]] = OWN,
    seeds: Sequence[int] = SEEDS,
) -> list[int]:
    """The seeds with which a fault is found, with the default options."""
    term = streams_with_static(mrql.compile(text, **NUMBERS).term, static)
    plan = planned(term).plan
    data = {name: rows[name] for name in (*plan.streams, *plan.tables)}

    def finds(seed: int) -> bool:
        results = (
            verify(term, Sampler(data, DEFAULT["rows"]), scenario, VerifyOptions(seed, **DEFAULT), start)
            for scenario in scenarios(term, frozenset())
        )
        return any(result.counterexample is not None for result in results)

    with patch("mrql.verify.verifier.shrink"):  # a smallest history is not needed
        return [seed for seed in seeds if finds(seed)]


ABSENT = "select (a, count(b)) from (a, b) in S where not exists(select d from (c, d) in T where c = a) group by a"
GROUP_SUMS = "select (a, sum(b)) from (a, b) in S group by a"
PRODUCTS = "select (a, sum(b * d)) from (a, b) in S, (c, d) in T where a = c group by a"
SQUARES = "sum(select (b - d) * (b - d) from (a, b) in S, (c, d) in T where a = c)"


def test_deletions_that_are_ignored_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta rule that ignores deleted rows is found, for a stream beside a static table."""
    assert found_by(ABSENT, ReferenceIncremental, static=frozenset("T")) == []
    monkeypatch.setattr(feed_merge, "choices_that_are_there", without_what_went)
    assert len(found_by(ABSENT, ReferenceIncremental, static=frozenset("T"))) >= 9


def without_what_went(changed: tuple[bool, ...]) -> tuple[tuple[str, ...], ...]:
    """The summands of the delta rule without those of deleted rows."""
    return tuple(choice for choice in choices_that_are_there(changed) if "went" not in choice)


def test_sums_that_are_expanded_are_found() -> None:
    """A sum of squares that is expanded is found by the rounding errors that large products leave when they cancel."""
    assert found_by(SQUARES, ReferenceIncremental) == []
    assert len(found_by(SQUARES, taking_doubles_for_a_ring(ReferenceIncremental))) >= 9


def taking_doubles_for_a_ring(start: Start) -> Start:
    """Runs the query's plan after the distributive law, which makes four products of the square of a difference."""
    return lambda plan, tables: start(planned(distributed(plan.query), shrinking=plan.shrinking).plan, tables)


def test_products_that_go_otherwise_than_they_came_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums by the sides of a join that loses rows are found: if they are rounded, as on Spark, products of two changing
    sides leave something behind."""
    assert found_by(PRODUCTS, ReferenceIncremental, rows=MANY) == []
    monkeypatch.setattr(eager_aggregation, "loses_rows", lambda feed, plan: False)
    monkeypatch.setattr(join_inputs, "exact", lambda number: number)
    assert len(found_by(PRODUCTS, ReferenceIncremental, rows=MANY)) >= 9


def test_sums_of_emptied_groups_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty groups that are kept for another batch, with sums of doubles as plain numbers, are found: the rounding
    error or NaN of the old sum is in the next one."""
    assert found_by(GROUP_SUMS, ReferenceIncremental) == []
    emptied: dict[int, set[Canonical]] = {}

    def drop_later(state: StageState) -> None:
        before = emptied.get(id(state), set())
        now = {key for key, entry in state.entries.items() if not any(entry.support)}
        for key in before & now:
            del state.entries[key]
        emptied[id(state)] = now - before

    monkeypatch.setattr(StageState, "compact", drop_later)
    monkeypatch.setattr(stage_state, "_is_total", lambda component: False)
    assert len(found_by(GROUP_SUMS, ReferenceIncremental)) >= 9


class TakesMissingForEmpty(ReferenceIncremental):
    """An engine that takes missing collections for empty ones."""

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        return super().apply(with_empty_bags(inserted), with_empty_bags(deleted))


def with_empty_bags(arrived: Rows) -> dict[str, list[Value]]:
    return {name: [(k, Bag() if v is None else v) for k, v in rows] for name, rows in arrived.items()}


BY_BAG = "select (v, count(k)) from (k, v) in N group by v"


def test_missing_collections_that_are_taken_for_empty_are_found() -> None:
    """An engine that takes missing collections for empty ones is found, although the data have none that is missing."""
    assert found_by(BY_BAG, ReferenceIncremental) == []
    assert len(found_by(BY_BAG, TakesMissingForEmpty)) >= 9


# --- on Spark ---------------------------------------------------------------------------------------------------------

FEW = SEEDS[:2]
"""Few seeds, as an engine without a fault runs all histories, at some hundred milliseconds a batch."""


@pytest.mark.spark
@pytest.mark.wide
def test_sums_that_are_expanded_are_found_on_spark(spark: SparkSession) -> None:
    start = on_spark(spark, None)
    assert found_by(SQUARES, start, seeds=FEW) == []
    assert len(found_by(SQUARES, taking_doubles_for_a_ring(start))) >= 9
