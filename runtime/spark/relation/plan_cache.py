"""Plans that are made once and used in every batch.

Spark analyses, optimizes and plans each query anew, which takes longer than computing a small batch. But the queries of
a batch differ from those of the batch before only in the rows at their leaves. So a physical plan is kept by the
signature of its relation; for a batch it is copied, as Spark itself copies plans before it prepares them, and gets the
batch's rows and the runs of the state at its leaves.

Besides the signature, a plan depends on the settings, which are part of the key, and on the sizes that Spark knows of
static tables. The sizes of states and batches are not known to Spark; what depends on them is given by hints.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.relation.file_scans import Scans
from mrql.runtime.spark.relation.relation import Relation, RelationOp
from mrql.runtime.spark.session.session import PARTITIONS

REMEMBERED_MAX_PLANS = 512
"""The number of plans that a session remembers."""

PLANNED_BEFORE_KEPT = 1
"""How often Spark plans a relation in the ordinary way before its plan is kept, which takes longer once."""

_PLANS: WeakKeyDictionary[SparkSession, OrderedDict[Hashable, Template | int | None]] = WeakKeyDictionary()
"""By the settings and the signature: the plan, None if it cannot be copied, or how often it has been planned without
being kept."""

_SHAPES: WeakKeyDictionary[SparkSession, dict[Hashable, jvm.RowShape]] = WeakKeyDictionary()
"""By the settings, the signature, the partitioning columns and the number of partitions."""


@attrs.frozen
class Checkpoint:
    """Rows that are kept when they are first computed, without their lineage.

    Checkpoints of one plan share their `shape`: the columns and the partitioning.
    """

    rdd: Any
    shape: jvm.RowShape
    small: bool
    """Whether the rows are kept as bytes."""

    def compute(self, tasks: int) -> None:
        """Computes the rows in at most `tasks` tasks."""
        jvm.compute(self.rdd, tasks)

    def free(self) -> None:
        """Frees the rows."""
        jvm.free(self.rdd)


@attrs.define(eq=False)
class Template:
    """A physical plan whose leaves are to be filled in."""

    plan: jvm.PreparedPlan
    places: tuple[int, ...]
    """For each leaf of the plan that is to be filled in, the number of the relation's leaf."""
    read: Mapping[int, tuple[str, ...]]
    """For a leaf that is a batch, by its number, the columns that the plan reads, if these are not all."""
    shape: jvm.RowShape


class Plans:
    """The plans of a view's relations."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self.spark = spark
        self._known = _PLANS.setdefault(spark, OrderedDict())
        self._shapes = _SHAPES.setdefault(spark, {})
        self.use(settings)

    def use(self, settings: Mapping[str, str]) -> None:
        """Plans are made with these settings from now on."""
        self.settings = settings
        self._settings = tuple(sorted(settings.items()))
        self._scans = Scans(self.spark, self._settings)

    @property
    def in_one(self) -> bool:
        """Whether rows that are moved are moved to one partition."""
        return self.settings.get(PARTITIONS) == "1"

    def moved(self, rows: Relation, by: Sequence[str]) -> Relation:
        """Rows, moved so that those with equal values in some columns are in one partition."""
        return rows.moved(by, in_one=self.in_one)

    def checkpoint(self, relation: Relation, *, small: bool) -> Checkpoint:
        """The rows of a relation, kept with their partitioning when they are first computed."""
        template = self._template(relation)
        if template is None:
            rows = relation.dataframe(self.spark)
            return Checkpoint(*jvm.local_checkpoint(rows, small=small, few=self.in_one), small)
        rdd = self._rows(template, relation)
        return Checkpoint(jvm.kept(self.spark, rdd, small=small), template.shape, small)

    def dataframe(self, relation: Relation) -> DataFrame:
        """The rows of a relation, computed as a whole: a query over them is planned separately."""
        template = self._template(relation)
        if template is not None:
            return template.shape.over(self.spark, self._rows(template, relation), for_others=True)
        df = relation.dataframe(self.spark)
        return jvm.opaque(self.spark, df) if self.in_one else df

    def shape_by(self, relation: Relation, by: tuple[str, ...], partitions: int) -> jvm.RowShape:
        """The shape of a relation whose rows are partitioned by the hash of some columns."""
        key = (self._settings, relation.signature, by, partitions)
        if key not in self._shapes:
            self._shapes[key] = jvm.shape_by(relation.dataframe(self.spark), by, partitions, few=self.in_one)
        return self._shapes[key]

    def count(self, relation: Relation) -> int:
        """The number of rows."""
        return int(self.rdd(relation).count())

    def rdd(self, relation: Relation) -> Any:
        """Spark's handle of the rows of a relation, which is computed as a whole."""
        template = self._template(relation)
        if template is None:
            return jvm.rows_of(relation.dataframe(self.spark))
        return self._rows(template, relation)

    def _template(self, relation: Relation) -> Template | None:
        """The template of a relation, made when it is due; None if there is none."""
        key = (self._settings, relation.signature)
        found = self._known.pop(key, 0)
        if isinstance(found, int):
            found = self._made(relation) if found >= PLANNED_BEFORE_KEPT else found + 1
        self._known[key] = found
        if len(self._known) > REMEMBERED_MAX_PLANS:
            self._known.popitem(last=False)
        return found if isinstance(found, Template) else None

    def _rows(self, template: Template, relation: Relation) -> Any:
        """The rows of a relation as an RDD that is computed from a copy of the template."""
        rows = {
            place: self._leaf_rows(relation.leaves[place], template.read.get(place))
            for place in dict.fromkeys(template.places)
        }
        return template.plan.over(self.spark, [rows[place] for place in template.places])

    def _leaf_rows(self, leaf: Relation, read: tuple[str, ...] | None) -> Any:
        """The rows of a leaf as an RDD. For a batch, only the columns that are read are requested."""
        return leaf.rows.rdd if leaf.op is RelationOp.KEPT else self._scans.rows(leaf.table, read)

    def _made(self, relation: Relation) -> Template | None:
        """Plans a relation over leaves of which Spark knows the columns and the partitioning, but no more.

        Returns None for a plan that cannot be copied.
        """
        given: dict[Hashable, DataFrame] = {}
        places: dict[int, int] = {}
        for place, leaf in enumerate(relation.leaves):
            df = leaf.rows.df if leaf.op is RelationOp.KEPT else jvm.opaque(self.spark, leaf.table, few=self.in_one)
            given[leaf.identity] = df
            places[jvm.rdd_of(df).id()] = place
        df = relation.dataframe(self.spark, lambda leaf: given[leaf.identity])
        plan = jvm.PhysicalPlan(df)
        if not plan.can_be_copied():
            return None
        filled = {number: places[rdd] for number, rdd in plan.rdds() if rdd in places}
        read: dict[int, tuple[str, ...]] = {}
        for place, leaf in enumerate(relation.leaves):
            if leaf.op is RelationOp.BATCH:
                needed = plan.read_of([number for number, at in filled.items() if at == place])
                if needed is not None and needed < {*leaf.table.columns}:
                    read[place] = tuple(sorted(needed))
        prepared = plan.prepared(self.spark, filled)
        return Template(prepared, tuple(filled.values()), read, plan.shape(few=self.in_one))
