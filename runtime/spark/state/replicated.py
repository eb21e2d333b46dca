"""A change that meets a state which lies by another key than the one that they are joined by.

The rows of the state stay where they are, and each row of the change is brought to each of its partitions. Spark's
broadcast does that in a job of its own, which the plan of the batch waits for, and which is planned anew each time. As
a shuffle it is a stage of the batch's one job:

    Δ × {p₀, …, pₙ₋₁}, moved by p    ⋈    the rows of the state, those in partition i with pᵢ beside them

on the key and on p, where pᵢ is a number that Spark's hash puts into partition i (`jvm.places`). So the rows of the
state lie by p, and nothing of it is moved.
"""

from __future__ import annotations

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.session.session import PARTITIONS
from mrql.runtime.spark.state.block_index import PLACE, PartitionedRows

REPLICATED_MAX_COPIES = 16
"""A change is written so many times at most. A broadcast writes it once for each machine."""

WANTED = f"{PLACE}_wanted"

SAME_PLACE = f"{PLACE} = {WANTED}"
"""The condition on which a copy of a change meets the rows of its partition."""


def replicated(plans: Plans, change: Relation, state: Relation) -> tuple[Relation, Relation] | None:
    """A change in as many copies as a state has partitions, and the state, to be joined on `SAME_PLACE` as well; None
    where it has too many, or others than what is planned now."""
    partitions = int(plans.settings.get(PARTITIONS, 1))
    if not 1 < partitions <= REPLICATED_MAX_COPIES:
        return None
    places = f"array({', '.join(map(str, jvm.places(plans.spark, partitions)))})"
    own = state.select("*", f"element_at({places}, spark_partition_id() + 1) AS {PLACE}")
    placed = PartitionedRows(plans, own, (PLACE,), partitions)
    if not placed.lies:
        return None
    copies = change.select("*", f"explode({places}) AS {WANTED}")
    return copies.hint("shuffle_hash"), Relation.kept(placed)
