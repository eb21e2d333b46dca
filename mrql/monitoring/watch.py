"""How a stream is watched while it runs: its progress, its log and its metrics."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from mrql.monitoring.logs import LEVELS
from mrql.monitoring.metrics import Metrics
from mrql.output.progress import Display, display
from mrql.runtime.streaming.report import Report

R = TypeVar("R")

logger = logging.getLogger(__name__)


@attrs.frozen
class Operation:
    """How a stream is to be watched."""

    metrics: Path | None = None
    metrics_port: int | None = None
    log_level: str | None = None

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Opens what a stream is watched with, for the duration of the block.

        Raises: OSError where the file of the metrics cannot be written, EngineError where the port cannot be had.
        """
        with contextlib.closing(Metrics.opened(self.metrics, self.metrics_port)) as metrics:
            if metrics.endpoint is not None:
                logger.info("metrics at %s", metrics.endpoint.url)
            with display(plain=self.log_level is not None) as shown:
                yield Watch(shown, metrics)


@attrs.frozen
class Watch:
    """The display and the metrics, which get the report of each batch."""

    display: Display
    metrics: Metrics

    @property
    def needs_sizes(self) -> bool:
        """Whether the display or the metrics need what has to be measured."""
        return self.display.needs_sizes or self.metrics.wanted

    def tell(self, report: Report) -> None:
        """Shows a batch, and adds it to the metrics."""
        self.display.show(report)
        if report.kept_aside is not None:
            logger.warning("%s", report.kept_aside)
        self.metrics.add(report)


def operation_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options by which a stream is watched, and hands them over as one argument."""

    @click.option(
        "--metrics",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Add a line of JSON for each batch to a file.",
    )
    @click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        help="Serve metrics as OpenMetrics text on this port of the loopback address; 0 takes a free one.",
    )
    @click.option(
        "--log-level", type=click.Choice(LEVELS), help="Log from this level on, with times and the names of modules."
    )
    @functools.wraps(command)
    def wrapped(metrics: Path | None, metrics_port: int | None, log_level: str | None, **rest: Any) -> R:
        return command(operation=Operation(metrics, metrics_port, log_level), **rest)

    return wrapped
