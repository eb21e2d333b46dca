"""What is said of a session: when Java ends, and when it forgets too soon."""

from __future__ import annotations

import logging

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

import mrql
from mrql.runtime import session
from mrql.runtime.session import START_SETTINGS, UNSEEN, is_news, start_settings


def test_java_has_ended_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Py4J writes a trace to the root logger, besides failing; what else is written there stays."""
    root = logging.getLogger()
    root.addFilter(is_news)
    try:
        for error in (Py4JNetworkError("Error while sending or receiving"), ValueError("another")):
            try:
                raise error
            except Exception:
                logging.exception("Exception while sending command.")
        logging.error("something else")
    finally:
        root.removeFilter(is_news)
    assert [record.exc_text or record.message for record in caplog.records][1:] == ["something else"]
    assert "another" in caplog.text
    assert "Error while sending" not in caplog.text


def test_much_of_its_work_is_remembered_where_it_is_shown() -> None:
    """On the pages of Spark, or where one asks for it."""
    assert UNSEEN.items() <= start_settings(None, {}).items()
    assert not UNSEEN.keys() & start_settings(None, {"spark.ui.enabled": "true"}).keys()
    assert start_settings(None, {"spark.ui.retainedJobs": "7"})["spark.ui.retainedJobs"] == "7"


@pytest.mark.spark
def test_a_session_that_forgets_is_named_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that others have started has what Spark sets by itself; how to start it is said with the first view."""
    query = mrql.compile("select x from x in S", S="bag(long)")
    assert START_SETTINGS.items() <= dict(spark.sparkContext.getConf().getAll()).items()
    query.view(spark).close()
    assert not caplog.records
    monkeypatch.setattr(session, "REMEMBERED", 2 * int(START_SETTINGS[session.GENERATED]))
    for _ in range(2):
        query.view(spark).close()
    (said,) = caplog.records
    assert "started with spark.sql.codegen.cache.maxEntries=10000" in said.message
