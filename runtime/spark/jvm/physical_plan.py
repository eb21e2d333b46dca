"""The physical plan of a DataFrame: its leaves, and the columns that it reads of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import items, name_of
from mrql.runtime.spark.jvm.persisted import RowShape, shape_of
from mrql.runtime.spark.jvm.prepared_plan import PreparedPlan, paths


class PhysicalPlan:
    """The physical plan of a DataFrame."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._plan = df._jdf.queryExecution().executedPlan()

    def can_be_copied(self) -> bool:
        """Whether a copy of the plan is independent of it."""
        return can_be_copied(self._plan)

    def rdds(self) -> Iterator[tuple[int, int]]:
        """The leaves that scan an RDD: the number of each leaf, and the id of its RDD."""
        for number, leaf in enumerate(items(self._plan.collectLeaves())):
            if name_of(leaf) == "RDDScanExec":
                yield number, leaf.rdd().id()

    def read_of(self, leaves: Sequence[int]) -> set[str] | None:
        """The columns that are read of some leaves with the same columns; None if they may be all."""
        wanted = {*leaves}
        found: set[str] = set()
        for number, (leaf, above) in enumerate(paths(self._plan)):
            if number in wanted:
                read = _read(leaf, above)
                if read is None:
                    return None
                found |= read
        return found

    def prepared(self, spark: SparkSession, leaves: Iterable[int]) -> PreparedPlan:
        """The plan without the rows of some leaves, to be executed over rows of other plans."""
        return PreparedPlan.of(spark, self._plan, tuple(leaves), of_plans=True)

    def shape(self, *, few: bool) -> RowShape:
        """The columns and the partitioning of the plan's rows when they are kept; if they are in one partition, Spark
        may take them to be `few`."""
        return shape_of(self._df, few=few)


def can_be_copied(plan: Any) -> bool:
    """Whether a copy of a plan is independent of it: a query inside an expression would be shared."""
    return bool(plan.subqueriesAll().isEmpty())


def executed_plan(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def _read(leaf: Any, above: Sequence[Any]) -> set[str] | None:
    """The columns of a leaf that are read by the nodes above it; None if all may be passed on."""
    used: set[int] = set()
    for node in reversed(above):
        name = name_of(node)
        if name in ("ProjectExec", "FilterExec", "HashAggregateExec", "ObjectHashAggregateExec"):
            used |= {attribute.exprId().id() for attribute in items(node.references().toSeq())}
            if name != "FilterExec":
                return {a.name() for a in items(leaf.output()) if a.exprId().id() in used}
        elif name not in ("WholeStageCodegenExec", "InputAdapter", "CoalesceExec"):
            return None
    return None
