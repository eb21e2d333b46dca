"""The columns of the tables of a stage, and the rows of its feeds as changes of its groups.

The groups have the columns of the key; for each feed the support that it gives a key, `n0`, `n1`, …; and the columns of
each component that Spark can aggregate. A bag has the columns of the key and of the element, and a weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from mrql.algebra.monoids import Aggregate
from mrql.algebra.terms import Term
from mrql.rewrite.plan.plan import Component, Shape, Stage
from mrql.runtime.spark.expressions import sum_columns
from mrql.runtime.spark.expressions.aggregates import aggregate_sql, repeated_sql
from mrql.runtime.spark.expressions.casts import cast
from mrql.runtime.spark.expressions.expressions import Environment, Expressions
from mrql.runtime.spark.expressions.layout import Layout, atoms, quote, sql_type, to_sql, unquote
from mrql.runtime.spark.relation.frame import ColumnNames, Frame
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.measures import MARK, TOUCHED, Measure, mark
from mrql.runtime.spark.state.table_schema import TableSchema


@attrs.frozen
class FeedDelta:
    """The rows of a feed in a batch, with their key and element as layouts, and the share of a row in the components
    that Spark can aggregate, as terms over `scope`."""

    feed: int
    frame: Frame
    key: Layout
    element: Layout
    units: Mapping[int, Term]
    scope: Environment
    shrinks: bool
    """Whether it may delete rows."""


@attrs.frozen
class StageColumns:
    """The columns of the tables of a stage, for keys in some layout."""

    stage: Stage
    keys: Keys
    fresh: ColumnNames
    """The names for intermediate columns."""

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of its key; a total and a bag have none."""
        return self.keys.names if self.stage.shape is Shape.KEYED else ()

    def of_key(self, key: Layout) -> list[str]:
        """The key of rows as these columns, in SQL."""
        return self.keys.columns(key) if self.stage.shape is Shape.KEYED else []

    # --- tables -------------------------------------------------------------------------------

    def groups(self) -> TableSchema:
        """The columns of its groups, and how they merge."""
        keys = self.key_names
        supports = [Measure(f"n{i}", f"sum(n{i})") for i in range(len(self.stage.feeds))]
        values = [
            Measure(name, sum_columns.merged(name, column, c), sum_columns.held(i, column, self._support(i)))
            for i, c in enumerate(self.stage.components)
            if isinstance(c.monoid, Aggregate)
            for name, column in sum_columns.columns(i, c).items()
        ]
        alive = " OR ".join(f"{measure.name} <> 0" for measure in supports)
        # A total is there even when there are no rows.
        measures = (*supports, *values, mark())
        return TableSchema(keys, keys, measures, alive if keys else "true", marked=True)

    def _support(self, component: int) -> str:
        """The condition under which there are rows behind a component; without any, nothing is left of it."""
        feeds = (i for i, feed in enumerate(self.stage.feeds) if component in dict(feed.units))
        return " OR ".join(f"n{i} <> 0" for i in feeds)

    def bag(self, element: Layout) -> TableSchema:
        """The columns of a bag of such elements."""
        elements = tuple(unquote(atom) for atom in atoms(element))
        return TableSchema.weighted((*self.key_names, *elements), self.key_names)

    # --- changes of groups --------------------------------------------------------------------

    def changes_together(self, schema: TableSchema, deltas: Sequence[FeedDelta]) -> Relation:
        """The change that all feeds make to groups of a schema: supports and components by key, added up from their
        rows together."""
        rows = []
        for delta in deltas:
            df, measures = self._measures(delta, f"CAST({delta.frame.weight or 1} AS BIGINT)", one_by_one=True)
            rows.append(df.select(*self.of_key(delta.key), *measures))
        return union_all(rows).aggregate(schema.keys, schema.added_up)

    def changes(self, delta: FeedDelta) -> Relation:
        """The change that one feed makes: its support and components by key, and nulls for those of other feeds."""
        weight = delta.frame.weight
        counted = "count(1)" if weight is None else f"coalesce(sum({weight}), 0L)"
        df, measures = self._measures(delta, counted)
        return df.aggregate(self.of_key(delta.key), measures)

    def _measures(self, delta: FeedDelta, counted: str, *, one_by_one: bool = False) -> tuple[Relation, list[str]]:
        """The rows, with more columns if need be, and over them the columns of the groups other than the keys: how
        often rows count, and their shares times that, of all together or `one_by_one`."""
        units = delta.units
        supports = [f"{counted if i == delta.feed else '0L'} AS n{i}" for i in range(len(self.stage.feeds))]
        values: list[str] = []
        named: list[str] = []
        for i, component in enumerate(self.stage.components):
            if not isinstance(component.monoid, Aggregate):
                continue
            own = sum_columns.columns(i, component)
            if i in units:
                worth = self._worth(delta, i, component, units[i], named, one_by_one=one_by_one)
            else:
                worth = [f"CAST(NULL AS {sql_type(column.type)})" for column in own.values()]
            values += [f"{value} AS {name}" for name, value in zip(own, worth, strict=True)]
        df = delta.frame.df.select("*", *named) if named else delta.frame.df
        return df, [*supports, *values, f"{MARK} AS {TOUCHED}"]

    def _worth(
        self, delta: FeedDelta, index: int, component: Component, unit: Term, named: list[str], *, one_by_one: bool
    ) -> list[str]:
        """What rows add to the columns of a component; expressions with several uses become columns, in `named`."""
        assert isinstance(component.monoid, Aggregate)
        feed = self.stage.feeds[delta.feed]
        value, kept, is_total = (
            Expressions().value(unit, delta.scope),
            sum_columns.carrier(component),
            index in feed.totals,
        )
        # A row that stands for several has the sums of all of them.
        weight = None if is_total else delta.frame.weight
        if kept is None:
            one = to_sql(cast(value, unit.type, component.type, ""))
            valued = repeated_sql if one_by_one else aggregate_sql
            return [valued(component.monoid, component.type, one, weight)]
        parts = list(atoms(value if is_total else cast(value, unit.type, component.type, "")))
        found = [quote(next(self.fresh.take())) for _ in parts]
        named += [f"{atom.sql} AS {name}" for atom, name in zip(parts, found, strict=True)]
        worth = kept.totals(found) if is_total else kept.shares(found[0], weight)
        return [*worth] if one_by_one else [*map(kept.merged, worth, kept.columns)]
