"""How large the states of a view on Spark are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mrql.runtime.engine.sizes import StateSize

if TYPE_CHECKING:
    from mrql.runtime.spark.state.table import Table
    from mrql.runtime.spark.view import SparkView


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
