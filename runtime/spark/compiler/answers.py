"""The answer of a term on Spark, as the rows that a user sees."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.terms import Empty, OrderBy, Take, Term, Union
from mrql.runtime.spark.compiler.compiler import RelationCompiler
from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints
from mrql.runtime.spark.compiler.order import order, top
from mrql.runtime.spark.compiler.single_values import listed
from mrql.runtime.spark.compiler.windows import is_over_rows, sorted_over_rows
from mrql.runtime.spark.expressions.casts import unsigned
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, is_taken_apart, labels, part, quote, to_sql
from mrql.runtime.spark.relation.frame import Frame, expanded, numbered
from mrql.runtime.spark.relation.relation import Relation


def evaluate(
    spark: SparkSession, term: Term, sources: Mapping[str, Frame], kept: LoopCheckpoints | None = None
) -> DataFrame:
    """The answer of a term over its sources, as a DataFrame. The checkpoints of its loops are put into `kept`; it can
    be read until these are freed."""
    return answer_rows(RelationCompiler(spark, sources, kept=kept), term).dataframe(spark)


SORTED_ALONE_MAX_ROWS = 100_000
"""The most rows that are sorted by one task. To sort in parallel, Spark computes the rows twice, the first time in a
job that samples their distribution, which takes longer than such a sort."""


def answer_rows(compiler: RelationCompiler, term: Term, rows: int | None = None) -> Relation:
    """The rows of an answer: those of a bag, those of a list in its order, or one row with the value. `rows` is
    about how many rows it is computed from, where that is known."""
    if not ty.is_collection(term.type):
        return output_rows(compiler.one(term))
    match term:
        case OrderBy() | Take(_, OrderBy()):
            return _ordered(compiler, term, alone=rows is not None and rows <= SORTED_ALONE_MAX_ROWS)
        # A union with `Empty` turns a missing list into the empty one; a list over rows is never missing.
        case Union(listed_rows, Empty()) if is_over_rows(listed_rows):
            return output_rows(sorted_over_rows(compiler, listed_rows))
        case _ if isinstance(term.type, ty.ListType):
            return output_rows(listed(compiler, term))
        case _:
            return output_rows(expanded(compiler.bag(term), compiler.columns))


def _ordered(compiler: RelationCompiler, term: Term, *, alone: bool) -> Relation:
    if isinstance(term, Take):
        assert isinstance(term.source, OrderBy)
        return output_rows(top(compiler, term.count, term.source))
    assert isinstance(term, OrderBy)
    frame = expanded(compiler.bag(term.source), compiler.columns)
    rows = frame.df.in_one_partition() if alone else frame.df
    ordered = rows.order(*order(compiler, frame, term))
    pair = frame.value.type
    assert isinstance(pair, ty.TupleType)
    return output_rows(attrs.evolve(frame, df=ordered, value=part(frame.value, "_2", pair.items[1])))


def output_rows(frame: Frame, *, weighted: bool = False) -> Relation:
    """A frame with the columns that a user expects: the fields of a record, `_1`, `_2`, … of a tuple, else `value`.

    Where a row may be a missing tuple or record, another column says so: the others show a tuple of missing parts.
    """
    columns = [f"{sql} AS {name}" for name, sql in output_columns(unsigned(Expressions(), frame.value))]
    if weighted:
        columns.append(f"{frame.weight or '1L'} AS weight")
    return frame.df.select(*columns)


def output_columns(value: Layout) -> list[tuple[str, str]]:
    """The quoted names of a row's columns, each with its expression."""
    columns = [(quote(name), to_sql(of)) for name, of in _columns(value)]
    if isinstance(value, Atom) and is_taken_apart(value.type):
        names = {name for name, _ in labels(value.type)}
        flag = next(name for name in numbered("missing__") if name not in names)
        columns.append((flag, f"({value.sql} IS NULL)"))
    return columns


def _columns(value: Layout) -> list[tuple[str, Layout]]:
    if isinstance(value, Struct) and value.fields:
        return list(value.fields)
    if is_taken_apart(value.type):
        return [(name, part(value, name, t)) for name, t in labels(value.type)]
    return [("value", value)]
