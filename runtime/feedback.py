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
    kept: Callable[[Run], None]
    """Is told of what is kept until the next batch."""
    taken: list[Relation] = attrs.Factory(list)
    """What was fed and is to be taken away from what is pending."""
    pending: Table | None = None
    groups: Run | None = None
    """What is pending, group by group, with how far each is from what it was."""

    @property
    def name(self) -> str:
        return self.feedback.fed.name

    @property
    def is_empty(self) -> bool:
        """Whether the loop has nothing, and so begins anew."""
        fed = self.ledger.table
        return fed is None or not any(run.rows is None or run.rows for run in fed.runs)

    # --- columns ------------------------------------------------------------------------------

    def _keys(self, value: Layout) -> Keys:
        if self.ledger.keys is None:
            self.ledger.keys = Keys(value, "r")
        return self.ledger.keys

    def _made(self, value: Layout) -> tuple[Keys, Table, Table]:
        """The columns of the elements, and the two tables."""
        keys = self._keys(value)
        like = self._like(keys)
        if self.ledger.table is None:
            self.ledger.table = weighted(self.plans, keys.names, like)
        if self.pending is None:
            self.pending = weighted(self.plans, keys.names, like)
        for table in (self.ledger.table, self.pending):
            table.shrinks = True
        return keys, self.ledger.table, self.pending

    def _like(self, keys: Keys) -> tuple[str, ...]:
        """The columns by which elements are alike: all but the numbers. Which of these are missing is one of them."""
        return tuple(name for name in keys.names if name not in self._numbers(keys))

    def _numbers(self, keys: Keys) -> list[str]:
        return [name for name, atom in zip(keys.names, atoms(keys.shape), strict=False) if is_number(atom.type)]

    def _rows(self, keys: Keys, change: Frame) -> Relation:
        value = canonical(Expressions(), change.value)
        return change.df.select(*keys.columns(value), f"CAST({change.weight or '1L'} AS BIGINT) AS w")

    # --- what is fed --------------------------------------------------------------------------

    def begin(self, start: Frame) -> Frame:
        """Feeds what the loop begins with."""
        return self._fed(start)

    def add_new(self, change: Frame) -> Frame:
        """Feeds what is new of what the loop begins with, where it has nothing alike."""
        keys, fed, _ = self._made(change.value)
        rows = fed.partitioned(self._rows(keys, change))
        known = fed.lookup([run.relation for run in fed.runs], rows)
        columns = [*keys.names, "w"]
        sides = rows.select(*columns, "w < 0 AS known")
        if known is not None:
            here = fed.merged([known], whole=False).where("w > 0")
            sides = sides.union(here.select(*columns, "true AS known"))
        like = list(self._like(keys))
        entry = f"IF(known, NULL, struct({', '.join([*self._numbers(keys), 'w'])}))"
        groups = sides.aggregate(like, [f"collect_list({entry}) AS rows", "bool_or(known) AS known"])
        found = groups.where("NOT known").select(*like, "inline(rows)").select(*columns)
        return self._fed(Frame(found, keys.value, "w", changes=True))

    def feed_back(self) -> Frame:
        """Feeds what is pending of the groups that matter."""
        assert self.groups is not None
        assert self.ledger.keys is not None
        keys = self.ledger.keys
        due = self.groups.relation.where(f"difference > {self.epsilon!r}D")
        rows = due.select(*self._like(keys), "inline(concat(new, old))").select(*keys.names, "w")
        return self._fed(Frame(rows, keys.value, "w", changes=True))

    def _fed(self, change: Frame) -> Frame:
        """Adds a change to what was fed; it is no more pending."""
        keys, fed, _ = self._made(change.value)
        run = Run.of(self.plans, fed.partitioned(self._rows(keys, change)))
        self.kept(run)
        fed.update(run.relation)
        self.taken.append(run.relation.select(*keys.names, "-w AS w"))
        return Frame(run.relation, keys.value, "w", changes=True)

    # --- what is pending ----------------------------------------------------------------------

    def put_off(self, change: Frame) -> None:
        """Adds a change of the step's value to what is pending."""
        keys, _, pending = self._made(change.value)
        rows = pending.partitioned(self._rows(keys, change))
        pending.merge(union_all([rows, *self.taken]))
        self.taken = []

    def restore(self, value: Frame) -> None:
        """Finds what is pending from the value of the step and what was fed, which were read from a checkpoint."""
        keys, fed, _ = self._made(value.value)
        self.taken = [run.relation.select(*keys.names, "-w AS w") for run in fed.runs]
        self.put_off(value)

    def compare(self) -> None:
        """Finds how far what is pending is from what it was, group by group."""
        assert self.pending is not None
        assert self.ledger.keys is not None
        keys = self.ledger.keys
        like, numbers = list(self._like(keys)), self._numbers(keys)
        entry = f"struct({', '.join([*numbers, 'w'])})"
        measures = [
            f"collect_list(IF(w > 0, {entry}, NULL)) AS new",
            f"collect_list(IF(w < 0, {entry}, NULL)) AS old",
            "sum(w) AS balance",
        ]
        (run,) = self.pending.runs
        groups = run.relation.aggregate(like, measures)
        difference = f"{_difference(numbers)} AS difference"
        self.groups = Run.of(self.plans, groups.select(*like, "new", "old", difference))
        self.kept(self.groups)

    def residual(self) -> tuple[Residual, bool]:
        """How far what is pending goes, and whether any of it matters."""
        assert self.groups is not None
        measures = ["max(difference) AS change", "count(1) AS groups"]
        found = self.plans.dataframe(self.groups.relation.aggregate([], measures)).head()
        assert found is not None
        change = found["change"] or 0.0
        return Residual(change, found["groups"]), change > self.epsilon


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
