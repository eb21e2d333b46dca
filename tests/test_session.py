"""What a session says when Java ends."""

from __future__ import annotations

import logging

import pytest
from py4j.protocol import Py4JNetworkError

from mrql.runtime.session import is_news


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
