"""The interface of the compiler for the modules of this folder, each of which compiles one construct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from pyspark.sql import SparkSession

from mrql.algebra.analysis.variables import Names
from mrql.algebra.terms import Repeat, Term
from mrql.algebra.types import Type
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.expressions.expressions import Environment, Expressions
from mrql.runtime.spark.expressions.layout import Layout
from mrql.runtime.spark.relation.frame import ColumnNames, Frame
from mrql.runtime.spark.relation.relation import Relation

Keep: TypeAlias = Callable[[Relation, Sequence[str]], Relation]
"""Partitions rows of a batch, which are read more than once, by some columns and keeps them until it is over."""


class TermCompiler(Protocol):
    """Compiles terms over sources, and functions above them over rows."""

    spark: SparkSession
    sources: dict[str, Frame]
    columns: ColumnNames
    expressions: Expressions
    names: Names
    kept: LoopCheckpoints
    keep: Keep | None
    """None where no rows are kept."""
    loops: list[tuple[Repeat, Term]]
    """The loops that have been run, each with its value as a term over sources."""

    def meet(self, term: Term) -> None:
        """Reserves the names in a term, so that no generated name is the same."""

    def reads(self, term: Term) -> bool: ...
    def bag(self, term: Term) -> Frame: ...
    def one(self, term: Term) -> Frame: ...
    def over(self, body: Term, frame: Frame, env: Environment) -> Frame: ...
    def fresh(self) -> str: ...
    def one_row(self) -> Frame: ...
    def exploded(self, frame: Frame, array: str, item: Type) -> tuple[Frame, Layout]: ...
    def with_column(self, frame: Frame, value: Layout, *, fails: bool = False) -> tuple[Frame, Layout]: ...
    def rows(self, term: Term, more: Mapping[str, Frame], columns: ColumnNames, kept: LoopCheckpoints) -> Frame:
        """The rows of a bag, or the one row of another value, with `more` sources; loops checkpoint into `kept`."""
