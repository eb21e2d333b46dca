"""The engines, and how one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.span import Source
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.restore import GoingOn
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.reference.engine import ReferenceEngine
from mrql.runtime.streaming.stream_loop import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_engine(
    name: str,
    plan: Plan,
    sources: Mapping[str, SourceSpec],
    quarantine: Quarantine | None,
    going_on: GoingOn | None,
    session: Callable[[], SparkSession],
    source: Source | None,
    partitions: int | None,
) -> Engine:
    """The engine of a name over a plan. The one on Spark takes a `session`, the text of the query (`source`) for its
    errors, and the number of `partitions` of a state."""
    if name == "reference":
        return ReferenceEngine(plan, sources, quarantine, going_on)
    from mrql.runtime.spark.engine import SparkEngine  # imports pyspark only when needed

    return SparkEngine(plan, sources, session(), source, quarantine, going_on, partitions)
