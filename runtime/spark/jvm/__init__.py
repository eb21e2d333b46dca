"""The one place that reaches through PySpark into the JVM, and what replaces that where there is no JVM.

A local checkpoint cuts the lineage of a state, but its blocks stay until the driver's garbage collector finds them.
Freeing them at once needs the handle of the plan's RDD, which PySpark does not expose. Under Spark Connect there is no
JVM to reach: `remote.py` has what is done instead, and a view, whose states are such handles, is refused.
"""

from __future__ import annotations

from mrql.runtime.spark.jvm.conf import Switch
from mrql.runtime.spark.jvm.handles import session_id
from mrql.runtime.spark.jvm.hash_partitioning import in_buckets, partitions_by
from mrql.runtime.spark.jvm.jobs import Job, compute, compute_all, ending_with, observed_now
from mrql.runtime.spark.jvm.lazy_dataframe import Lazy, Reading, column, lazily
from mrql.runtime.spark.jvm.operations import aggregate, interval_seconds, repartition, select, wait
from mrql.runtime.spark.jvm.persisted import (
    ColumnarRows,
    RowShape,
    free,
    kept,
    local_checkpoint,
    persistent_rdds,
    places,
    shape_by,
)
from mrql.runtime.spark.jvm.physical_plan import PhysicalPlan, executed_plan
from mrql.runtime.spark.jvm.prepared_plan import PreparedPlan
from mrql.runtime.spark.jvm.remote import (
    RemoteSwitch,
    computed,
    computed_apart,
    give_back,
    giving_back,
    is_remote,
    is_session,
)
from mrql.runtime.spark.jvm.rows import (
    beside,
    estimated_bytes,
    in_partitions,
    is_read_in_place,
    opaque,
    partitions_of,
    rdd_of,
    rows,
    rows_of,
)
from mrql.runtime.spark.jvm.scans import Opened, Scan

__all__ = [
    "ColumnarRows",
    "Job",
    "Lazy",
    "Opened",
    "PhysicalPlan",
    "PreparedPlan",
    "Reading",
    "RemoteSwitch",
    "RowShape",
    "Scan",
    "Switch",
    "aggregate",
    "beside",
    "column",
    "compute",
    "compute_all",
    "computed",
    "computed_apart",
    "ending_with",
    "estimated_bytes",
    "executed_plan",
    "free",
    "give_back",
    "giving_back",
    "in_buckets",
    "in_partitions",
    "interval_seconds",
    "is_read_in_place",
    "is_remote",
    "is_session",
    "kept",
    "lazily",
    "local_checkpoint",
    "observed_now",
    "opaque",
    "partitions_by",
    "partitions_of",
    "persistent_rdds",
    "places",
    "rdd_of",
    "repartition",
    "rows",
    "rows_of",
    "select",
    "session_id",
    "shape_by",
    "wait",
]
