"""A state of a stage as it was at one time, and what the answer and the stages after it see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mrql.algebra import types as ty
from mrql.algebra.monoids import Aggregate
from mrql.algebra.terms import element_type
from mrql.algebra.types import Type
from mrql.rewrite.stages import Component, Shape, Stage
from mrql.runtime.expressions import zero_sql
from mrql.runtime.frames import Frame, numbered
from mrql.runtime.layout import Atom, Layout, Struct, atoms, label, quote, sql_type, to_sql, unquote
from mrql.runtime.state import TOUCHED, Table


@attrs.frozen
class BagRows:
    """The rows of a bag, in several runs that are merged when they are read."""

    table: Table
    runs: tuple[DataFrame, ...]
    shape: Layout
    grown: bool
    """Whether the last run is what the batch before the snapshot has brought."""

    def merged(self) -> DataFrame:
        return self.table.current(self.runs)

    def change(self) -> DataFrame:
        """How the batch before the snapshot changed the bag."""
        return self.runs[-1] if self.grown else self.runs[-1].where("false")


@attrs.frozen
class Snapshot:
    """The rows of a stage's tables at one time."""

    stage: Stage
    spark: SparkSession
    key_shape: Layout | None
    groups: DataFrame | None
    stepped: bool
    """Whether the batch before it was one of the stage's, so that its marks are those of that batch."""
    shrinks: bool
    """Whether there may be groups that have lost all their rows."""
    bags: Mapping[int, BagRows]

    def view(self, touched: Snapshot | None = None) -> Frame:
        """The value of the stage's variable: a bag of `(key, value)`, a total in one row, or the bag itself.

        With `touched`, only the keys that the batch before that snapshot touched are looked at.
        """
        match self.stage.shape:
            case Shape.BAG:
                return self._bag_view()
            case Shape.TOTAL:
                return self._total_view()
            case Shape.KEYED:
                return self._keyed_view(touched)

    def touched(self) -> DataFrame | None:
        """The keys that the batch before the snapshot touched, none if it passed the stage by."""
        if self.groups is None:
            return None
        return self.groups.where(f"{TOUCHED} = 1" if self.stepped else "false").select(*self._keys())

    def change(self) -> Frame:
        """How the batch before the snapshot changed the stage's bag."""
        if 0 not in self.bags:
            return self._empty()
        return Frame(self.bags[0].change(), self.bags[0].shape, quote("w"), changes=True)

    # --- the three shapes ---------------------------------------------------------------------

    def _empty(self) -> Frame:
        shape = _shape_of(element_type(self.stage.var))
        schema = ", ".join(f"{a.sql} {sql_type(a.type)}" for a in atoms(shape))
        return Frame(self.spark.createDataFrame([], schema or "unit BOOLEAN"), shape)

    def _bag_view(self) -> Frame:
        if 0 not in self.bags:
            return self._empty()
        return Frame(self.bags[0].merged(), self.bags[0].shape, quote("w"))

    def _keyed_view(self, touched: Snapshot | None) -> Frame:
        if self.groups is None or self.key_shape is None:
            return self._empty()
        df = self.groups
        supporting = [f"n{i} <> 0" for i, feed in enumerate(self.stage.feeds) if feed.supports]
        if len(supporting) < len(self.stage.feeds) or self.shrinks:
            df = df.where(" OR ".join(supporting))
        keys = touched.touched() if touched is not None else None
        if keys is not None:
            # What is marked in the snapshot itself need not be looked up.
            df = df.where(f"{TOUCHED} = 1") if touched is self and self.stepped else self._only(df, keys)
        for i, bag in self.bags.items():
            rows = bag.merged()
            df = self._with_bag(df, i, self._only(rows, keys) if keys is not None else rows)
        values = [self._component(i, component) for i, component in enumerate(self.stage.components)]
        pair = Struct((("_1", self.key_shape), ("_2", self._value(values))), element_type(self.stage.var))
        return Frame(df, pair)

    def _total_view(self) -> Frame:
        df = self.spark.range(1).select() if self.groups is None else self.groups
        values: list[Layout] = []
        for i, component in enumerate(self.stage.components):
            assert isinstance(component.monoid, Aggregate)
            zero = zero_sql(component.monoid, component.type)
            values.append(Atom(zero if self.groups is None else quote(f"v{i}"), component.type))
        return Frame(df, self._value(values))

    def _value(self, components: Sequence[Layout]) -> Layout:
        """A stored value: the component itself where there is one, else their tuple."""
        if len(components) == 1:
            return components[0]
        return Struct(tuple((label(i), value) for i, value in enumerate(components)), self.stage.value_type)

    def _component(self, index: int, component: Component) -> Atom:
        if isinstance(component.monoid, Aggregate):
            zero = zero_sql(component.monoid, component.type)
            return Atom(f"coalesce(v{index}, {zero})", component.type)
        if index not in self.bags:
            return Atom(f"CAST(array() AS {sql_type(component.type)})", component.type, False)
        return Atom(f"coalesce(b{index}, CAST(array() AS {sql_type(component.type)}))", component.type, False)

    def _keys(self) -> list[str]:
        assert self.key_shape is not None
        return [unquote(atom) for atom in atoms(self.key_shape)]

    def _only(self, df: DataFrame, keys: DataFrame) -> DataFrame:
        """The rows of some keys; missing keys are keys too."""
        names = self._keys()
        renamed = keys.toDF(*(f"t_{name}" for name in names))
        condition = " AND ".join(f"{name} <=> t_{name}" for name in names)
        return df.join(F.broadcast(renamed), F.expr(condition), "left_semi")

    def _with_bag(self, df: DataFrame, index: int, bag: DataFrame) -> DataFrame:
        """Beside each key its bag as an array: again a union and a groupBy, which move nothing."""
        keys = self._keys()
        element = f"array({to_sql(self.bags[index].shape)})"
        repeated = f"if(w = 1, {element}, array_repeat({element}[0], CAST(greatest(w, 0) AS INT)))"
        collected = bag.groupBy(*keys).agg(F.expr(f"flatten(collect_list({repeated})) AS b{index}"))
        others = [name for name in df.columns if name not in keys]
        left = df.selectExpr(
            *keys, *others, f"CAST(NULL AS {sql_type(self.stage.components[index].type)}) AS b{index}", "true AS here"
        )
        absent = [
            f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}"
            for field in df.schema
            if field.name in others
        ]
        right = collected.selectExpr(*keys, *absent, f"b{index}", "false AS here")
        first = [F.expr(f"first({name}, true) AS {name}") for name in [*others, f"b{index}"]]
        merged = left.union(right).groupBy(*keys).agg(*first, F.expr("bool_or(here) AS here"))
        return merged.where("here").drop("here")


def _shape_of(item: Type) -> Layout:
    """The columns of an empty bag."""
    names = numbered("z")

    def shape(t: Type) -> Layout:
        match t:
            case ty.TupleType(items):
                return Struct(tuple((label(i), shape(inner)) for i, inner in enumerate(items)), t)
            case ty.RecordType(fields):
                return Struct(tuple((name, shape(inner)) for name, inner in fields), t)
            case _:
                return Atom(quote(next(names)), t)

    return shape(item)
