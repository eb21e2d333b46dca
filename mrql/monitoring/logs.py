"""The log of a running stream, through `logging`: loggers are named by module, below `mrql`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mrql.algebra.showable import showable
from mrql.output.terminal import say

LEVELS = ("debug", "info", "warning", "error")

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""The format of a line where a level was asked for; otherwise it is the message alone."""


class StandardError(logging.Handler):
    """Writes to standard error, as it is at the time of writing. If its reader is gone, the program goes on without a
    log: its answers go elsewhere."""

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args = showable(record.getMessage()), None
        try:
            say(self.format(record), err=True)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def logged(level: str | None) -> Iterator[None]:
    """Writes the log from this level on to standard error, for the duration of the block."""
    logger, handler = logging.getLogger("mrql"), StandardError()
    if level is not None:
        handler.setFormatter(logging.Formatter(FORMAT))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel((level or "info").upper())
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
