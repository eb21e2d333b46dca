"""Physical plans that are executed again and again, with other rows at their leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.runtime.spark.jvm.handles import handles, items, name_of, nothing
from mrql.runtime.spark.jvm.rdd_graph import RddGraph

REMEMBERED_MAX_GRAPHS = 8
"""Of how many numbers of partitions at its leaves the RDDs of a plan are remembered."""


@attrs.define(eq=False)
class PreparedPlan:
    """A physical plan without the rows of some of its leaves.

    The first time that there are so many partitions at each leaf, the plan is executed over RDDs without rows, to see
    what RDDs come of that. Those are made over the rows of a batch, then and later. How many partitions there are is
    all that Spark looks at of an RDD before a job begins: it decides whether one is left out of a union, or a limit is
    of one.
    """

    plan: Any
    leaves: tuple[int, ...]
    """The numbers of the leaves that are to be filled in."""
    is_of_one_batch: bool
    """Whether what is made of the plan has rows of the leaves in it: those that are sent to all tasks, or the bounds of
    ranges in which rows are put."""
    copied: tuple[int, ...]
    """The places, among these, of leaves whose rows are copied, and no more, before another operator reads them."""
    _graphs: OrderedDict[tuple[int, ...], RddGraph | None] = attrs.field(factory=OrderedDict, init=False)
    """By the numbers of partitions; None where the plan is to be executed each time."""

    @staticmethod
    def of(spark: SparkSession, plan: Any, leaves: tuple[int, ...], *, of_plans: bool = False) -> PreparedPlan:
        """A plan, of which a copy is made that keeps nothing alive that is in its leaves. They may be said to be filled
        with what other plans compute."""
        copy = copied(spark, plan)
        found = copy.collectLeaves()
        for number in leaves:
            handles(spark).scanned.set(found.apply(number), nothing(spark))
        nodes = [above for _, above in paths(copy)]
        above = [nodes[leaf] for leaf in leaves]
        looks = any(_looks_at_rows(node) for nodes in above for node in nodes)
        return PreparedPlan(*_sent_once(spark, copy, leaves), looks, tuple(_copied(above)) if of_plans else ())

    def over(self, spark: SparkSession, filled: Sequence[Any]) -> Any:
        """The rows of the plan as an RDD, with another one for each of the leaves."""
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
        """The rows of a copy of the plan with an RDD for each of the leaves.

        Generated code refers to its node of the plan, and a task is sent that node with all below it. So the leaves are
        emptied once the RDD is made: else each task has what all RDDs before it are made of, back to the last ones that
        are computed.
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
    """The places of leaves that are scanned apart from the operators above them, which are given for each.

    Spark's scan of an RDD makes rows of its own of those that it reads, since these may be of any kind. What a plan
    computes already has that form, and need not be copied. (A shelf of a state has a hundred kilobytes.)
    """
    for place, nodes in enumerate(above):
        if nodes and name_of(nodes[-1]) in ("WholeStageCodegenExec", "InputAdapter"):
            yield place


def _looks_at_rows(node: Any) -> bool:
    """Whether a node of a plan has a job find something out of the rows below it when it is executed."""
    if name_of(node) == "ShuffleExchangeExec":
        return name_of(node.outputPartitioning()) == "RangePartitioning"
    return name_of(node).endswith("ExchangeExec")


def _sent_once(spark: SparkSession, plan: Any, leaves: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """A plan in which the rows that stay the same, and are sent to all tasks, are sent when it is first executed, and
    are there already for each copy of it; and the numbers of its leaves that are to be filled in.

    A copy has an exchange of its own, which sends the rows again. But of one that stands for another it has one that
    stands for the same.
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
    """A copy of a plan. It works in the session that is the active one of the thread that makes it."""
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
    """An RDD without rows, in so many partitions."""
    if partitions == 0:
        return nothing(spark)
    return spark.sparkContext._jsc.parallelize(spark._jvm.java.util.ArrayList(), partitions).rdd()  # type: ignore[union-attr]
