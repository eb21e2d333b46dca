"""A table that a query follows, version by version, in an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from pyspark.sql import SparkSession

from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag, Record, Value, close
from mrql.cli.planning import plan_of, streaming_query
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.engine.answer import Answer
from mrql.runtime.engines import make_engine
from mrql.runtime.sources.directory import Watched, next_batch, watch
from mrql.runtime.streaming.stream_loop import Engine
from tests.support import delta_tables, iceberg_tables

CONTENT = {"delta": delta_tables.content, "iceberg": iceberg_tables.content}
"""The rows of tables at a version, as others read them, by their connectors."""

ROWS = 'T = stream(delta, "t"); select r from r in T;'
GROUPS = 'T = stream(delta, "t"); select (i, count(r), sum(r.id)) from r in T group by i: r.id;'
JOIN = 'T = stream(delta, "t"); select (a, b) from a in T, b in T where a.id = b.id;'


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
        """A batch, after which the answer is that over the table, unless not all of it has been read. Returns how many
        files it has read."""
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
