"""The message for a failure of Spark itself: its cause, without what Java has wrapped around it."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from mrql.algebra.errors import MrqlError
from mrql.runtime.spark.session import errors
from mrql.runtime.spark.session.errors import translated

WRAPPED = """An error occurred while calling o507.get.
: java.util.concurrent.ExecutionException: Exception thrown by job
\tat org.apache.spark.JavaFutureActionWrapper.getImpl(FutureAction.scala:284)
Caused by: {cause}
\tat org.apache.spark.scheduler.Task.run(Task.scala:147)
\t... 1 more
"""
IN_PYTHON = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python \
worker: Traceback (most recent call last):
  File "/site-packages/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
                                               ^^^^^^^^^^
  File "prices.py", line 7, in rate
    return 1 // x
           ~~^^~~
ZeroDivisionError: integer division or modulo by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "prices.py", line 9, in rate
    raise ValueError("no rate") from error
ValueError: no rate
 SQLSTATE: 38000
"""
GONE = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file:///x.csv."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WRAPPED.format(cause="java.io.IOException: no such host"), "Spark failed: java.io.IOException: no such host"),
        (WRAPPED.format(cause=GONE), f"the data could not be read: {GONE}"),
        (
            WRAPPED.format(cause=IN_PYTHON),
            'Spark failed: ZeroDivisionError: integer division or modulo by zero (File "prices.py", line 7, in rate)',
        ),
        ("[INTERNAL_ERROR] A bug.\nCaused by: java.lang.X: y", "Spark failed: [INTERNAL_ERROR] A bug."),
        ("java.util.concurrent.ExecutionException: x", "Spark failed: java.util.concurrent.ExecutionException: x"),
        ("", "Spark failed: no message"),
    ],
)
def test_the_cause_is_said(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "ended", lambda text: None)
    with pytest.raises(MrqlError) as raised, translated(None):
        raise Py4JError(text)
    assert raised.value.message == said
