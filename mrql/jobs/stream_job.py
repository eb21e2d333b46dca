"""What a stream is, as the command starts it: a query with its plan, an engine, and where all that comes of it goes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mrql.monitoring.watch import Operation
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.restore import FoundRows
from mrql.runtime.engine.answer import AnswerFormat
from mrql.runtime.sinks.places import Place
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.streaming.stream_loop import Emit, Options
from mrql.translate.program import CompiledExpression, Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Planned: TypeAlias = tuple[Program, CompiledExpression, Plan]
"""A program, its streaming query, and how that is kept up to date."""


@attrs.frozen
class StreamJob:
    """What a stream is started with."""

    program: Program
    query: CompiledExpression
    plan: Plan
    engine: str
    session: Callable[[], SparkSession]
    options: Options
    typed: Callable[[FoundRows], Planned]
    """Makes the program, the query and its plan again, with other types of rows that were found."""
    rows: FoundRows
    """The types of rows that the three were made with."""
    outputs: tuple[Place, ...] = ()
    """Where the answers go; without any, to the console."""
    output_format: AnswerFormat = JSON
    """What the files of a directory are."""
    as_json: bool = False
    quarantine: Path | None = None
    checkpoint: Path | None = None
    operation: Operation = Operation()
    rewritable: bool = False
    """Whether files that were read may change; the plan has to be one that can take their rows back."""
    partitions: int | None = None
    """In how many partitions Spark keeps a state; as many as can be worked on at once, unless said otherwise."""
    token: str = attrs.Factory(lambda: secrets.token_hex(16))
    """What a stream without a checkpoint is known by to those that it writes to."""

    @property
    def changes(self) -> bool:
        return self.options.emit is Emit.CHANGES
