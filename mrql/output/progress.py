"""The progress of a stream: a line for each batch, or on a terminal a table of the last ones."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from mrql.output.activity import can_show
from mrql.output.readable import readable
from mrql.runtime.streaming.report import Report

logger = logging.getLogger(__name__)

SHOWN_BATCHES = 8
"""The number of batches in the table."""

COLUMNS = ("batch", "rows/s", "rows", "keys touched", "state rows", "state size", "files waiting", "ms")


def progress(report: Report) -> str:
    """The line that a batch leaves on standard error."""
    residual = "" if report.residual is None else f"; residual: {report.residual}"
    return (
        f"batch {report.number}: {report.rows:,} rows in {report.files} files, {report.touched:,} keys touched, "
        f"{report.state_rows:,} state rows, {report.milliseconds:,.0f} ms{residual}"
    )


class Display(Protocol):
    """Where the progress of a stream is shown."""

    @property
    def needs_sizes(self) -> bool:
        """Whether it shows sizes, which have to be measured."""

    def show(self, report: Report) -> None:
        """Shows a batch."""


class Lines:
    """A line for each batch, in the log."""

    needs_sizes = False

    def show(self, report: Report) -> None:
        logger.info("%s", progress(report))


class ProgressTable:
    """A table on a terminal, whose last row is the last batch; it begins with the first one."""

    needs_sizes = True

    def __init__(self, live: Live) -> None:
        self.live = live
        self.rows: deque[tuple[str, ...]] = deque(maxlen=SHOWN_BATCHES)

    def show(self, report: Report) -> None:
        self.rows.append(cells(report))
        table = Table(show_edge=False, header_style="bold")
        for name in COLUMNS:
            table.add_column(name, justify="right")
        for row in self.rows:
            table.add_row(*row)
        self.live.start()
        self.live.update(table, refresh=True)


def cells(report: Report) -> tuple[str, ...]:
    """A batch as a row of the table."""
    size = 0 if report.measured is None else sum(state.bytes for state in report.measured.states.values())
    speed = report.rows / max(report.milliseconds, 1e-3) * 1000
    return (
        str(report.number),
        f"{speed:,.0f}",
        f"{report.rows:,}",
        f"{report.touched:,}",
        f"{report.state_rows:,}",
        readable(size),
        f"{report.waiting:,}",
        f"{report.milliseconds:,.0f}",
    )


@contextmanager
def display(*, plain: bool) -> Iterator[Display]:
    """The table where standard error is a terminal that can show it and lines are not asked for, else lines."""
    console = Console(stderr=True)
    if plain or not can_show(console):
        yield Lines()
        return
    # Standard output is put above the table where it goes to a terminal, and is left alone where it goes to a file.
    live = Live(console=console, auto_refresh=False, redirect_stdout=sys.stdout.isatty())
    try:
        yield ProgressTable(live)
    finally:
        live.stop()
