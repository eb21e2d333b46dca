"""The rows of a batch, and of static tables, as a view reads them.

A batch is a DataFrame, and each reader computes it: the ledger of the stream, each feed of a stage, and each table that
a stage keeps. All of them have to find the same rows. A query on a live database, or a nondeterministic function, need
not give the same rows again; and rows that come from Python, or out of a join, are expensive. So rows with several
readers are computed once, and kept for the batch. Rows that lie in files, or are kept already, are read in place. A
static table is read by each batch, and held in the same way (`held_tables.py`).
"""

from __future__ import annotations

import attrs

from mrql.algebra.monoids import BagUnion
from mrql.rewrite.plan.plan import Plan, Shape, Stage
from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.file_scans import FileScan
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.relation import Relation, RelationOp


def arriving(batch: Frame) -> Frame:
    """The rows of a batch as they are read: in one partition, if they are few."""
    rows = batch.df.of_batch()
    return attrs.evolve(batch, df=rows.in_one_partition() if rows.is_small else rows, changes=True)


def is_read_once(plan: Plan, stream: str, batch: Frame) -> bool:
    """Whether at most one plan reads a batch of a stream.

    A batch of a keyed stream is first reduced to the last row of each key, and one with insertions and deletions is
    first netted; all else reads the result.
    """
    if stream in plan.keyed or (batch.mixed and stream in plan.looked_up | plan.trusted):
        return True
    looked_up = stream in plan.looked_up
    return looked_up + sum(_readings(stage, stream) for stage in plan.stages) <= 1


def _readings(stage: Stage, stream: str) -> int:
    """The number of plans of a stage that read a batch of a stream."""
    feeds = [feed for feed in stage.feeds if any(read.stream == stream for read in feed.rows.inputs)]
    tables = (stage.shape is not Shape.BAG) + sum(isinstance(c.monoid, BagUnion) for c in stage.components)
    # A join keeps the rows of an input, and reads those. A self-join reads a batch once for each side.
    return sum(
        sum(read.stream == stream for read in feed.rows.inputs) if len(feed.rows.inputs) > 1 else tables
        for feed in feeds
    )


def is_the_same_again(rows: Relation) -> bool:
    """Whether rows are the same, and as cheap, each time they are read."""
    return all(
        isinstance(node.leaf, FileScan) or jvm.is_read_in_place(node.leaf)
        for node in rows.leaves
        if node.op is RelationOp.BATCH
    )
