"""A stream as the command starts it: a query with its plan, an engine, and where all of its output goes."""

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
"""A program, its streaming query, and the plan of that."""


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
    """Makes the program, the query and its plan again, with other inferred types of rows."""
    rows: FoundRows
    """The inferred types of rows that the three were made with."""
    outputs: tuple[Place, ...] = ()
    """Where the answers go; without any, to the console."""
    output_format: AnswerFormat = JSON
    """The format of the files in an output directory."""
    as_json: bool = False
    quarantine: Path | None = None
    checkpoint: Path | None = None
    operation: Operation = Operation()
    rewritable: bool = False
    """Whether files that were read may change; the plan has to be one that can delete their rows."""
    partitions: int | None = None
    """The number of partitions of a state on Spark; by default as many as can be worked on at once."""
    token: str = attrs.Factory(lambda: secrets.token_hex(16))
    """The id of a stream without a checkpoint, by which sinks recognize it."""

    @property
    def changes(self) -> bool:
        return self.options.emit is Emit.CHANGES
