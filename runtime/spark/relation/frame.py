"""Weighted bags as relations: rows, the layout of their values, and how often each row counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError, MissingRow
from mrql.algebra.types import Type
from mrql.algebra.values.value_text import show_value
from mrql.runtime.spark.expressions.casts import canonical, cast
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import (
    Atom,
    Layout,
    Struct,
    as_columns,
    atoms,
    label,
    may_be_ours,
    part,
    quote,
    sql_type,
    to_sql,
    with_columns,
)
from mrql.runtime.spark.relation.persisted_rows import ROWS
from mrql.runtime.spark.relation.relation import Relation, union_all


@attrs.frozen
class Frame:
    """A weighted bag. `weight` is an SQL expression, None where every row counts once.

    `changes` says that the rows are a batch's, and so few beside those of a state: a join builds its hash table from
    them. `lies_by` names the columns by which a large state is partitioned: it is never moved, whatever the key of a
    join is. `narrowed` says that some rows were kept out, by a condition or a join.
    """

    df: Relation
    value: Layout
    weight: str | None = None
    changes: bool = False
    lies_by: tuple[str, ...] | None = None
    narrowed: bool = False
    retracts: bool = False
    """Whether rows may have negative weights, which cancel others. Such a frame is not a bag: only a term that is
    linear in it has a value over it."""
    mixed: bool = False
    """Whether it may have both insertions and deletions, and so the same row twice."""

    def where(self, condition: str) -> Frame:
        return attrs.evolve(self, df=self.df.where(condition), narrowed=True)

    def times(self, other: str | None) -> str | None:
        """The weight of a pair of rows: the product."""
        if self.weight is None or other is None:
            return self.weight if other is None else other
        return f"({self.weight} * {other})"


def numbered(prefix: str) -> Iterator[str]:
    """`prefix0`, `prefix1`, …"""
    return (f"{prefix}{n}" for n in count())


class ColumnNames:
    """A supply of column names that no two frames of one plan share.

    It restarts with each batch, so that all batches have the same plans.
    """

    def __init__(self, prefix: str = "c__") -> None:
        self.prefix = prefix
        self.restart()

    def restart(self) -> None:
        self.names = numbered(self.prefix)

    def take(self) -> Iterator[str]:
        return self.names

    @contextmanager
    def apart(self, prefix: str) -> Iterator[None]:
        """Takes names with another prefix during the block, the same each time."""
        names, self.names = self.names, numbered(prefix)
        try:
            yield
        finally:
            self.names = names


def flat(frame: Frame, columns: ColumnNames, kept: Iterable[str] = ()) -> Frame:
    """The frame reduced to its value, each part in a column of its own, its weight, and the `kept` columns."""
    value = with_columns(frame.value, columns.take())
    named = as_columns(frame.value, value)
    weight = None
    if frame.weight is not None:
        weight = quote(next(columns.take()))
        named.append(f"{frame.weight} AS {weight}")
    named += [quote(name) for name in kept]
    # A bag of () has no columns of its own, but its rows count.
    return attrs.evolve(frame, df=frame.df.select(*(named or ["true AS c"])), value=value, weight=weight)


@attrs.frozen
class Side:
    """A side of a join: its frame and, if its rows are to be opened after the join, the SQL expression that opens their
    array."""

    frame: Frame
    opening: str | None = None

    @staticmethod
    def of(frame: Frame, columns: ColumnNames, *, opens_later: bool) -> Side:
        """The frame as `flat` makes it. If it `opens_later`, gathered rows are joined by their key before they are
        opened."""
        flattened, gathering = flat(frame, columns), frame.df.gathering
        if gathering is None or not opens_later:
            return Side(flattened)
        before = [atom.sql for atom in atoms(frame.value)] + ([] if frame.weight is None else [frame.weight])
        after = [atom.sql for atom in atoms(flattened.value)] + ([] if frame.weight is None else [flattened.weight])
        named = list(zip(before, after, strict=True))
        by, others = ({quote(name) for name in names} for names in (gathering.by, gathering.others))
        # A key may be part of the value, too, and so have several names.
        keys = [f"{sql} AS {name}" for sql, name in named if sql in by]
        opened = {sql: name for sql, name in named if sql in others}
        if len(keys) + len(opened) < len(named):
            return Side(flattened)
        array = quote(next(columns.take()))
        opening = ", ".join(opened.get(quote(name)) or quote(next(columns.take())) for name in gathering.others)
        closed = frame.df.parts[0].select(*keys, f"{ROWS} AS {array}")
        return Side(attrs.evolve(flattened, df=closed), f"inline({array}) AS ({opening})")

    def opened(self, joined: Relation) -> Relation:
        """The rows of a join, with this side opened."""
        return joined if self.opening is None else joined.select("*", self.opening)


def union(frames: Sequence[Frame], item: Type, columns: ColumnNames, kept: Sequence[str] = ()) -> Frame:
    """The union of bags, with values of type `item` in the same columns, and `kept` columns beside them."""
    weighted = any(frame.weight is not None for frame in frames)
    frames = fitted(frames, item)
    value = with_columns(common_shape([frame.value for frame in frames]), columns.take())
    weight = quote(next(columns.take())) if weighted else None
    rows = []
    for frame in frames:
        named = as_columns(frame.value, value)
        if weight is not None:
            named.append(f"CAST({frame.weight or '1L'} AS BIGINT) AS {weight}")
        named += map(quote, kept)
        rows.append(frame.df.select(*(named or ["true AS c"])))
    changes, narrowed = all(frame.changes for frame in frames), any(frame.narrowed for frame in frames)
    retracts, mixed = any(frame.retracts for frame in frames), any(frame.mixed for frame in frames)
    return Frame(union_all(rows), value, weight, changes, narrowed=narrowed, retracts=retracts, mixed=mixed)


def fitted(frames: Sequence[Frame], item: Type) -> list[Frame]:
    """The same bags, with values of type `item` in one layout."""
    shape = common_shape([frame.value for frame in frames])
    return [attrs.evolve(frame, value=fit(cast(frame.value, frame.value.type, item, ""), shape)) for frame in frames]


def signed(frame: Frame, sign: int, expressions: Expressions) -> Frame:
    """The frame with canonical values and its weights times a sign: one side of a difference."""
    weight = f"({sign}L * {frame.weight or '1L'})"
    return attrs.evolve(frame, value=canonical(expressions, frame.value), weight=weight)


def netted(frame: Frame, columns: ColumnNames) -> Frame:
    """The frame with equal rows merged and their weights added up; rows whose weights cancel are dropped."""
    value = with_columns(frame.value, columns.take())
    named = as_columns(frame.value, value)
    weight = quote(next(columns.take()))
    total = f"sum({frame.weight or '1L'}) AS {weight}"
    df = frame.df.aggregate(named, [total]).where(f"{weight} <> 0")
    return attrs.evolve(frame, df=df, value=value, weight=weight)


def changes(inserted: Frame | None, deleted: Frame, columns: ColumnNames) -> Frame:
    """A batch: insertions with weight 1, deletions with weight −1."""
    parts = [] if inserted is None else [attrs.evolve(inserted, weight=inserted.weight or "1L")]
    taken = attrs.evolve(deleted, weight=f"(-1L * {deleted.weight or '1L'})")
    whole = union([*parts, taken], deleted.value.type, columns)
    return attrs.evolve(whole, mixed=whole.mixed or inserted is not None)


def all_changes(batches: Sequence[Frame], item: Type, columns: ColumnNames) -> Frame:
    """Several batches of changes as one."""
    whole = union(batches, item, columns)
    return attrs.evolve(whole, mixed=whole.mixed or whole.weight is not None)


def common_shape(values: Sequence[Layout]) -> Layout:
    """The most decomposed layout that all values can be brought to: an atom where one of them has an atom."""
    first = values[0]
    for value in values:
        if isinstance(value, Atom):
            return Atom("", value.type, any(atom.missing for v in values for atom in atoms(v)))
    assert not isinstance(first, Atom)
    structs = [value for value in values if not isinstance(value, Atom)]
    parts = []
    for i, (name, _) in enumerate(first.fields):
        parts.append((name, common_shape([struct.fields[i][1] for struct in structs])))
    return attrs.evolve(first, fields=tuple(parts))


def fit(value: Layout, shape: Layout) -> Layout:
    """A value in the given layout: parts are combined, or taken apart, as the layout has them."""
    if isinstance(shape, Atom):
        return value if isinstance(value, Atom) else Atom(to_sql(value), shape.type, shape.missing)
    fields = tuple((name, fit(part(value, name, inner.type), inner)) for name, inner in shape.fields)
    return attrs.evolve(shape, fields=fields)


def from_dataframe(df: DataFrame, row: Type, weight: str | None = None) -> Frame:
    """A frame over a DataFrame's columns: those of a record or a tuple in their order, the first one otherwise."""
    names = df.columns
    if any(map(may_be_ours, names)):
        names = [label(i) for i, _ in enumerate(names)]
        df = df.toDF(*names)
    rows = Relation.of(df)
    match row:
        case ty.RecordType(fields):
            parts = [(name, Atom(quote(names[i]), t)) for i, (name, t) in enumerate(fields)]
        case ty.TupleType(items):
            parts = [(label(i), Atom(quote(names[i]), t)) for i, t in enumerate(items)]
        case _:
            return Frame(rows, Atom(quote(names[0]), row), weight)
    return Frame(rows, Struct(tuple(parts), row), weight)


