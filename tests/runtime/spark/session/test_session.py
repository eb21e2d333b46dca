"""The messages and defaults of sessions, and the addresses on which they listen."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

import mrql
from mrql.runtime.spark.session import session
from mrql.runtime.spark.session.session import START_SETTINGS, UNSEEN, is_news, start_settings


def test_java_has_ended_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Py4J's trace of a call that failed because Java has ended is not logged; other records are."""
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
    """Spark remembers much of its work only if its pages show it, or if a setting says so."""
    assert UNSEEN.items() <= start_settings(None, {}).items()
    assert not UNSEEN.keys() & start_settings(None, {"spark.ui.enabled": "true"}).keys()
    assert start_settings(None, {"spark.ui.retainedJobs": "7"})["spark.ui.retainedJobs"] == "7"


@pytest.mark.spark
def test_a_session_that_forgets_is_named_once(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that remembers too little compiled code, as one started elsewhere may, is named once, with the first
    view, and the warning says how to start it."""
    query = mrql.compile("select x from x in S", S="bag(long)")
    started = dict(spark.sparkContext.getConf().getAll())
    assert all(started[key].endswith(value) for key, value in START_SETTINGS.items())
    query.view(spark).close()
    assert not caplog.records
    monkeypatch.setattr(session, "GENERATED_MAX_ENTRIES", 2 * int(START_SETTINGS[session.GENERATED]))
    for _ in range(2):
        query.view(spark).close()
    (said,) = caplog.records
    assert "started with spark.sql.codegen.cache.maxEntries=10000" in said.message


def test_nobody_reaches_a_local_driver() -> None:
    """A local driver has the loopback address, unless it is given another; not on a cluster, whose executors have to
    reach it."""
    addresses = ("spark.driver.host", "spark.driver.bindAddress")
    for master in (None, "local", "local[4]"):
        assert [start_settings(master, {})[name] for name in addresses] == ["127.0.0.1"] * 2
    assert not {*addresses} & start_settings("spark://host:7077", {}).keys()
    assert start_settings(None, {"spark.driver.host": "10.0.0.1"})["spark.driver.host"] == "10.0.0.1"


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="what listens is seen in /proc")
def test_what_listens_is_on_the_loopback_address(spark: SparkSession) -> None:
    """All sockets on which Java listens have a loopback address."""
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    links = {str(link.readlink()) for link in Path(f"/proc/{java}/fd").iterdir() if link.is_symlink()}
    listening = []
    for file in ("tcp", "tcp6"):
        for line in Path(f"/proc/{java}/net/{file}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                listening.append(fields[1].split(":")[0])
    assert listening
    loopback = {"0100007F", "0" * 24 + "01000000", "0" * 16 + "FFFF0000" + "0100007F"}
    assert {*listening} <= loopback, listening
