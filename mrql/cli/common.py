"""What the commands over a query file share: the file, its arguments, and the options that all of them have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.cli.exit_codes import TRACEBACK
from mrql.cli.options import MEMORY, memory_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGS = click.argument("args", nargs=-1)
STRICT = click.option("--strict", is_flag=True, help="Refuse a query with a part that each batch computes again.")


@attrs.frozen
class Common:
    """The options that all commands share."""

    data: Path
    engine: str
    format: str
    master: str | None
    conf: dict[str, str]
    max_steps: int
    memory: str | None = None
    may_import: bool = False
    """Whether a query file may name code in Python."""

    @property
    def as_json(self) -> bool:
        return self.format == "json"

    def session(self) -> SparkSession:
        from mrql.runtime.spark.session.session import local_session

        return local_session(self.master, self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that are asked for."""
        return {**memory_settings(self.memory), **self.conf}


def common_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the common options, and hands them to the command as one argument."""

    @click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Base of relative paths in the query; the current directory by default.",
    )
    @click.option(
        "--engine",
        type=click.Choice(["spark", "reference"]),
        default="spark",
        show_default=True,
        help="What evaluates: Spark, or plain Python, which needs no Java and is for small data.",
    )
    @click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="How answers are printed: as a table, or as one line of JSON for each.",
    )
    @click.option("--master", help="Spark master; a local one by default.")
    @click.option(
        "--max-steps",
        type=click.IntRange(min=1),
        default=LOOP_MAX_STEPS,
        show_default=True,
        help="How many steps a loop without a limit may take.",
    )
    @MEMORY
    @click.option(
        "--allow-import",
        "may_import",
        is_flag=True,
        help="Run the code in Python that the query names: trust it first.",
    )
    @TRACEBACK
    @click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be given more than once.")
    @functools.wraps(command)
    def wrapped(
        data: Path | None,
        engine: str,
        output_format: str,
        master: str | None,
        conf: tuple[str, ...],
        max_steps: int,
        memory: str | None,
        may_import: bool,
        **rest: Any,
    ) -> R:
        settings = dict(_setting(pair) for pair in conf)
        common = Common(data or Path(), engine, output_format, master, settings, max_steps, memory, may_import)
        return command(common=common, **rest)

    return wrapped


def _setting(pair: str) -> tuple[str, str]:
    key, separator, value = pair.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{pair!r} is not of the form K=V", param_hint="--conf")
    return key, value
