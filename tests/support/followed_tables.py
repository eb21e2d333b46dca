"""A table that a query follows, version by version, in an engine."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeAlias, TypeVar

import attrs
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.cli.query_files import plan_of, streaming_query
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.engine.answer import Answer
from mrql.runtime.engines import make_engine
from mrql.runtime.sources.watched.watch import Watched, next_batch, watch
from mrql.runtime.streaming.stream_loop import Engine
from tests.runtime.checkpoint.crashes import KilledStream, is_whole
from tests.runtime.checkpoint.streams import Crash, Failing, Moment, Stream, batch_answer
from tests.support import delta_tables, iceberg_tables

Step = TypeVar("Step")
Spark: TypeAlias = SparkSession | None

CONTENT = {"delta": delta_tables.content, "iceberg": iceberg_tables.content}
"""By connector, the function that reads the rows of a table at a version with another library."""

ROWS = 'T = stream(delta, "t"); select r from r in T;'
GROUPS = 'T = stream(delta, "t"); select (i, count(r), sum(r.id)) from r in T group by i: r.id;'
JOIN = 'T = stream(delta, "t"); select (a, b) from a in T, b in T where a.id = b.id;'


def assert_follows(
    home: Path,
    text: str,
    steps: Sequence[Step],
    apply: Callable[[Step], None],
    data: st.DataObject,
    spark: Spark = None,
) -> None:
    """After each batch, of one version or several, the answer is that over the table as another library reads it."""
    first = data.draw(st.integers(0, len(steps)))
    for step in steps[:first]:
        apply(step)
    followed = Followed.by(home, text, spark)
    followed.step()
    for step in steps[first:]:
        apply(step)
        if data.draw(st.booleans()):
            followed.step(data.draw(st.none() | st.integers(1, 3)))
    followed.step()
    followed.engine.close()


def assert_goes_on_where_cut_off(stream: Stream, operations: int, every: int) -> None:
    """A stream that is cut off at any `every`-th of its first `operations` on files continues to the right answer."""
    for at in range(1, operations + 1, every):
        stream.clear()
        for _ in range(2):
            with contextlib.suppress(Crash):
                stream.run(Failing(at=at, moment=Moment.AFTER if at % 2 else Moment.BEFORE))
        stream.run()
        last = stream.answers()
        assert last[max(last)] == batch_answer(stream), at


def assert_survives_kills(stream: Stream, kills: int) -> None:
    """A stream that is killed `kills` times while it reads new data gives the same answers as without."""
    first = stream.answers()
    shutil.copytree(stream.checkpoint, stream.home / "c")
    shutil.copytree(stream.out, stream.home / "o")
    stream.run()
    expected = stream.answers()
    for path, kept in ((stream.checkpoint, "c"), (stream.out, "o")):
        shutil.rmtree(path)
        shutil.move(stream.home / kept, path)
    assert stream.answers() == first
    assert KilledStream(Random(5), 0.01, stream).until_done(kills)
    assert stream.answers() == expected
    assert is_whole(stream)


@attrs.define
class Followed:
    """A query over the table `t` of a directory."""

    home: Path
    term: Term
    columns: Sequence[str]
    engine: Engine
    watched: Sequence[Watched]
    answer: Value = None

    @staticmethod
    def by(home: Path, text: str, spark: SparkSession | None = None) -> Followed:
        program = compile_over_files(text, base=home)
        query = streaming_query(program, home)
        plan = plan_of(program, query, LoopStrategy.AUTO)
        name = "reference" if spark is None else "spark"
        engine = make_engine(name, plan, program.sources, None, None, lambda: spark, query.span.source, None)  # type: ignore[arg-type,return-value]
        spec = program.sources["T"]
        return Followed(home, query.term, spec.row.names, engine, watch([spec]))  # type: ignore[attr-defined]

    def step(self, most: int | None = None) -> int:
        """Applies a batch, after which the answer is that over the table at the version reached. Returns the number of
        files read."""
        batch = next_batch(self.watched, most)

        def put(answer: Answer) -> None:
            self.answer = answer.snapshot().collect()

        self.engine.advance(batch, put, changes=False)
        for one in self.watched:
            one.commit(batch.get(one.spec.name, ()))
        version = self.watched[0].offset["version"]  # type: ignore[union-attr]
        adapter = self.watched[0].spec.adapter
        assert adapter is not None
        whole = CONTENT[adapter](self.home / "t", version)
        rows = Bag(Record({name: row.fields.get(name) for name in self.columns}) for row in whole)  # type: ignore[union-attr]
        expected = evaluate(self.term, {"T": rows})
        assert close(self.answer, expected), f"at version {version}: {self.answer}, not {expected}"
        return sum(len(parts) for parts in batch.values())
