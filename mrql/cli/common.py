"""What the commands over a query file share: the file, its arguments, and the options that all of them have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from mrql.algebra.memory import limit_memory
from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.cli.exit_codes import TRACEBACK
from mrql.cli.options import MEMORY, megabytes, memory_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGS = click.argument("args", nargs=-1)
STRICT = click.option("--strict", is_flag=True, help="Refuse a query with a part that each batch computes again.")


@attrs.frozen
class Common:
    """The options of all commands over a query file, and those of commands that evaluate a query."""

    data: Path
    format: str
    max_steps: int
    may_import: bool
    """Whether a query file may name Python code."""
    engine: str = "spark"
    master: str | None = None
    conf: Mapping[str, str] = attrs.Factory(dict)
    memory: str | None = None

    @property
    def as_json(self) -> bool:
        return self.format == "json"

    def session(self) -> SparkSession:
        from mrql.runtime.spark.session.session import local_session

        return local_session(self.master, self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """The requested settings of Spark."""
        return {**memory_settings(self.memory), **self.conf}


def query_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options of all commands over a query file, and passes them to the command as the argument `common`."""

    @click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Base of relative paths in the query; the current directory by default.",
    )
    @click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="How answers are printed: as a table, or as one line of JSON for each.",
    )
    @click.option(
        "--max-steps",
        type=click.IntRange(min=1),
        default=LOOP_MAX_STEPS,
        show_default=True,
        help="How many steps a loop without a limit may take.",
    )
    @click.option(
        "--allow-import",
        "may_import",
        is_flag=True,
        help="Run the code in Python that the query names: trust it first.",
    )
    @TRACEBACK
    @functools.wraps(command)
    def wrapped(data: Path | None, output_format: str, max_steps: int, may_import: bool, **rest: Any) -> R:
        return command(common=Common(data or Path(), output_format, max_steps, may_import), **rest)

    return wrapped


def common_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the same options, and those of commands that evaluate a query."""

    @click.option(
        "--engine",
        type=click.Choice(["spark", "reference"]),
        default="spark",
        show_default=True,
        help="What evaluates: Spark, or plain Python, which needs no Java and is for small data.",
    )
    @click.option("--master", help="Spark master; a local one by default.")
    @MEMORY
    @click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be given more than once.")
    @functools.wraps(command)
    def wrapped(
        engine: str, master: str | None, memory: str | None, conf: tuple[str, ...], common: Common, **rest: Any
    ) -> R:
        limit_memory(megabytes(memory) * 2**20 if memory is not None and engine == "reference" else 0)
        settings = dict(map(_setting, conf))
        common = attrs.evolve(common, engine=engine, master=master, conf=settings, memory=memory)
        return command(common=common, **rest)

    return query_options(wrapped)


def _setting(pair: str) -> tuple[str, str]:
    key, separator, value = pair.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{pair!r} is not of the form K=V", param_hint="--conf")
    return key, value