def retracting(frame: Frame) -> Frame:
    """A frame whose rows may have any weight: a change, or rows of a state that are not merged."""
    return attrs.evolve(frame, retracts=frame.weight is not None)


def as_a_bag(frame: Frame) -> Frame:
    """The frame, which must be a bag: a change cannot be used as a whole."""
    if frame.retracts:
        raise InternalError("frames", f"a change of {frame.value.type} is used as a whole")
    return frame


def expanded(frame: Frame, columns: ColumnNames) -> Frame:
    """The frame with each row repeated as often as its weight says."""
    if frame.weight is None:
        return frame
    once = flat(frame, columns)
    n = next(columns.take())
    repeated = once.df.where(f"{once.weight} > 0").select("*", f"explode(sequence(1L, {once.weight})) AS {n}")
    return attrs.evolve(once, df=repeated, weight=None)


def null_of(t: Type) -> Atom:
    return Atom(f"CAST(NULL AS {sql_type(t)})", t)


def net(stream: str, rows: Frame, columns: ColumnNames, spark: SparkSession) -> Frame:
    """The bag that weighted rows add up to.

    Raises: MissingRow when a row is deleted that is not there.
    """
    if rows.weight is None:
        return rows
    left = netted(attrs.evolve(rows, value=canonical(Expressions(), rows.value)), columns)
    raise_if_missing(stream, left, spark)
    return expanded(left, columns)


def raise_if_missing(stream: str, rows: Frame, spark: SparkSession) -> None:
    missing = rows.df.where(f"{rows.weight} < 0").select(f"{to_sql(rows.value)} AS row", f"{rows.weight} AS w")
    first = missing.dataframe(spark).head()
    if first is not None:
        raise MissingRow(stream, show_value(from_spark(first["row"], rows.value.type)), -first["w"])
