"""Batches interrupted at any call to Java, as by Ctrl-C: each counts or does not, and the view can be used further."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from unittest.mock import patch

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from py4j.java_gateway import GatewayClient
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import close
from mrql.algebra.values.zset import ZSet
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.relation import plan_cache
from mrql.runtime.spark.state import compaction
from tests.runtime.spark.test_equivalence import HISTORY, TYPES, arriving, delta_of

pytestmark = pytest.mark.spark

QUERIES = [
    "select (x, sum(y), max(y)) from (x, y) in S group by x",
    "select (a, d) from (a, b) in S, (c, d) in T where b = c",
    "select (a, count(d)) from (a, b) in S, (c, d) in T where a = c group by a",
    "(count(S), sum(select d from (c, d) in T))",
    "select a from (a, b) in S where not exists(select d from (c, d) in T where c = a)",
    "select (x, y) from (x, y) in S order by y desc, x limit 2",
    """repeat ways = select distinct (a, b) from (a, b) in S
       step select distinct w from w in (ways union (select (a, d) from (a, b) in ways, (c, d) in T where b = c))""",
]


@attrs.define
class Calls:
    """The calls to Java that a thread makes, and those at which it is interrupted."""

    at: tuple[int, ...] = ()
    thread: int = attrs.Factory(get_ident)
    made: int = 0

    def called(self) -> None:
        if get_ident() == self.thread:
            self.made += 1
            if self.made in self.at:
                raise KeyboardInterrupt


@contextmanager
def interrupted(*at: int) -> Iterator[Calls]:
    """Counts the calls to Java in the block, and interrupts the thread before some of them."""
    calls, send = Calls(at), GatewayClient.send_command

    def sent(client: GatewayClient, command: str, *arguments: object, **options: object) -> object:
        if not command.startswith("m"):  # the release of a Java object is sent at any time
            calls.called()
        return send(client, command, *arguments, **options)

    with patch.object(GatewayClient, "send_command", sent):
        yield calls


@attrs.define
class Interrupted:
    """A view of a query, and the rows that have arrived."""

    spark: SparkSession
    query: mrql.Query
    root: Path | None
    rows: dict[str, ZSet]
    view: mrql.View = attrs.field(init=False)
    calls: int = 200
    """The number of calls to Java that the last complete batch made."""

    def __attrs_post_init__(self) -> None:
        self.view = self.opened()

    def opened(self) -> mrql.View:
        return self.query.view(self.spark, checkpoint=self.root)

    def try_to_apply(self, number: int, deltas: Mapping[str, mrql.Delta], *at: int) -> bool:
        """Applies a batch, interrupted at some calls; returns whether it counts."""
        try:
            with interrupted(*at) as calls:
                self.view.apply(offset=number, **deltas)
        except KeyboardInterrupt:
            if self.view._view.closed:
                self.view.close()
                self.view = self.opened()
                assert self.view.offsets in (self.after(number - 1), self.after(number))
                return self.view.offsets == self.after(number)
            assert self.view.offsets == self.after(number - 1)
            return False
        self.calls = calls.made
        return True

    def after(self, number: int) -> dict[str, int]:
        """The offsets after a batch; there are none before the first one."""
        return dict.fromkeys(self.rows, number) if number >= 0 else {}

    def check(self) -> None:
        expected = evaluate(self.query.term, {name: rows.bag() for name, rows in self.rows.items()})
        found = collect_value(self.view.answer(), self.query.type)
        assert close(found, expected), f"{show_value(found)}, not {show_value(expected)}"


FRACTIONS = st.floats(0, 1.2, exclude_min=True)
"""Where batches are interrupted: after a fraction of the calls of a batch, and again after a fraction of 20 further
calls."""


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(QUERIES), st.booleans(), st.lists(st.tuples(FRACTIONS, FRACTIONS), min_size=3, max_size=6))
def test_a_batch_counts_or_does_not(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    durable: bool,
    places: list[tuple[float, float]],
) -> None:
    """Each batch is interrupted, and may be interrupted again while it is rolled back. One that does not count leaves
    the answer as it was, and may be applied again; the settings of the session are restored."""
    query = mrql.compile(text, **TYPES)
    names = sorted(query.trace().plan.streams)
    before = spark.conf.getAll
    root = tmp_path_factory.mktemp("checkpoint") if durable else None
    with large_from_the_start():
        kept = Interrupted(spark, query, root, {name: ZSet() for name in names})
        for number in range(len(HISTORY)):
            deltas = {name: delta_of(spark, (number,), name) for name in names}
            counts = False
            for first, again in places[number :: len(HISTORY)]:
                at = int(first * kept.calls)
                counts = counts or kept.try_to_apply(number, deltas, at, at + 1 + int(20 * again))
                assert spark.conf.getAll == before
                if not counts:
                    kept.check()
            assert counts or kept.try_to_apply(number, deltas)
            for name in names:
                come, gone = arriving((number,), name)
                kept.rows[name] = kept.rows[name] + ZSet.of(come) - ZSet.of(gone)
            kept.check()
        kept.view.close()


@contextmanager
def large_from_the_start() -> Iterator[None]:
    """A block in which states are kept like large ones: in runs, which are merged in the background."""
    with (
        patch.object(compaction, "MERGED_WHOLE_MAX_ROWS", 0),
        patch.object(compaction, "LARGE_MIN_ROWS", 0),
        patch.object(compaction, "WAITED_FOR_MAX_ROWS", 0),
        patch.object(plan_cache, "PLANNED_BEFORE_KEPT", 0),
    ):
        yield
