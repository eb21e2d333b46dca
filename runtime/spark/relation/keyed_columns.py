"""Rows that replace each other by key: the last row of a key in a batch, beside the current one.

`runtime.sources.current_rows` does the same in Python, and `maintenance/upserts.py` keeps the current rows.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.errors import AmbiguousRow, MissingVersion
from mrql.algebra.row_key import RowKey
from mrql.algebra.values.value_text import show_value
from mrql.runtime.sources.current_rows import shown_key
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, atoms, filled, label, labels, part, to_sql
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.relation import Relation

GONE = "gone"
"""The column that says that the row of a key was deleted."""

AMBIGUOUS, UNVERSIONED = 1, 2
"""What is wrong with the rows of a key: the values of the column `fault` other than 0."""


@attrs.frozen
class KeyedColumns:
    """The columns of rows that are partitioned by their key."""

    key: RowKey
    keys: Keys
    """Whole rows as `Keys`; the columns in common are those of the parts of the key."""

    @staticmethod
    def of(key: RowKey, value: Layout) -> KeyedColumns:
        """The columns of rows with the layout `value`."""
        shape = _by_field(value)
        others = {*range(sum(1 for _ in atoms(shape)))} - _places(shape, key.fields)
        return KeyedColumns(key, Keys(shape, "r", frozenset(others)))

    @property
    def shape(self) -> Struct:
        assert isinstance(self.keys.shape, Struct)
        return self.keys.shape

    @property
    def all(self) -> tuple[str, ...]:
        """The columns of a row, and the one that says whether it is deleted."""
        return (*self.keys.names, GONE)

    @property
    def of_key(self) -> tuple[str, ...]:
        return self.keys.in_common

    @property
    def others(self) -> tuple[str, ...]:
        """The columns in which the rows of one key may differ."""
        return tuple(name for name in self.all if name not in self.of_key)

    @property
    def row(self) -> str:
        """The `others` as one value, in SQL."""
        return f"struct({', '.join(self.others)})"

    @property
    def version(self) -> str | None:
        """The column of the version, with an arbitrary value where that is missing; None if the key has no version."""
        if self.key.version is None:
            return None
        (place,) = _places(self.shape, (self.key.version,))
        return self.keys.names[place]

    def rows(self, change: Frame) -> Relation:
        """The rows of a batch. Of a deletion, only the key and the version are kept."""
        value = _by_field(canonical(Expressions(), change.value))
        if change.weight is None:
            return change.df.select(*self.keys.columns(value), f"false AS {GONE}")
        gone, kept = f"({change.weight} < 0)", _places(value, self.key.kept_of_deleted)
        parts = (
            atom if i in kept else Atom(f"if({gone}, NULL, {atom.sql})", atom.type)
            for i, atom in enumerate(atoms(value))
        )
        return change.df.select(*self.keys.columns(filled(value, parts)), f"{gone} AS {GONE}")

    def latest(self, rows: Relation) -> Relation:
        """The last row of each key, `new`, of rows that are partitioned by their keys, and its `fault`, 0 if there is
        none."""
        measures = [f"min({self.row}) AS low", f"max({self.row}) AS high"]
        if self.version is None:
            fault = f"if(low <> high, {AMBIGUOUS}, 0)"
            return rows.aggregate(self.of_key, measures).select(*self.of_key, "low AS new", f"{fault} AS fault")
        version = _part(self.keys.value, self.key.version or "")
        each = rows.aggregate(
            (*self.of_key, f"{self.version} AS version"), [*measures, f"max({to_sql(version)} IS NULL) AS unversioned"]
        )
        fault = f"max(if(unversioned, {UNVERSIONED}, 0)) AS unversioned"
        last = each.aggregate(self.of_key, ["max_by(struct(low, high), version) AS last", fault])
        ambiguous = f"if(last.low <> last.high, {AMBIGUOUS}, 0)"
        return last.select(*self.of_key, "last.low AS new", f"greatest(unversioned, {ambiguous}) AS fault")

    def come(self, latest: Relation) -> Relation:
        """The rows to add, with weights, where there were no rows before."""
        kept = "true" if self.version is not None else f"NOT new.{GONE}"
        columns = (name if name in self.of_key else f"new.{name} AS {name}" for name in self.all)
        return latest.where(f"fault = 0 AND {kept}").select(*columns, "1L AS w")

    def beside(self, latest: Relation, found: Relation) -> Relation:
        """The last rows, each beside the current row of its key, `old`, which is taken from the rows `found`."""
        there = found.aggregate(self.all, ["sum(w) AS w"]).where("w <> 0")
        sides = there.select(*self.of_key, f"{self.row} AS row", "0 AS side", "0 AS fault").union(
            latest.select(*self.of_key, "new AS row", "1 AS side", "fault")
        )
        of_side = [f"max(if(side = {side}, row, NULL)) AS {name}" for side, name in enumerate(("old", "new"))]
        both = sides.aggregate(self.of_key, [*of_side, "max(fault) AS fault"]).where("new IS NOT NULL")
        if self.version is None:
            return both
        was, now = f"old.{self.version}", f"new.{self.version}"
        fault = (
            f"CASE WHEN fault = {UNVERSIONED} OR old IS NULL OR {now} > {was} THEN fault "
            f"WHEN {now} < {was} OR fault = 0 AND old = new THEN 0 ELSE {AMBIGUOUS} END"
        )
        return both.select(*self.of_key, "old", "new", f"{fault} AS fault")

    def moved(self, beside: Relation) -> Relation:
        """The deletions and insertions, with weights."""
        if self.version is None:
            later, kept = "old <> new", f"NOT new.{GONE}"
        else:
            later, kept = f"new.{self.version} > old.{self.version}", "true"
        went, came = (
            ", ".join([*(f"{side}.{name} AS {name}" for name in self.others), f"{weight}L AS w"])
            for side, weight in (("old", -1), ("new", 1))
        )
        both = f"array(if(old IS NULL, NULL, struct({went})), if({kept}, struct({came}), NULL))"
        opened = f"inline(filter({both}, x__v_0 -> x__v_0 IS NOT NULL)) AS ({', '.join((*self.others, 'w'))})"
        changed = beside.where(f"fault = 0 AND (old IS NULL OR {later})")
        return changed.select(*self.of_key, opened).select(*self.all, "w")

    def there(self, rows: Relation) -> Frame:
        """The rows that are not deleted, as the query reads them."""
        return Frame(rows.where(f"NOT {GONE}"), self.keys.value, "w", changes=True)

    def check(self, stream: str, wrong: Relation, spark: SparkSession) -> None:
        """Raises: AmbiguousRow or MissingVersion if there are rows with a fault."""
        whole = wrong.select(*self.of_key, *(f"new.{name} AS {name}" for name in self.others), "fault")
        parts = [_part(self.keys.value, name) for name in self.key.fields]
        key = Struct(
            tuple((label(i), each) for i, each in enumerate(parts)), ty.TupleType(tuple(p.type for p in parts))
        )
        version = None if self.key.version is None else _part(self.keys.value, self.key.version)
        shown = "CAST(NULL AS STRING)" if version is None else to_sql(version)
        first = whole.select(f"{to_sql(key)} AS key", f"{shown} AS version", "fault").dataframe(spark).head()
        if first is None:
            return
        found = shown_key(from_spark(first["key"], key.type))
        if first["fault"] == UNVERSIONED:
            assert self.key.version is not None
            raise MissingVersion(stream, found, self.key.version)
        at = "" if version is None else show_value(from_spark(first["version"], version.type))
        raise AmbiguousRow(stream, found, at, versioned=version is not None)


def net_of_upserts(stream: str, key: RowKey, rows: Frame, spark: SparkSession) -> Frame:
    """The current rows of a stream, from all rows that have arrived.

    Raises: AmbiguousRow, MissingVersion.
    """
    columns = KeyedColumns.of(key, canonical(Expressions(), rows.value))
    latest = columns.latest(columns.rows(rows))
    columns.check(stream, latest.where("fault > 0"), spark)
    left = latest.select(*columns.of_key, *(f"new.{name} AS {name}" for name in columns.others))
    return attrs.evolve(columns.there(left), weight=None, changes=False)


def _by_field(value: Layout) -> Struct:
    """A record or a tuple as its fields."""
    if isinstance(value, Struct):
        return value
    return Struct(tuple((name, part(value, name, t)) for name, t in labels(value.type)), value.type)


def _part(value: Layout, name: str) -> Layout:
    return _by_field(value).part(name)


def _places(value: Struct, names: Collection[str]) -> set[int]:
    """The places of the parts of some fields."""
    found: set[int] = set()
    start = 0
    for name, item in value.fields:
        end = start + sum(1 for _ in atoms(item))
        if name in names:
            found.update(range(start, end))
        start = end
    return found
