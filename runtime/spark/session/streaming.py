"""What is known of the streaming query that a batch comes from."""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.runtime.spark import jvm

QUERY_ID = "sql.streaming.queryId"
"""The property under which Spark tells a thread whose batch it is at. It is the same after a restart from the same
checkpointLocation."""


def streaming_query(df: DataFrame) -> str | None:
    """The id of the streaming query that calls with a batch, in the thread that it calls in."""
    found = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    return None if found is None else str(found)


def wait_to_be_stopped(df: DataFrame, seconds: float) -> None:
    """Waits in a batch that is not to be applied until its query is stopped, for so many seconds at most. Then Spark
    interrupts what the query is at, and takes that for no failure.

    Raises: Py4JError when the query is stopped.
    """
    jvm.wait(df.sparkSession, seconds)
