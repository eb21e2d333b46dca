"""Physical plans that are executed repeatedly, with other rows at their leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.runtime.spark.jvm.handles import handles, items, name_of, nothing
from mrql.runtime.spark.jvm.rdd_graph import RddGraph

REMEMBERED_MAX_GRAPHS = 8
"""For how many combinations of partition counts at its leaves the RDDs of a plan are remembered."""


@attrs.define(eq=False)
class PreparedPlan:
    """A physical plan without the rows of some of its leaves.

    The first time that its leaves have certain numbers of partitions, the plan is executed over RDDs without rows, to
    see which RDDs result. These are then made over the rows of the batch, and of later ones. The number of partitions
    is all that Spark looks at in an RDD before a job begins: it decides whether an RDD is left out of a union, or
    whether a limit is over one partition.
    """

    plan: Any
    leaves: tuple[int, ...]
    """The numbers of the leaves that are to be filled in."""
    is_of_one_batch: bool
    """Whether the RDDs of the plan depend on rows of the leaves: on those that are broadcast, or on the bounds of
    ranges by which rows are partitioned."""
    copied: tuple[int, ...]
    """The positions in `leaves` of those whose rows are only copied before another operator reads them."""
    _graphs: OrderedDict[tuple[int, ...], RddGraph | None] = attrs.field(factory=OrderedDict, init=False)
    """By the numbers of partitions of the leaves; None if the plan is to be executed each time."""

    @staticmethod
    def of(spark: SparkSession, plan: Any, leaves: tuple[int, ...], *, of_plans: bool = False) -> PreparedPlan:
        """Prepares a copy of a plan that keeps alive nothing that is in the leaves. `of_plans` says that these are
        filled with rows computed by other plans."""
        copy = copied(spark, plan)
        found = copy.collectLeaves()
        for number in leaves:
            handles(spark).scanned.set(found.apply(number), nothing(spark))
        nodes = [above for _, above in paths(copy)]
        above = [nodes[leaf] for leaf in leaves]
        looks = any(_looks_at_rows(node) for nodes in above for node in nodes)
        return PreparedPlan(*_sent_once(spark, copy, leaves), looks, tuple(_copied(above)) if of_plans else ())

    def over(self, spark: SparkSession, filled: Sequence[Any]) -> Any:
        """The rows of the plan as an RDD, with the given RDDs at its leaves."""
        graph = None if self.is_of_one_batch else self._graph(spark, tuple(rdd.getNumPartitions() for rdd in filled))
        return self._executed(spark, filled) if graph is None else graph.over(filled)

    def _graph(self, spark: SparkSession, partitions: tuple[int, ...]) -> RddGraph | None:
        if partitions in self._graphs:
            self._graphs.move_to_end(partitions)
            return self._graphs[partitions]
        empty = [_without_rows(spark, number) for number in partitions]
        self._graphs[partitions] = graph = RddGraph.of(spark, self._executed(spark, empty), empty, self.copied)
        if len(self._graphs) > REMEMBERED_MAX_GRAPHS:
            self._graphs.popitem(last=False)
        return graph

    def _executed(self, spark: SparkSession, filled: Sequence[Any]) -> Any:
        """The rows of a copy of the plan, executed with an RDD for each of the leaves.

        Generated code refers to its node of the plan, and a task is sent that node with all below it. So the leaves are
        emptied once the RDD is made: otherwise each task contains the lineage of the RDDs at the leaves, back to the
        last computed ones.
        """
        copy = copied(spark, self.plan)
        scanned, found, empty = handles(spark).scanned, copy.collectLeaves(), nothing(spark)
        leaves = [found.apply(number) for number in self.leaves]
        for leaf, rdd in zip(leaves, filled, strict=True):
            scanned.set(leaf, rdd)
        made = copy.execute()
        for leaf in leaves:
            scanned.set(leaf, empty)
        return made


def _copied(above: Sequence[Sequence[Any]]) -> Iterator[int]:
    """The positions of leaves whose scan is separate from the operators above it, which are given for each leaf.

    Spark's scan of an RDD converts the rows that it reads to its own form, since they may be of any kind. Rows computed
    by a plan already have that form, and need not be copied. (A shelf of a state has a hundred kilobytes.)
    """
    for place, nodes in enumerate(above):
        if nodes and name_of(nodes[-1]) in ("WholeStageCodegenExec", "InputAdapter"):
            yield place


def _looks_at_rows(node: Any) -> bool:
    """Whether a node of a plan looks at the rows below it when it is executed, by a job: a broadcast or a partitioning
    by range."""
    if name_of(node) == "ShuffleExchangeExec":
        return name_of(node.outputPartitioning()) == "RangePartitioning"
    return name_of(node).endswith("ExchangeExec")


def _sent_once(spark: SparkSession, plan: Any, leaves: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """A plan whose broadcasts of static rows are computed when it is first executed, and shared by all copies of it;
    and the numbers that the leaves to be filled in have there.

    A copy of a broadcast exchange would send the rows again, but a copy of a `ReusedExchangeExec` refers to the same
    exchange.
    """
    java, numbers, before = handles(spark), dict[int, int](), 0

    def with_sent(node: Any) -> Any:
        nonlocal before
        children = list(items(node.children()))
        if not children:
            numbers[before] = len(numbers)
            before += 1
            return node
        if name_of(node) == "BroadcastExchangeExec":
            below = range(before, before + node.collectLeaves().size())
            if not {*below} & {*leaves}:
                numbers[before] = len(numbers)
                before += len(below)
                return java.reused_exchange(node.output(), node)
        now = [with_sent(child) for child in children]
        if all(a is b for a, b in zip(children, now, strict=True)):
            return node
        return node.withNewChildren(java.seq(now))

    sent = with_sent(plan)
    return sent, tuple(numbers[leaf] for leaf in leaves)


def copied(spark: SparkSession, plan: Any) -> Any:
    """A copy of a plan. It belongs to the session that is active in the thread that makes it, so `spark` is
    activated."""
    handles(spark).activate(spark._jsparkSession)
    return plan.clone()


def paths(plan: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The leaves of a plan in order, each with the nodes above it."""
    children = list(items(plan.children()))
    if not children:
        yield plan, above
    for child in children:
        yield from paths(child, (*above, plan))


def _without_rows(spark: SparkSession, partitions: int) -> Any:
    """An RDD without rows, with the given number of partitions."""
    if partitions == 0:
        return nothing(spark)
    return spark.sparkContext._jsc.parallelize(spark._jvm.java.util.ArrayList(), partitions).rdd()  # type: ignore[union-attr]
