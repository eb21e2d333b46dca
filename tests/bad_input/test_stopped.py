"""The messages if Spark has ended by itself: one for each of its errors that were seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from mrql.algebra.errors import EngineError
from mrql.runtime.checkpoint.store import told
from mrql.runtime.spark.session import jvm_exit
from mrql.runtime.spark.session.errors import translated

NO_MEMORY = "Spark has run out of memory"
LOST = "an executor of Spark was lost, and with it a part of the states"
SEEN = {
    "java.lang.StackOverflowError": "Spark has run out of stack",
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: Lost task 0.0 in "
    "stage 3.0 (TID 5) (host executor driver): java.lang.OutOfMemoryError: Java heap space": NO_MEMORY,
    "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0.": NO_MEMORY,
    "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited with exit "
    "code 52": NO_MEMORY,
    "org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_12_0 not found!": LOST,
    "ExecutorLostFailure (executor 1 exited unrelated to the running tasks) Reason: Worker shut down": LOST,
}


@pytest.mark.parametrize(("text", "message"), SEEN.items())
def test_what_spark_says(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an error of Spark gives the reason, whether Spark still answers or not."""
    monkeypatch.setattr(jvm_exit, "_has_executors", lambda: True)
    error = jvm_exit.ended(text)
    assert error is not None
    assert (error.message, error.exit_code) == (message, 3)
    if message == NO_MEMORY:
        assert "--memory 8g" in (error.hint or "")


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("sys.exit(52)", NO_MEMORY, "give it more, with --memory 8g, say"),
        ("os.kill(os.getpid(), 9)", "Spark's Java process was ended by signal 9", "where its memory is full"),
        ("sys.exit(143)", "Spark has stopped", "its Java process has ended with code 143"),
    ],
)
def test_how_its_process_has_ended(monkeypatch: pytest.MonkeyPatch, code: str, message: str, hint: str) -> None:
    """If Spark does not answer, the exit code of its process gives the reason."""

    process = subprocess.Popen([sys.executable, "-c", f"import os, sys; {code}"])
    monkeypatch.setattr(jvm_exit, "is_running", lambda: False)
    monkeypatch.setattr(jvm_exit, "_is_ending", lambda: True)
    monkeypatch.setattr(jvm_exit, "SparkContext", SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
    with pytest.raises(EngineError) as raised, translated(None):
        raise Py4JNetworkError("Answer from Java side is empty")
    assert raised.value.message == message
    assert hint in (raised.value.hint or "")


@pytest.mark.spark
def test_a_process_that_goes_on(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process goes on, the message says only that Spark has stopped, after a short wait."""
    monkeypatch.setattr(jvm_exit, "is_running", lambda: False)
    monkeypatch.setattr(jvm_exit, "STOPPED_SECONDS", 0.1)
    error = jvm_exit.ended("")
    assert error is not None
    assert error.message == "Spark has stopped"
    assert "or it has run out of memory" in (error.hint or "")


def test_a_process_that_begins_to_end_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process ends some time after Spark has stopped in it, its exit code still gives the reason."""
    process = subprocess.Popen([sys.executable, "-c", "import sys, time; time.sleep(1); sys.exit(52)"])
    asked = iter([False] * 3)
    monkeypatch.setattr(jvm_exit, "is_running", lambda: False)
    monkeypatch.setattr(jvm_exit, "_is_ending", lambda: next(asked, True))
    monkeypatch.setattr(jvm_exit, "STOPPED_SECONDS", 0.5)
    monkeypatch.setattr(jvm_exit, "SparkContext", SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
    error = jvm_exit.ended("")
    assert error is not None
    assert error.message == NO_MEMORY


def test_an_error_that_cannot_be_read() -> None:
    """The text of an error of Java is empty if the process that knows it has ended."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise Py4JNetworkError("Error while sending or receiving")

    assert jvm_exit.text_of(Unreadable()) == ""


def test_nothing_is_freed_of_what_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are ignored if Spark has stopped, but raised if it still answers."""
    monkeypatch.setattr(jvm_exit, "is_running", lambda: False)
    with jvm_exit.unless_stopped():
        raise Py4JNetworkError("gone")
    monkeypatch.setattr(jvm_exit, "is_running", lambda: True)
    with pytest.raises(Py4JNetworkError), jvm_exit.unless_stopped():
        raise Py4JNetworkError("still there")


def test_the_commit_is_said(tmp_path: Path) -> None:
    """The hint says what to do, and from where the stream goes on."""
    with pytest.raises(EngineError) as raised, told(tmp_path, lambda: None):
        raise EngineError("Spark has stopped", "its log says why")
    assert raised.value.hint == "its log says why; nothing is committed yet, and the next start is from the beginning"
