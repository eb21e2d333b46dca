"""Activity while there is nothing to show yet: a line on a terminal, which goes away with the first answer."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKS_PER_SECOND = 4


def can_show(console: Console) -> bool:
    """Whether a console is a terminal on which lines can be rewritten."""
    return console.is_terminal and not console.is_dumb_terminal


class Activity:
    """A line on standard error that says what is being done, for how long, and how far Spark is with it.

    It is shown from `begin` to `end`, and only where it `is_shown`; what is printed meanwhile appears above it.
    """

    def __init__(self, *, is_shown: bool) -> None:
        self.is_shown = is_shown
        self.text = ""
        self.since = 0.0
        self.look: Callable[[], str | None] = lambda: None
        self.spinner = Spinner("dots")
        self._shown = ExitStack()

    @classmethod
    def on_terminal(cls, *, plain: bool = False) -> Activity:
        """Shown where standard error is a terminal that can show it, and `plain` lines are not asked for."""
        return cls(is_shown=not plain and can_show(Console(stderr=True)))

    def says(self, text: str) -> None:
        self.text, self.since = text, time.monotonic()

    def begin(self, text: str) -> None:
        self.says(text)
        if self.is_shown:
            # While Spark starts, output to standard error is held back, so this writes to the terminal directly.
            terminal = self._shown.enter_context(os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8"))
            live = Live(
                console=Console(file=terminal),
                get_renderable=self._line,
                refresh_per_second=LOOKS_PER_SECOND,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )
            self._shown.enter_context(live)

    def end(self) -> None:
        """Removes the line, if it is there."""
        self._shown.close()

    @contextmanager
    def during(self, text: str) -> Iterator[None]:
        """Shows the line for the duration of the block."""
        self.begin(text)
        try:
            yield
        finally:
            self.end()

    def started(self, session: Callable[[], SparkSession]) -> SparkSession:
        """A session of Spark, which is started while the line says so; after that, the line has Spark's stage."""
        before = self.text
        self.says("starting Spark")
        spark = session()
        self.says(before)
        if self.is_shown:
            from mrql.runtime.spark.session.stage_progress import StageProgress

            self.look = StageProgress(spark).said
        return spark

    def _line(self) -> Spinner:
        seconds = time.monotonic() - self.since
        said = ", ".join(part for part in (self.text, self.look()) if part)
        self.spinner.update(text=Text(f"{said} ({seconds:,.0f} s)", overflow="ellipsis", no_wrap=True))
        return self.spinner
