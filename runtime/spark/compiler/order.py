"""Ordered collections as sorted rows."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.functions import INT_RANGES
from mrql.algebra.terms import OrderBy, Take, Term, pair_type
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.compiler.single_values import listed
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.layout import atoms, label, part, sql_type, to_sql
from mrql.runtime.spark.relation.frame import Frame, as_a_bag, expanded


def top(compiler: TermCompiler, n: Term, ordered: OrderBy) -> Frame:
    """The first n elements, by Spark's top-k; from one array of all elements where n reads sources."""
    if compiler.reads(n):
        return listed(compiler, Take(n, ordered))
    frame = expanded(as_a_bag(compiler.bag(ordered.source)), compiler.columns)
    count = max(evaluate(n) or 0, 0)
    df = frame.df.order(*order(compiler, frame, ordered))
    df = df if count > INT_RANGES[ty.INT][1] else df.limit(count)  # Spark's limit is an INT
    return attrs.evolve(frame, df=df, value=part(frame.value, "_2", pair_type(ordered.source)[1]))


def order(compiler: TermCompiler, frame: Frame, ordered: OrderBy) -> list[tuple[str, bool]]:
    """The sort columns of an ordered collection: the parts of its key, then the value; each with its direction."""
    key_type, value_type = pair_type(ordered.source)
    key = part(frame.value, "_1", key_type)
    assert isinstance(key_type, ty.TupleType)
    sort = []
    for i, (t, down) in enumerate(zip(key_type.items, ordered.descending, strict=True)):
        # The cast keeps Spark from taking a constant for the number of a column.
        sort.append((f"CAST({to_sql(part(key, label(i), t))} AS {sql_type(t)})", down))
    value = canonical(compiler.expressions, part(frame.value, "_2", value_type))
    return [
        *sort,
        *((f"CAST({atom.sql} AS {sql_type(atom.type)})", False) for atom in atoms(value)),
    ]
