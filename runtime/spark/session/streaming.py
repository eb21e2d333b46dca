"""The streaming query that a batch comes from."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.runtime.spark import jvm

QUERY_ID = "sql.streaming.queryId"
"""The thread-local property in which Spark stores the id of the streaming query whose batch a thread processes. It is
the same after a restart from the same checkpointLocation."""


def streaming_query(df: DataFrame) -> str | None:
    """The id of the streaming query whose batch this thread processes; None if there is none."""
    found = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return None if found is None else str(found)


def wait_to_be_stopped(df: DataFrame, seconds: float) -> None:
    """Waits, in a batch that is not to be applied, until its query is stopped, for at most the given number of seconds.
    Spark then interrupts what the query does, and does not take that for a failure.

    Raises: Py4JError when the query is stopped.
    """
    jvm.wait(df.sparkSession, seconds)
