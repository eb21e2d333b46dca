"""Options that several commands have: for malformed rows, for loops, and for the resources of Spark."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mrql.algebra.values.file_names import begin_of_address
from mrql.rewrite.plan.loop_strategy import KEEPING_BACK, LoopStrategy
from mrql.rewrite.plan.threshold import EPSILON, Threshold
from mrql.runtime.files.quarantine import Quarantine

R = TypeVar("R")


class MadeDirectory(click.Path):
    """A directory that a command creates if it does not exist. A value that begins like an address is refused."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value):
            self.fail("a directory has a name", param, ctx)
        begin = begin_of_address(str(value))
        if begin is not None:
            self.fail(f"{begin}… is no directory; one of such a name begins with ./", param, ctx)
        return super().convert(value, param, ctx)


def malformed_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options for malformed rows, and passes on the directory in which these are kept, or None."""

    @click.option(
        "--malformed",
        type=click.Choice(["fail", "quarantine"]),
        default="fail",
        show_default=True,
        help="Stop at the first malformed row, or keep them aside and go on.",
    )
    @click.option("--quarantine", type=MadeDirectory(), help="An empty directory for malformed rows.")
    @functools.wraps(command)
    def wrapped(malformed: str, quarantine: Path | None, **rest: Any) -> R:
        if malformed == "quarantine" and quarantine is None:
            raise click.UsageError("--malformed quarantine needs --quarantine DIR, for the rows that are kept aside")
        if malformed == "fail" and quarantine is not None:
            raise click.UsageError("--quarantine DIR is for --malformed quarantine")
        return command(quarantine=quarantine, **rest)

    return wrapped


def opened(directory: Path | None) -> Quarantine | None:
    """The quarantine in a directory; None if there is no directory for malformed rows.

    Raises: UserError if the directory is not empty.
    """
    return None if directory is None else Quarantine.new(directory)


# --- loops ---------------------------------------------------------------------------------------


LOOP = click.option(
    "--loop",
    "strategy",
    type=click.Choice(LoopStrategy, case_sensitive=False),
    default=LoopStrategy.AUTO,
    show_default="auto",
    help="How loops over streams are kept up to date.",
)


class FiniteRange(click.FloatRange):
    """The finite numbers of a range, without NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


def loop_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options for loops, and passes on the strategy, and the threshold or None."""

    @LOOP
    @click.option(
        "--epsilon",
        type=FiniteRange(min=0),
        show_default=f"{EPSILON.relative} for diffuse, 0 for exact",
        help="What changes by no more than this, relative to its size, does not go on to the next step of a loop.",
    )
    @click.option(
        "--abs-epsilon",
        type=FiniteRange(min=0),
        help="Nor does what changes by no more than this, whatever its size.",
    )
    @functools.wraps(command)
    def wrapped(strategy: LoopStrategy, epsilon: float | None, abs_epsilon: float | None, **rest: Any) -> R:
        for name, value in (("'--epsilon'", epsilon), ("'--abs-epsilon'", abs_epsilon)):
            if value is not None and strategy not in KEEPING_BACK:
                raise click.BadParameter("only --loop diffuse and --loop exact have a threshold", param_hint=name)
        return command(strategy=strategy, threshold=Threshold.of(epsilon, abs_epsilon), **rest)

    return wrapped


# --- resources of Spark -------------------------------------------------------------------------

DRIVER_MIN_MEGABYTES = 512
"""The minimum of `--memory` in megabytes; Spark refuses to start with somewhat less."""


def _memory(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """A size of memory in the notation of Java."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)([mg])b?", text.lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size like 2g or 900m", ctx, param)
    size = f"{found[1]}{found[2]}"
    if megabytes(size) < DRIVER_MIN_MEGABYTES:
        raise click.BadParameter(f"Spark needs at least {DRIVER_MIN_MEGABYTES}m", ctx, param)
    return size


def megabytes(size: str) -> int:
    """A size in megabytes."""
    return int(size[:-1]) * (1024 if size.endswith("g") else 1)


def memory_settings(size: str | None) -> dict[str, str]:
    """The settings of Spark for a size of memory."""
    return {} if size is None else {"spark.driver.memory": size, "spark.executor.memory": size}


MEMORY = click.option(
    "--memory",
    callback=_memory,
    metavar="SIZE",
    help="So much memory for Spark, like 2g or 900m, and for each executor of a cluster, or for the reference engine; "
    "half of the machine's by default. States that do not fit are spilled to disk by Spark.",
)
TRUSTED = click.option(
    "--trust-deletions",
    "trusted",
    is_flag=True,
    help="Rows are only deleted that are there: a stream keeps nothing to look them up.",
)
REWRITES = click.option(
    "--rewrites",
    type=click.Choice(["error", "keep-removed", "apply"]),
    default="error",
    show_default=True,
    help="What becomes of a file that was read and has changed or gone: apply takes its old rows back; with "
    "keep-removed those of one that has gone stay.",
)
PARTITIONS = click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Keep each state in so many partitions. By default small ones are in one, and large ones in as many as there "
    "are cores. It may change at a restart.",
)
