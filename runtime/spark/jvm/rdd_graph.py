"""The RDDs that a physical plan makes, made again over other rows.

Executing a plan makes some RDDs, each with a function of Spark's over the partitions of those below it. To get there,
Spark copies the plan, writes the text of its code, and looks up the compiled code: several milliseconds for each plan,
however few rows there are. But the functions are the same for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import attrs
from pyspark.sql import SparkSession

from mrql.runtime.spark.jvm.handles import Handles, MadeBy, field, handles, items, name_of

Make = Callable[[Sequence[Any]], Any]
"""Makes an RDD over others."""


@attrs.frozen
class RddGraph:
    """How an RDD is made over those at the leaves of a plan. RDDs are identified by their ids in the execution that was
    seen."""

    leaves: tuple[int, ...]
    steps: Mapping[int, tuple[Make, tuple[int, ...]]]
    """For each RDD, the function that makes it, and the RDDs that it is made over; in the order in which they are
    made."""
    fixed: Mapping[int, Any]
    """RDDs that depend on none of the leaves, such as those of a static table: they are used as they are."""
    top: int

    @staticmethod
    def of(spark: SparkSession, top: Any, leaves: Sequence[Any], copied: Collection[int] = ()) -> RddGraph | None:
        """The graph of an RDD over some leaves; None if it is not known how an RDD in between is made.

        The RDDs directly over the leaves with the numbers `copied` only copy their rows, and are left out.
        """
        starts = tuple(leaf.id() for leaf in leaves)
        over_leaves, fixed = _below(top, starts)
        as_they_are = {(starts[number],) for number in copied}
        steps: dict[int, tuple[Make, tuple[int, ...]]] = {}
        for number, (rdd, below) in over_leaves.items():
            is_copy = below in as_they_are and number != top.id()
            make = _itself if is_copy else made_likewise(handles(spark), rdd)
            if make is None:
                return None
            steps[number] = make, below
        return RddGraph(starts, steps, fixed, top.id())

    def over(self, leaves: Sequence[Any]) -> Any:
        """The RDD over other leaves, each with as many partitions as the original one."""
        made = {**self.fixed, **dict(zip(self.leaves, leaves, strict=True))}
        for rdd, (make, below) in self.steps.items():
            made[rdd] = make([made[part] for part in below])
        return made[self.top]


def _below(top: Any, leaves: Sequence[int]) -> tuple[dict[int, tuple[Any, tuple[int, ...]]], dict[int, Any]]:
    """The RDDs from `top` down to some leaves: those that depend on leaves, each after the RDDs below it and with their
    ids; and the others."""
    over_leaves: dict[int, tuple[Any, tuple[int, ...]]] = {}
    fixed: dict[int, Any] = {}

    def is_over_leaves(rdd: Any) -> bool:
        number = rdd.id()
        if number in leaves or number in over_leaves or number in fixed:
            return number not in fixed
        below = [dependency.rdd() for dependency in items(rdd.dependencies())]
        # A list, so that all of them are visited.
        if True in [is_over_leaves(part) for part in below]:
            over_leaves[number] = rdd, tuple(part.id() for part in below)
            return True
        fixed[number] = rdd
        return False

    is_over_leaves(top)
    return over_leaves, fixed


def _itself(below: Sequence[Any]) -> Any:
    return below[0]


# --- the kinds of RDDs ----------------------------------------------------------------------------


def made_likewise(java: Handles, rdd: Any) -> Make | None:
    """A function that makes an RDD like a given one over other RDDs; None if it is not known how."""
    kind = KINDS.get(name_of(rdd))
    return None if kind is None else kind(java, rdd)


def _mapped(java: Handles, rdd: Any) -> Make | None:
    return _over_one(java.mapped_rdd, rdd, "f", rdd.partitioner().isDefined())


def _evaluated(java: Handles, rdd: Any) -> Make | None:
    return _over_one(java.evaluated_rdd, rdd, "evaluatorFactory")


def _over_one(made: MadeBy, rdd: Any, function: str, *first: bool) -> Make | None:
    """Makes an RDD over one other, with the function and the flags of the given one; None if the constructor has other
    flags."""
    of, tag, told = _own(rdd, function), rdd.elementClassTag(), (*first, *_told(rdd))
    if len(told) != made.booleans:
        return None
    return lambda below: made.constructor(below[0], of, *told, tag, tag)


def _zipped(java: Handles, rdd: Any) -> Make:
    of, tag, kept = _own(rdd, "f"), rdd.elementClassTag(), rdd.partitioner().isDefined()
    context = rdd.sparkContext()
    return lambda below: java.zipped_rdd(context, of, *below, kept, tag, tag, tag)


def _zipped_evaluated(java: Handles, rdd: Any) -> Make:
    of, tag = _own(rdd, "evaluatorFactory"), rdd.elementClassTag()
    return lambda below: java.zipped_evaluated_rdd(*below, of, tag, tag)


def _union(java: Handles, rdd: Any) -> Make:
    return _united(java, rdd, java.union_rdd)


def _union_in_place(java: Handles, rdd: Any) -> Make:
    return _united(java, rdd, java.union_in_place_rdd)


def _united(java: Handles, rdd: Any, union: Any) -> Make:
    context, tag = rdd.sparkContext(), rdd.elementClassTag()
    return lambda below: union(context, java.seq(below), tag)


def _beside(java: Handles, rdd: Any) -> Make:
    context, partitions, tag = rdd.sparkContext(), rdd.getNumPartitions(), rdd.elementClassTag()
    return lambda below: java.beside_rdd(context, java.seq(below), partitions, tag)


def _coalesced(java: Handles, rdd: Any) -> Make:
    partitions, how, tag = _own(rdd, "maxPartitions"), _own(rdd, "partitionCoalescer"), rdd.elementClassTag()
    return lambda below: java.coalesced_rdd(below[0], partitions, how, tag)


def _shuffled(java: Handles, rdd: Any) -> Make | None:
    """Makes a shuffle. The partition of a row is computed by a function over the partitions below, an RDD of its own,
    and the number of partitions is fixed. (The range in which a row falls depends on the rows: see `PreparedPlan`.)"""
    if java.shuffles is None:
        return None
    shuffle, metrics = java.shuffles.likewise(rdd.dependency(), rdd.elementClassTag()), _own(rdd, "metrics")
    return lambda below: java.shuffled_rdd(shuffle(below[0]), metrics)


KINDS: Mapping[str, Callable[[Handles, Any], Make | None]] = {
    "MapPartitionsRDD": _mapped,
    "MapPartitionsWithEvaluatorRDD": _evaluated,
    "ZippedPartitionsRDD2": _zipped,
    "ZippedPartitionsWithEvaluatorRDD": _zipped_evaluated,
    "UnionRDD": _union,
    "PartitionerAwareUnionRDD": _union_in_place,
    "SQLPartitioningAwareUnionRDD": _beside,
    "CoalescedRDD": _coalesced,
    "ShuffledRowRDD": _shuffled,
}


def _own(rdd: Any, name: str) -> Any:
    """The value of a field of an RDD."""
    return field(rdd.getClass(), name).get(rdd)


TOLD = ("isFromBarrier", "isOrderSensitive", "preservesPartitionSizes")
"""The flags of a function over partitions, in the order of the constructor's parameters; not every version has all."""


def _told(rdd: Any) -> list[bool]:
    there = {own.getName() for own in rdd.getClass().getDeclaredFields()}
    return [_own(rdd, name) for name in TOLD if name in there]
