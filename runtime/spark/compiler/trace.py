"""`trace(e)` on Spark: e, and a separate job that collects what is printed."""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.evaluation.trace import print_trace
from mrql.algebra.terms import Prim
from mrql.algebra.values.value_text import TRACED_MAX_ELEMENTS
from mrql.runtime.spark.compiler.loops import single
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import to_sql
from mrql.runtime.spark.relation.frame import expanded


def trace(compiler: TermCompiler, term: Prim) -> None:
    """Prints the traced value, of a collection its first elements."""
    (inner,) = term.args
    if not ty.is_collection(inner.type):
        print_trace(single(compiler.spark, compiler.one(inner), inner.type), term.span)
        return
    shown = expanded(compiler.bag(inner), compiler.columns)
    rows = shown.df.select(f"{to_sql(shown.value)} AS value").dataframe(compiler.spark).take(TRACED_MAX_ELEMENTS + 1)
    print_trace(from_spark([row[0] for row in rows], inner.type), term.span)
