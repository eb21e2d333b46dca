"""Physical plans that are used again, with other rows at their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import handles, items, name_of, nothing
from mrql.runtime.spark.jvm.persisted import RowShape, shape_of


class PhysicalPlan:
    """The physical plan of a DataFrame."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._plan = df._jdf.queryExecution().executedPlan()

    def can_be_copied(self) -> bool:
        """Whether a copy of the plan is a plan of its own."""
        return can_be_copied(self._plan)

    def rdds(self) -> Iterator[tuple[int, int]]:
        """The leaves that scan an RDD: the number of each, and the RDD's."""
        for number, leaf in enumerate(items(self._plan.collectLeaves())):
            if name_of(leaf) == "RDDScanExec":
                yield number, leaf.rdd().id()

    def read_of(self, leaves: Sequence[int]) -> set[str] | None:
        """The columns that are read of some leaves with the same columns; None if it may be all."""
        wanted = {*leaves}
        found: set[str] = set()
        for number, (leaf, above) in enumerate(paths(self._plan)):
            if number in wanted:
                read = _read(leaf, above)
                if read is None:
                    return None
                found |= read
        return found

    def emptied(self, spark: SparkSession, leaves: Sequence[int]) -> Any:
        """A copy without the rows of some leaves, so that it keeps nothing alive."""
        copy = _copied(spark, self._plan)
        found = copy.collectLeaves()
        for number in leaves:
            handles(spark).scanned.set(found.apply(number), nothing(spark))
        return copy

    def shape(self, *, few: bool) -> RowShape:
        """The columns and the partitioning of the plan's rows when they are kept; if they are in one partition, Spark
        may take them to be `few`."""
        return shape_of(self._df, few=few)


def can_be_copied(plan: Any) -> bool:
    """Whether a copy of a plan is a plan of its own: one with a query inside an expression shares that."""
    return bool(plan.subqueriesAll().isEmpty())


def execute(spark: SparkSession, plan: Any, rows: Mapping[int, Any]) -> Any:
    """The rows of a copy of a plan, with an RDD for each of the given leaves.

    Generated code refers to its node of the plan, and a task is sent that node with all below it. So the leaves are
    emptied once the RDD is made: else each task has what all RDDs before it are made of, back to the last ones that are
    computed.
    """
    copy = _copied(spark, plan)
    scanned, leaves, empty = handles(spark).scanned, copy.collectLeaves(), nothing(spark)
    filled = [(leaves.apply(number), rdd) for number, rdd in rows.items()]
    for leaf, rdd in filled:
        scanned.set(leaf, rdd)
    made = copy.execute()
    for leaf, _ in filled:
        scanned.set(leaf, empty)
    return made


def executed_plan(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def _copied(spark: SparkSession, plan: Any) -> Any:
    # A plan works in the session that is the active one of the thread that makes it.
    handles(spark).activate(spark._jsparkSession)
    return plan.clone()


def paths(plan: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The leaves of a plan in order, each with the nodes above it."""
    children = list(items(plan.children()))
    if not children:
        yield plan, above
    for child in children:
        yield from paths(child, (*above, plan))


def _read(leaf: Any, above: Sequence[Any]) -> set[str] | None:
    """The columns of a leaf that are read by what is above it; None if they are passed on as they are."""
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
