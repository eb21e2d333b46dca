"""What the files of this folder, each for a construct, need of the compiler that calls them."""

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
"""Has rows of a batch moved by some columns and kept there until it is over, for what reads them more than once."""


class TermCompiler(Protocol):
    """Compiles terms over sources, and functions above them over rows."""

    spark: SparkSession
    sources: dict[str, Frame]
    columns: ColumnNames
    expressions: Expressions
    names: Names
    kept: LoopCheckpoints
    keep: Keep | None
    """None where nothing is kept, as what is compiled is no batch."""
    loops: list[tuple[Repeat, Term]]
    """The loops that were run, and the terms over the sources that their values lie in."""

    def meet(self, term: Term) -> None:
        """Takes the names of a term, that none made here is the same."""

    def reads(self, term: Term) -> bool: ...
    def bag(self, term: Term) -> Frame: ...
    def one(self, term: Term) -> Frame: ...
    def over(self, body: Term, frame: Frame, env: Environment) -> Frame: ...
    def fresh(self) -> str: ...
    def one_row(self) -> Frame: ...
    def exploded(self, frame: Frame, array: str, item: Type) -> tuple[Frame, Layout]: ...
    def with_column(self, frame: Frame, value: Layout, *, fails: bool = False) -> tuple[Frame, Layout]: ...
    def rows(self, term: Term, more: Mapping[str, Frame], columns: ColumnNames, kept: LoopCheckpoints) -> Frame:
        """The rows of a bag, or the one row of another value, over more sources; `kept` are the loops in the term."""
