"""Generated cases in both engines for a given time: `make soak MINUTES=60`, after all cases of the wide tests.

Each round has a new seed, which is printed. The first case that fails ends the run with the smallest example that is
found for it, and `python -m tests.soak --seed N` runs the round of that seed again.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import attrs
import click
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.checkpoint import policy
from mrql.runtime.streaming.stream_loop import Emit
from tests.bad_input import deaths
from tests.conftest import local_spark
from tests.loops.test_diffuse import DIFFUSED, assert_within_residuals
from tests.loops.test_streams import assert_kept_in_the_reference, assert_kept_on_spark
from tests.rewrite.incremental.test_document import assert_construct_follows
from tests.rewrite.incremental.test_theorems import assert_incremental
from tests.rewrite.loops.test_strategies import History, assert_kept
from tests.rewrite.normalize.test_guards import GUARDED, assert_guarded
from tests.rewrite.plan.test_eager_aggregation import assert_sums_are_exact, sums_over_joins
from tests.rewrite.plan.test_join_order import assert_any_order_is_exact, joins
from tests.runtime.checkpoint.crashes import survives
from tests.runtime.checkpoint.damage import SCENES, stopped, undelivered, undelivered_to_delta
from tests.runtime.checkpoint.fed_views import ALL_WAYS, WAYS, logged, view_survives
from tests.runtime.checkpoint.streams import GROUPS, JOIN, UPSERTS, Stream, fill
from tests.runtime.killed_tables import TABLES, table_survives
from tests.runtime.postgresql.killed_logs import log_survives, server_survives
from tests.runtime.postgresql.test_change_log import clear, read_history
from tests.runtime.sources.test_spark_readers import READERS, source_survives
from tests.runtime.spark.expressions.test_functions import KINDS, disagreements
from tests.runtime.spark.test_equivalence import (
    CONSTRUCTS,
    ONE_BY_ONE,
    TOGETHER,
    assert_construct,
    assert_equal_everywhere,
    assert_follows,
    assert_kept_up_to_date,
)
from tests.runtime.spark.test_wild import assert_follows_wild
from tests.runtime.test_trusted_deletions import assert_engines_agree_on_trust
from tests.runtime.test_upserts import assert_like_the_reference
from tests.soak import fuzz, large_data, loop_memory, properties
from tests.soak.properties import PROPERTIES
from tests.support.construct_queries import construct_queries
from tests.support.incremental_cases import CONSTRUCTS as INCREMENTAL
from tests.support.incremental_cases import Construct
from tests.support.loop_files import EVERY_WAY, FILES
from tests.support.loop_queries import adding_loops, edge_histories
from tests.support.partitions import DRAWN, states
from tests.support.postgresql import MISSING, Server, binaries
from tests.support.queries import histories, queries, several_queries, streams_of
from tests.support.queries import tables as tables_of
from tests.support.spark_settings import interpreted, oddly_set
from tests.support.sum_queries import guarded_sums, sum_queries
from tests.support.upserts import KINDS as KEYS
from tests.support.upserts import histories as upsert_histories
from tests.support.wild import KINDS as WILD
from tests.tpch.cases import NAMES
from tests.tpch.test_spark import arriving, follow

IN_THE_REFERENCE, ON_SPARK, TEXTS, CALLS = "in the reference", "on Spark", "of odd texts", "of functions"
LARGE_FILES = "of files that are hard to read"
TPCH = "of TPC-H in ten batches"
LOOPS = "of loops in ten batches"
KILLED = "of processes killed"
SERVERS = "of database servers killed"
DEATHS = "of Spark ended"
DAMAGED = "of damaged checkpoints"
LOGS = "of logs of tables"
PROPERTIES_HELD = "of properties on Spark"
FEW = 3
"""The number of properties on Spark that a round checks."""


def cases(examples: int) -> settings:
    """Settings for so many cases, none of them kept for the next run, after the simplest one, with which Hypothesis
    begins."""
    return settings(max_examples=examples + 1, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def wild_queries() -> st.SearchStrategy[tuple[str, str]]:
    """Queries of any kind, also with rarer constructs and with sums over joins, and a kind of values for each."""
    texts = queries() | construct_queries() | sum_queries() | guarded_sums()
    return st.tuples(texts, st.sampled_from(sorted(WILD)))


def play(number: int, spark: SparkSession, kills: Kills, done: Counter[str]) -> Iterator[None]:
    """One round: many cases in the reference engine, which is quick, and some on Spark. A case is a query and a
    history. At each `yield` the round can end.

    The cases that `make test` has in fixed numbers are here with new seeds: queries of the rarer constructs, beside
    static tables, over wild values, loops, and the queries of TPC-H in turn, and the files of loops in each way, in ten
    batches.
    """

    @seed(number)
    @cases(300)
    @given(queries(), st.data())
    def reference(text: str, data: st.DataObject) -> None:
        assert_incremental(text, data.draw(histories(text, deletions=True)), deletions=True)
        assert_incremental(text, data.draw(histories(text)))
        done[IN_THE_REFERENCE] += 2

    @seed(number)
    @cases(100)
    @given(queries() | construct_queries(), st.data())
    def beside(text: str, data: st.DataObject) -> None:
        assume(len(streams_of(text)) > 1)
        tables = data.draw(tables_of(text, fewest=1))
        history = data.draw(histories(text, tables=tables, deletions=True))
        assert_incremental(text, history, deletions=True, tables=tables)
        done[IN_THE_REFERENCE] += 1

    @seed(number)
    @cases(100)
    @given(st.sampled_from(INCREMENTAL), st.data())
    def documented(construct: Construct, data: st.DataObject) -> None:
        assert_construct_follows(construct, data)
        done[IN_THE_REFERENCE] += 1

    @seed(number)
    @cases(150)
    @given(wild_queries(), st.booleans(), st.data())
    def wild(drawn: tuple[str, str], deletions: bool, data: st.DataObject) -> None:
        text, kind = drawn
        assume(streams_of(text))
        tables = data.draw(tables_of(text, wild=kind))
        history = data.draw(histories(text, tables=tables, wild=kind, deletions=deletions))
        assert_incremental(text, history, deletions=deletions, tables=tables, wild=kind)
        done[IN_THE_REFERENCE] += 1

    @seed(number)
    @cases(2)
    @given(queries(), st.booleans(), st.data())
    def alone(text: str, deletions: bool, data: st.DataObject) -> None:
        history = data.draw(histories(text, deletions=deletions))
        assert_equal_everywhere(spark, text, history, insert_only=not deletions)
        done[ON_SPARK] += 1

    @seed(number)
    @cases(1)
    @given(construct_queries(), st.data())
    def rarer(text: str, data: st.DataObject) -> None:
        assert_equal_everywhere(spark, text, data.draw(histories(text, deletions=True, most=2)))
        done[ON_SPARK] += 1

    @seed(number)
    @cases(2)
    @given(wild_queries(), st.booleans(), st.data())
    def wilder(drawn: tuple[str, str], deletions: bool, data: st.DataObject) -> None:
        text, kind = drawn
        assume(streams_of(text))
        tables = data.draw(tables_of(text, wild=kind))
        history = data.draw(histories(text, tables=tables, wild=kind, deletions=deletions, most=2))
        assert_follows_wild(spark, text, history, tables, kind, deletions=deletions)
        done[ON_SPARK] += 1

    @seed(number)
    @cases(60)
    @given(adding_loops(), edge_histories())
    def looped(text: str, history: History) -> None:
        assert_kept(text, history, LoopStrategy.FIXPOINT)
        done[IN_THE_REFERENCE] += 1

    @seed(number)
    @cases(300)
    @given(st.sampled_from(GUARDED), st.data())
    def guarded(text: str, data: st.DataObject) -> None:
        assert_guarded(text, data)
        done[IN_THE_REFERENCE] += 1

    @seed(number)
    @cases(60)
    @given(joins(), sums_over_joins(), st.data())
    def joined(join: str, sums: str, data: st.DataObject) -> None:
        assert_any_order_is_exact(join, data)
        assert_sums_are_exact(sums, data)
        done[IN_THE_REFERENCE] += 2

    @seed(number)
    @cases(2)
    @given(several_queries(TOGETHER), st.data())
    def together(text: str, data: st.DataObject) -> None:
        assert_kept_up_to_date(spark, text, data.draw(histories(text, deletions=True)))
        done[ON_SPARK] += TOGETHER

    @seed(number)
    @cases(2)
    @given(queries(), st.lists(st.booleans(), min_size=3, max_size=3), st.data())
    def trusting(text: str, wrong: list[bool], data: st.DataObject) -> None:
        assert_engines_agree_on_trust(spark, text, data.draw(histories(text, deletions=True, most=3)), wrong)
        done[ON_SPARK] += 1

    @seed(number)
    @cases(2)
    @given(st.sampled_from(sorted(KEYS)), st.booleans(), st.data())
    def replacing(name: str, versioned: bool, data: st.DataObject) -> None:
        history = data.draw(upsert_histories(KEYS[name], versioned=versioned, most=3))
        assert_like_the_reference(spark, KEYS[name], history, versioned=versioned)
        done[ON_SPARK] += 1

    for kind, texts in fuzz.programs().items():

        @seed(number)
        @cases(300 if kind == "grammatical" else 1000)
        @given(texts)
        def odd(text: fuzz.Text) -> None:
            fuzz.outcome(text, Path())
            done[TEXTS] += 1

        odd()
        yield

    @seed(number)
    @cases(4)
    @given(large_data.files() | st.sampled_from([*large_data.SHAPES.values()]), st.data())
    def large(file: large_data.LargeFile, data: st.DataObject) -> None:
        with TemporaryDirectory() as home:
            large_data.assert_bounded(file, data.draw(st.sampled_from(file.sources)), Path(home))
        done[LARGE_FILES] += 1

    large()
    yield
    for death in deaths.ALL:
        with TemporaryDirectory() as home:
            death(Path(home), number)
        done[DEATHS] += 1
        yield
    done[KILLED] += kills.round(number)
    yield
    done[KILLED] += kills.of_views(number, spark) + kills.of_data_sources(number)
    yield
    done[KILLED] += kills.of_tables(number) + kills.of_logs(number)
    done[SERVERS] += kills.of_servers(number)
    yield
    done[DAMAGED] += damaged(spark, Random(number), kills.server, of_each=1, on_spark=40)
    if kills.server is not None:
        with TemporaryDirectory() as home:
            read_history(kills.server, f"log_{number}", Path(home), Random(number), 400)
        clear(kills.server, f"log_{number}")
        done[LOGS] += 1
    yield

    def somehow_set() -> AbstractContextManager[None]:
        """In every third round, a block with other settings of the session."""
        return oddly_set(spark) if number % 3 == 0 else nullcontext()

    for kind in KINDS:
        with somehow_set():
            found = disagreements(spark, kind, number)
        if found:
            raise AssertionError("\n".join(found))
        done[CALLS] += 1
        yield
    for in_the_reference in (reference, beside, documented, wild, looped, guarded, joined):
        in_the_reference()
        yield
    # Every other round runs the code that Spark generates, which takes longer to compile than to run.
    with interpreted(spark) if number % 2 else nullcontext(), somehow_set(), states(DRAWN[number // 2 % len(DRAWN)]):
        for on_spark in (alone, wilder, rarer, together, trusting, replacing):
            on_spark()
        assert_follows(spark, [INCREMENTAL[number % len(INCREMENTAL)]], ONE_BY_ONE)
        for place in range(FEW):
            properties.hold(PROPERTIES[(number + place) % len(PROPERTIES)], number, spark)
            done[PROPERTIES_HELD] += 1
    yield
    assert_construct(spark, CONSTRUCTS[number % len(CONSTRUCTS)])
    name, strategy = EVERY_WAY[number % len(EVERY_WAY)]
    history = FILES[name].history(10, number % 1000)
    with TemporaryDirectory() as home:
        assert_kept_on_spark(spark, Path(home), name, strategy, history)
    with TemporaryDirectory() as home:
        assert_kept_in_the_reference(Path(home), name, strategy, history)
    name, threshold = DIFFUSED[number % len(DIFFUSED)]
    with TemporaryDirectory() as home:
        assert_within_residuals(Path(home), name, threshold, FILES[name].history(10, number % 1000))
    done[LOOPS] += 3
    yield
    follow(spark, NAMES[number % len(NAMES)], *arriving(10, number % 1000))
    done[TPCH] += 1


@attrs.frozen
class Kills:
    """The numbers of kills of streams in a round, in the reference engine and on Spark, where views and streams of data
    sources are killed as often; and the server for their tables. Without a server they write directories only, and
    there are no logs."""

    reference: int
    spark: int
    server: Server | None

    def round(self, number: int) -> int:
        """Kills streams at random moments, each of which must end with the output that it has without; returns the
        number of kills."""
        random = Random(number)
        killed = self._of(random, "reference", self.reference, batches=60, delay=0.2)
        # Few kills need no long stream, and on Spark the rest of a stream takes a second for each batch.
        return killed + self._of(random, "spark", self.spark, batches=min(60, 5 + self.spark), delay=5)

    def _of(self, random: Random, engine: str, most: int, *, batches: int, delay: float) -> int:
        killed = 0
        while killed < most:
            with TemporaryDirectory() as home:
                fill(Path(home), batches, random, first=random.choice((6, 1200)))
                stream = Stream(
                    Path(home), random.choice((GROUPS, JOIN, UPSERTS)), engine, emit=random.choice(list(Emit))
                )
                killed += survives(stream, random, kills=most - killed, delay=delay, server=self.server)
        return killed

    def of_views(self, number: int, spark: SparkSession) -> int:
        """Kills processes that feed a view, as often as streams on Spark; returns the number of kills."""
        random, killed = Random(number), 0
        while killed < self.spark:
            with TemporaryDirectory() as home:
                ways, most = WAYS if self.server is None else ALL_WAYS, min(3, self.spark - killed)
                with nullcontext() if self.server is None else logged(self.server, Path(home)):
                    killed += view_survives(spark, Path(home), random.choice(list(ways)), random, kills=most, delay=2)
        return killed

    def of_data_sources(self, number: int) -> int:
        """Kills streams of Python data sources on Spark, as often as views; returns the number of kills."""
        random, killed = Random(number), 0
        while killed < self.spark:
            with TemporaryDirectory() as home:
                most = min(3, self.spark - killed)
                killed += source_survives(
                    Path(home), random.choice(READERS), random, engine="spark", batches=5 + most, kills=most, delay=2
                )
        return killed

    def of_tables(self, number: int) -> int:
        """Kills streams of tables of Delta Lake and of Iceberg; returns the number of kills."""
        random, killed = Random(number), 0
        for engine, kills, delay in self.of_few:
            for connector in TABLES:
                with TemporaryDirectory() as home:
                    killed += table_survives(Path(home), connector, random, kills=kills, delay=delay, engine=engine)
        return killed

    def of_logs(self, number: int) -> int:
        """Kills streams of the log of a table of PostgreSQL; returns the number of kills."""
        killed = 0
        if self.server is None:
            return killed
        for engine, kills, delay in self.of_few:
            table, random = f"killed_{secrets.token_hex(8)}", Random(number)
            with TemporaryDirectory() as home:
                killed += log_survives(self.server, table, Path(home), random, kills=kills, delay=delay, engine=engine)
            clear(self.server, table)
        return killed

    def of_servers(self, number: int) -> int:
        """Kills the server while a stream follows it; returns the number of kills."""
        if self.server is None:
            return 0
        table = f"killed_{secrets.token_hex(8)}"
        with TemporaryDirectory() as home:
            server_survives(self.server, table, Path(home), Random(number), crashes=2, delay=0.3)
        clear(self.server, table)
        return 2

    @property
    def of_few(self) -> tuple[tuple[str, int, float], ...]:
        """For each engine, the number of kills of a stream of a table, and the maximal time before a kill, in seconds;
        the table grows between kills."""
        return ("reference", self.reference // 20, 0.3), ("spark", min(1, self.spark), 2)


def damaged(spark: SparkSession, random: Random, server: Server | None, *, of_each: int, on_spark: int) -> int:
    """Damages files that streams have left: `of_each` positions of each class of each file, and `on_spark` of these on
    Spark; returns the number of damages."""
    done = 0
    # With these, a few batches suffice for runs of changes and lists of files.
    with patch.multiple(policy, REWRITTEN_WHOLE_MAX_ROWS=0, NAMED_MAX_FILES=1):
        with_tables = [] if server is None else [partial(undelivered, server=server)]
        for scene in (*SCENES, undelivered_to_delta, *with_tables):
            with TemporaryDirectory() as home:
                left = scene(Path(home))
                for damage in left.damages(random, of_each):
                    left.after(damage)
                    done += 1
                if left.table is not None:
                    left.table.drop()
        with TemporaryDirectory() as home, interpreted(spark):
            left = stopped(Path(home), "spark", spark)
            found = left.damages(random, of_each)
            for damage in random.sample(found, min(on_spark, len(found))):
                left.after(damage)
                done += 1
    return done


LOOPED = 200
"""The number of batches of a loop for which the memory that they leave in use is measured."""


def loops(spark: SparkSession) -> None:
    """Prints the memory that the batches of a loop leave in use, in each way; growth ends the run."""
    for strategy in loop_memory.WAYS:
        found = loop_memory.require_level(spark, strategy, LOOPED, LOOPED // 10)
        click.echo(f"  a loop, {strategy}: after {found[2]}; after {found[-1]}")


def rounds(only: int | None, minutes: float, parts_of: Callable[[int], Iterator[None]], done: Counter[str]) -> None:
    """Runs the round of the seed `only`, or rounds of new seeds until the time is over; the first of them runs to its
    end in any case."""
    until = time.monotonic() + 60 * minutes

    def overdue() -> bool:
        return time.monotonic() > until

    for first in chain([True], repeat(False)):
        number = secrets.randbelow(2**32) if only is None else only
        click.echo(f"seed {number}")
        stopped = any(overdue() and not first for _ in parts_of(number))
        click.echo("  so far " + ", ".join(f"{cases:,} cases {where}" for where, cases in done.items()))
        if stopped:
            click.echo("  stopped within this round: the time is over")
        if only is not None or overdue():
            return


@click.command()
@click.option("--minutes", type=click.FloatRange(min=0), default=10.0, show_default=True)
@click.option("--seed", "only", type=click.IntRange(min=0), help="Runs the round of this seed alone.")
@click.option("--kills", default=60, show_default=True, help="How often a round kills streams.")
@click.option(
    "--kills-on-spark",
    default=1,
    show_default=True,
    help="How often on Spark, and views and data sources, tables and logs.",
)
@click.option("--damages", type=click.IntRange(min=1), help="Damages checkpoints alone, so many of them on Spark.")
def main(minutes: float, only: int | None, kills: int, kills_on_spark: int, damages: int | None) -> None:
    """Runs generated cases in the reference and on Spark."""
    done: Counter[str] = Counter()
    server = None if binaries() is None else Server.start()
    if server is None:
        click.echo(f"the streams that are killed write to directories alone: {MISSING}")
    spark = local_spark()
    try:
        if damages is not None:
            done[DAMAGED] += damaged(spark, Random(only), server, of_each=1, on_spark=damages)
            click.echo(f"{done[DAMAGED]:,} cases {DAMAGED}")
            return
        if only is None:
            loops(spark)
        often = Kills(kills, kills_on_spark, server)
        # Streams report each batch, and each damage that they find.
        with open(os.devnull, "w") as unheard, redirect_stderr(unheard):
            rounds(only, minutes, lambda number: play(number, spark, often, done), done)
    finally:
        spark.stop()
        if server is not None:
            server.stop()


if __name__ == "__main__":
    main()
