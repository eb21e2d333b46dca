"""What a loop that is carried over has, on Spark, and what of its changes is fed back to it.

A bag that the loop carries is kept in two tables: what its stream was *fed*, and what is *pending*, that is by how much
the value of the step differs from it. Both lie by what makes elements alike, all but their numbers, so that a group is
compared where it lies: one aggregation finds how far its new elements are from its old ones (`residual.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mrql.rewrite.stages import Feedback
from mrql.runtime.expressions import Expressions, canonical
from mrql.runtime.frames import Frame, union_all
from mrql.runtime.keys import Keys
from mrql.runtime.layout import Layout, atoms
from mrql.runtime.ledger import Ledger
from mrql.runtime.prepared import Plans
from mrql.runtime.relation import Relation
from mrql.runtime.residual import PAIRS, Residual, is_number
from mrql.runtime.state import Run, Table, weighted

INFINITE = "CAST('Infinity' AS DOUBLE)"


@attrs.define(eq=False)
class Carried:
    """One bag of a loop."""

    feedback: Feedback
    ledger: Ledger
    """What the stream was fed; it is kept in a checkpoint."""
    plans: Plans
    epsilon: float
    keep: Callable[[Run], None]
    """Is told of what is kept until the next batch."""
    pending: Table | None = None
    """By how much the value of the step differs from what was fed, in groups: the elements that are new in one, those
    that are gone, and how far these are from those."""
    due: bool = False
    """Whether any of that matters."""
    fed: list[Run] = attrs.Factory(list)
    """What the batch has fed so far."""
    begun: Relation | None = None
    """What of it the loop begins with, which is not taken away from what is pending yet."""

    @property
    def name(self) -> str:
        return self.feedback.fed.name

    @property
    def is_empty(self) -> bool:
        """Whether the loop has nothing, and so begins anew."""
        table = self.ledger.table
        return table is None or not any(run.rows is None or run.rows for run in table.runs)

    # --- columns ------------------------------------------------------------------------------

    def _keys(self, value: Layout) -> Keys:
        if self.ledger.keys is None:
            self.ledger.keys = Keys(value, "r")
        return self.ledger.keys

    def _table(self, keys: Keys) -> Table:
        """The table of what was fed."""
        if self.ledger.table is None:
            self.ledger.table = weighted(self.plans, keys.names, self._like(keys))
        self.ledger.table.shrinks = True
        return self.ledger.table

    def _like(self, keys: Keys) -> tuple[str, ...]:
        """The columns by which elements are alike: all but the numbers. Which of these are missing is one of them."""
        return tuple(name for name in keys.names if name not in self._numbers(keys))

    def _numbers(self, keys: Keys) -> list[str]:
        return [name for name, atom in zip(keys.names, atoms(keys.shape), strict=False) if is_number(atom.type)]

    def _rows(self, keys: Keys, change: Frame) -> Relation:
        """The rows of a change, moved to where those that are like them are."""
        value = canonical(Expressions(), change.value)
        rows = change.df.select(*keys.columns(value), f"CAST({change.weight or '1L'} AS BIGINT) AS w")
        return rows.repartition(*self._like(keys))

    # --- what is fed --------------------------------------------------------------------------

    def start(self) -> None:
        """Forgets what a batch that failed has left."""
        self.fed, self.begun, self.due = [], None, False

    def begin(self, start: Frame) -> Frame:
        """Feeds what the loop begins with."""
        keys = self._keys(start.value)
        return self._begin(keys, self._rows(keys, start))

    def add_new(self, change: Frame) -> Frame:
        """Feeds what is new of what the loop begins with, where it has nothing alike."""
        keys = self._keys(change.value)
        table, rows = self._table(keys), self._rows(keys, change)
        known = table.lookup([run.relation for run in table.runs], rows)
        columns = [*keys.names, "w"]
        sides = rows.select(*columns, "w < 0 AS known")
        if known is not None:
            here = table.merged([known], whole=False).where("w > 0")
            sides = sides.union(here.select(*columns, "true AS known"))
        like = list(self._like(keys))
        entry = f"IF(known, NULL, struct({', '.join([*self._numbers(keys), 'w'])}))"
        groups = sides.aggregate(like, [f"collect_list({entry}) AS rows", "bool_or(known) AS known"])
        return self._begin(keys, groups.where("NOT known").select(*like, "inline(rows)").select(*columns))

    def _begin(self, keys: Keys, rows: Relation) -> Frame:
        fed = self._feed(keys, rows)
        self.begun = fed.df.select(*keys.names, "-w AS w")
        return fed

    def feed_back(self) -> Frame:
        """Feeds what is pending of the groups that matter."""
        assert self.ledger.keys is not None
        return self._feed(self.ledger.keys, self._of_groups(self.ledger.keys, f"difference > {self.epsilon!r}D"))

    def _feed(self, keys: Keys, rows: Relation) -> Frame:
        run = Run.of(self.plans, rows)
        self.keep(run)
        self.fed.append(run)
        return Frame(run.relation, keys.value, "w", changes=True)

    def note_fed(self) -> None:
        """Adds what the batch has fed to what was fed before."""
        if self.fed and self.ledger.keys is not None:
            self._table(self.ledger.keys).update(union_all([run.relation for run in self.fed]))
            self.fed = []

    # --- what is pending ----------------------------------------------------------------------

    def compare(self, change: Frame) -> None:
        """Adds a change of the step's value to what is pending, and compares that group by group. Once anything of it
        is fed back, it is pending no more."""
        keys = self._keys(change.value)
        rows = [self._rows(keys, change)]
        if self.pending is None:
            self.pending = weighted(self.plans, self._like(keys))
        if self.pending.runs:
            rows.append(self._of_groups(keys, f"difference <= {self.epsilon!r}D" if self.due else "true"))
        if self.begun is not None:
            rows.append(self.begun)
            self.begun = None
        self._compare(keys, rows)

    def restore(self, value: Frame) -> None:
        """Finds what is pending from the value of the step and what was fed, which were read from a checkpoint."""
        keys = self._keys(value.value)
        self.pending = weighted(self.plans, self._like(keys))
        fed = [run.relation.select(*keys.names, "-w AS w") for run in self._table(keys).runs]
        self._compare(keys, [self._rows(keys, value), *fed])

    def _compare(self, keys: Keys, rows: list[Relation]) -> None:
        assert self.pending is not None
        like, numbers = list(self._like(keys)), self._numbers(keys)
        entry = f"struct({', '.join([*numbers, 'w'])})"
        measures = [
            f"collect_list(IF(w > 0, {entry}, NULL)) AS new",
            f"collect_list(IF(w < 0, {entry}, NULL)) AS old",
            "sum(w) AS balance",
        ]
        different = union_all(rows).aggregate(keys.names, ["sum(w) AS w"]).where("w <> 0")
        groups = different.aggregate(like, measures)
        self.pending.replace(groups.select(*like, "new", "old", f"{_difference(numbers)} AS difference"))

    def _of_groups(self, keys: Keys, condition: str) -> Relation:
        """The rows of some groups of what is pending."""
        assert self.pending is not None
        (run,) = self.pending.runs
        rows = run.relation.where(condition).select(*self._like(keys), "inline(concat(new, old))")
        return rows.select(*keys.names, "w")

    def residual(self) -> Residual:
        """How far what is pending goes."""
        assert self.pending is not None
        (run,) = self.pending.runs
        measures = ["max(difference) AS change", "count(1) AS groups"]
        found = self.plans.dataframe(run.relation.aggregate([], measures)).head()
        assert found is not None
        change = found["change"] or 0.0
        self.due = change > self.epsilon
        return Residual(change, found["groups"])


def _difference(numbers: list[str]) -> str:
    """How far the elements `new` of a group are from the `old` ones, in SQL."""

    def nearest(these: str, others: str) -> str:
        inner = f"array_min(transform({others}, b -> {_distance(numbers)}))"
        return f"array_max(transform({these}, a -> {inner}))"

    uneven = "balance <> 0 OR size(new) = 0 OR size(old) = 0"
    many = f"CAST(size(new) AS BIGINT) * size(old) > {PAIRS}"
    return (
        f"CASE WHEN {uneven} OR {many} THEN {INFINITE}"
        f" ELSE greatest({nearest('new', 'old')}, {nearest('old', 'new')}) END"
    )


def _distance(numbers: list[str]) -> str:
    parts = [_relative_difference(f"CAST(a.{n} AS DOUBLE)", f"CAST(b.{n} AS DOUBLE)") for n in numbers]
    return f"greatest({', '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0D"


def _relative_difference(a: str, b: str) -> str:
    difference = f"abs({a} - {b}) / greatest(abs({a}), abs({b}))"
    return f"CASE WHEN {a} = {b} THEN 0D ELSE nanvl({difference}, {INFINITE}) END"
