"""How large the states of a plan are, by stage, in rows and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mrql.runtime.reference.view import ReferenceView
    from mrql.runtime.spark.state.table import Table
    from mrql.runtime.spark.view import SparkView


@attrs.frozen
class StateSize:
    """How large a state is. `bytes` is what Spark's memory and disk hold of it; in the reference engine, what it takes
    when it is written down."""

    rows: int
    bytes: int


def spark_sizes(view: SparkView) -> dict[str, StateSize]:
    """The states of a view by the name of the stage, and under the name of a stream the rows that it may lose again.

    What stages keep in common, as joins of the same input do, counts for each of them."""
    kept = _kept_bytes(view)
    sizes = {state.stage.name: _size(state.all_tables(), kept) for state in view.states}
    return sizes | {ledger.stream: _size([ledger.table], kept) for ledger in view.ledgers if ledger.table is not None}


def _size(tables: Iterable[Table], kept: Mapping[int, int]) -> StateSize:
    runs = [run for table in tables for run in table.runs]
    handles = [run.handle for run in runs]
    return StateSize(sum(run.rows or 0 for run in runs), sum(kept.get(rdd.id(), 0) for rdd in handles))


def _kept_bytes(view: SparkView) -> dict[int, int]:
    """What is held of each RDD that is kept, in memory and on the disk."""
    infos = view.spark.sparkContext._jsc.sc().getRDDStorageInfo()
    return {info.id(): info.memSize() + info.diskSize() for info in infos}


def reference_sizes(view: ReferenceView) -> dict[str, StateSize]:
    """The same of a view in the reference semantics."""
    from mrql.runtime.reference.checkpoint import lines_of

    sizes: dict[str, StateSize] = {}
    for name, lines in lines_of(view):
        before = sizes.get(name, StateSize(0, 0))
        written = sum(len(key.encode()) + len(value.encode()) for key, value in lines.items())
        sizes[name] = StateSize(before.rows + len(lines), before.bytes + written)
    return sizes
