"""Elements that are alike but for their numbers, as rows on Spark: which of them differ, and by how much.

A difference is divided into groups of elements that are alike (`residual.py`), each with its new elements, its old
ones, and how far they are apart. All rows are partitioned by what makes them alike, so that a group is compared in
place: one aggregation finds how far its new elements are from its old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import attrs

from mrql.rewrite.plan.operators import Access
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import COMPARED_MAX_PAIRS
from mrql.runtime.spark.expressions.casts import canonical
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.layout import Layout, atoms
from mrql.runtime.spark.maintenance.input_rows import Ledger
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.keys import Keys
from mrql.runtime.spark.relation.plan_cache import Plans
from mrql.runtime.spark.relation.relation import Relation, union_all
from mrql.runtime.spark.state.table import Table
from mrql.runtime.spark.state.table_schema import TableSchema

INFINITE = "CAST('Infinity' AS DOUBLE)"

RESIDUAL = ("max(difference) AS change", "count(1) AS groups", "sum(distance) AS distance")
"""How far groups are from what they were, as aggregates over them."""


@attrs.frozen(slots=False)
class ElementGroups:
    """Rows `(element…, w)` with the elements in the columns of some keys."""

    keys: Keys

    @cached_property
    def by(self) -> tuple[str, ...]:
        """The columns by which elements are alike: all but the numbers. Some say which of the numbers are missing."""
        return tuple(name for name in self.keys.names if name not in self.numbers)

    @cached_property
    def lie_by(self) -> tuple[str, ...]:
        """Those of them that rows are partitioned by: none tells of a number, unless there is nothing else."""
        return self.keys.in_common or self.by

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        return self.keys.set_apart

    def are_told_by(self, key: Keys, value: Layout) -> bool:
        """Whether what makes elements of a layout alike is exactly the key of the state that they are made from.

        For elements of numbers only it is not: which of them are missing is no part of any key.
        """
        if not self.keys.in_common:
            return False
        parts = enumerate(atoms(canonical(Expressions(), value)))
        return [part.key for i, part in parts if i not in self.keys.apart] == [part.key for part in atoms(key.value)]

    def table(self, plans: Plans, access: Access) -> Table:
        """A table of such rows, partitioned by what makes them alike."""
        schema = TableSchema.weighted(self.keys.names, self.lie_by, numbers=self.numbers)
        return Table(plans, schema, access=access)

    def rows(self, sides: Sequence[Frame], plans: Plans) -> Relation:
        """The rows of a change, moved to the partitions of those that are alike; they are there already if they are
        made from a state whose key is what makes them alike."""
        return plans.moved(union_all([self.keys.rows(side) for side in sides]), self.lie_by)

    def taken_away(self, rows: Relation) -> Relation:
        """The same rows with negated weights."""
        return rows.select(*self.keys.names, "-w AS w")

    def groups(self, different: Relation) -> Relation:
        """Rows of which no two are of equal elements, as groups: the columns that make a group, its elements `new` and
        `old`, how far these are apart in relation to their size, their `difference`, and by themselves, their
        `distance`."""
        entry = f"struct({', '.join([*self.numbers, 'w'])})"
        measures = [
            f"collect_list(IF(w > 0, {entry}, NULL)) AS new",
            f"collect_list(IF(w < 0, {entry}, NULL)) AS old",
            "sum(w) AS balance",
        ]
        groups = different.aggregate(self.by, measures)
        return self._compared(groups, ("new", "old"), partial(_farthest, self.numbers))

    def pairs(self, different: Relation) -> Relation:
        """The same where no group has more than one new and one old element: then nothing need be collected."""
        sides = {"new": "w > 0", "old": "w < 0"}
        named = [(f"IF({here}, {n}, NULL)", f"{side}_{n}") for side, here in sides.items() for n in self.numbers]
        measures = [f"coalesce(max({number}), 0) AS {name}" for number, name in named]
        there = [f"bool_or({here}) AS has_{side}" for side, here in sides.items()]
        groups = different.aggregate(self.by, [*measures, *there])
        elements = [self._element(side, weight) for side, weight in (("new", 1), ("old", -1))]
        return self._compared(groups, elements, partial(_apart, self.numbers))

    def _element(self, side: str, weight: int) -> str:
        """The element of one side, if there is one, as an array."""
        element = f"array(struct({', '.join([*(f'{side}_{n} AS {n}' for n in self.numbers), f'{weight}L AS w'])}))"
        return f"IF(has_{side}, {element}, slice({element}, 1, 0)) AS {side}"

    def _compared(
        self, groups: Relation, elements: Sequence[str], apart: Callable[[Callable[[str, str], str]], str]
    ) -> Relation:
        far = {"difference": _relative_difference, "distance": _distance}
        return groups.select(*self.by, *elements, *(f"{apart(between)} AS {name}" for name, between in far.items()))

    def of_groups(self, groups: Relation, condition: str) -> Relation:
        """The rows of the groups that meet a condition."""
        rows = groups.where(condition).select(*self.by, "inline(concat(new, old))")
        return rows.select(*self.keys.names, "w")


def element_groups_of(ledger: Ledger, value: Layout) -> ElementGroups:
    """The element groups of a ledger that is kept in groups; the first value determines the columns."""
    if ledger.keys is None:
        ledger.keys = ledger.keys_like(value)
    return ElementGroups(ledger.keys)


def table_of(ledger: Ledger, element_groups: ElementGroups) -> Table:
    """The table of a ledger, in which elements that are alike lie together."""
    if ledger.table is None:
        ledger.table = element_groups.table(ledger.plans, ledger.access)
    ledger.table.shrinks = True
    return ledger.table


def matter(threshold: Threshold) -> str:
    """The condition under which a group matters. Without an absolute threshold, distances need not be computed."""
    by_size = f"difference > {threshold.relative!r}D"
    return f"({by_size} AND distance > {threshold.absolute!r}D)" if threshold.absolute else f"({by_size})"


def _farthest(numbers: Sequence[str], between: Callable[[str, str], str]) -> str:
    """How far a group's elements `new` are from the `old` ones, in SQL; `between` says how far two numbers are."""

    def nearest(these: str, others: str) -> str:
        inner = f"array_min(transform({others}, b -> {_farther(numbers, between, 'a.', 'b.')}))"
        return f"array_max(transform({these}, a -> {inner}))"

    uneven = "balance <> 0 OR size(new) = 0 OR size(old) = 0"
    many = f"CAST(size(new) AS BIGINT) * size(old) > {COMPARED_MAX_PAIRS}"
    return (
        f"CASE WHEN {uneven} OR {many} THEN {INFINITE}"
        f" ELSE greatest({nearest('new', 'old')}, {nearest('old', 'new')}) END"
    )


def _apart(numbers: Sequence[str], between: Callable[[str, str], str]) -> str:
    """How far the new element of a pair is from the old one, likewise."""
    return f"IF(has_new AND has_old, {_farther(numbers, between, 'new_', 'old_')}, {INFINITE})"


def _farther(numbers: Sequence[str], between: Callable[[str, str], str], one: str, other: str) -> str:
    """How far two elements are from each other: the largest value of `between` for their numbers."""
    parts = [between(f"CAST({one}{n} AS DOUBLE)", f"CAST({other}{n} AS DOUBLE)") for n in numbers]
    return f"greatest({', '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0D"


def _relative_difference(a: str, b: str) -> str:
    difference = f"abs({a} - {b}) / greatest(abs({a}), abs({b}))"
    return f"CASE WHEN {a} = {b} THEN 0D ELSE nanvl({difference}, {INFINITE}) END"


def _distance(a: str, b: str) -> str:
    return f"CASE WHEN {a} = {b} THEN 0D ELSE nanvl(abs({a} - {b}), {INFINITE}) END"
