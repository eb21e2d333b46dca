"""Elements that are alike but for their numbers, as rows on Spark: which of them differ, and by how much.

What differs lies in groups of elements that are alike (`residual.py`), each with those that are new, those that are
gone, and how far these are from those. All rows lie by what makes them alike, so that a group is compared where it is:
one aggregation finds how far its new elements are from its old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import attrs

from mrql.rewrite.threshold import Threshold
from mrql.runtime.casts import canonical
from mrql.runtime.expressions import Expressions
from mrql.runtime.frames import Frame
from mrql.runtime.keys import Keys
from mrql.runtime.layout import Layout, atoms
from mrql.runtime.ledger import Ledger
from mrql.runtime.relation import Relation, union_all
from mrql.runtime.residual import PAIRS, is_number
from mrql.runtime.state import Table, weighted

INFINITE = "CAST('Infinity' AS DOUBLE)"

RESIDUAL = ("max(difference) AS change", "count(1) AS groups", "sum(distance) AS distance")
"""How far some groups are from what they were, as measures over them."""


@attrs.frozen(slots=False)
class Alike:
    """Rows `(element…, w)` with the elements in the columns of some keys."""

    keys: Keys

    @cached_property
    def by(self) -> tuple[str, ...]:
        """The columns by which elements are alike: all but the numbers. Which of these are missing is one of them."""
        return tuple(name for name in self.keys.names if name not in self.numbers)

    @cached_property
    def lie_by(self) -> tuple[str, ...]:
        """Those of them that rows lie by: none tells of a number, unless there is nothing else."""
        return self.keys.in_common or self.by

    @cached_property
    def numbers(self) -> list[str]:
        named = zip(self.keys.names, atoms(self.keys.shape), strict=False)
        return [name for name, atom in named if is_number(atom.type)]

    def rows(self, sides: Sequence[Frame]) -> Relation:
        """The rows of a change, moved to where those that are like them are; if they come of a state, and what makes
        them alike is its key, they are there."""
        return union_all([self._columns_of(side) for side in sides]).repartition(*self.lie_by)

    def _columns_of(self, side: Frame) -> Relation:
        value = canonical(Expressions(), side.value)
        return side.df.select(*self.keys.columns(value), f"CAST({side.weight or '1L'} AS BIGINT) AS w")

    def groups(self, different: Relation) -> Relation:
        """Rows of which no two are of equal elements, as groups: what makes a group, its elements `new` and `old`, how
        far these are from each other in relation to their size, their `difference`, and by themselves, their
        `distance`."""
        entry = f"struct({', '.join([*self.numbers, 'w'])})"
        measures = [
            f"collect_list(IF(w > 0, {entry}, NULL)) AS new",
            f"collect_list(IF(w < 0, {entry}, NULL)) AS old",
            "sum(w) AS balance",
        ]
        groups = different.aggregate(list(self.by), measures)
        far = {"difference": _relative_difference, "distance": _distance}
        columns = [f"{_farthest(self.numbers, between)} AS {name}" for name, between in far.items()]
        return groups.select(*self.by, "new", "old", *columns)

    def of_groups(self, groups: Relation, condition: str) -> Relation:
        """The rows of some groups."""
        rows = groups.where(condition).select(*self.by, "inline(concat(new, old))")
        return rows.select(*self.keys.names, "w")


def alike_of(ledger: Ledger, value: Layout) -> Alike:
    """The elements of a ledger that is kept in groups; the first value says in which columns."""
    if ledger.keys is None:
        ledger.keys = ledger.keys_like(value)
    return Alike(ledger.keys)


def table_of(ledger: Ledger, alike: Alike) -> Table:
    """The table of a ledger, in which elements that are alike lie together."""
    if ledger.table is None:
        ledger.table = weighted(ledger.plans, alike.keys.names, alike.lie_by, recurs=True)
    ledger.table.shrinks = True
    return ledger.table


def matter(threshold: Threshold) -> str:
    """The condition under which a group matters. Without a number in it, distances need not be computed."""
    by_size = f"difference > {threshold.relative!r}D"
    return f"({by_size} AND distance > {threshold.absolute!r}D)" if threshold.absolute else f"({by_size})"


def _farthest(numbers: list[str], between: Callable[[str, str], str]) -> str:
    """How far the elements `new` of a group are from the `old` ones, by how far two numbers are, in SQL."""

    def nearest(these: str, others: str) -> str:
        parts = [between(f"CAST(a.{n} AS DOUBLE)", f"CAST(b.{n} AS DOUBLE)") for n in numbers]
        farthest = f"greatest({', '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "0D"
        inner = f"array_min(transform({others}, b -> {farthest}))"
        return f"array_max(transform({these}, a -> {inner}))"

    uneven = "balance <> 0 OR size(new) = 0 OR size(old) = 0"
    many = f"CAST(size(new) AS BIGINT) * size(old) > {PAIRS}"
    return (
        f"CASE WHEN {uneven} OR {many} THEN {INFINITE}"
        f" ELSE greatest({nearest('new', 'old')}, {nearest('old', 'new')}) END"
    )


def _relative_difference(a: str, b: str) -> str:
    difference = f"abs({a} - {b}) / greatest(abs({a}), abs({b}))"
    return f"CASE WHEN {a} = {b} THEN 0D ELSE nanvl({difference}, {INFINITE}) END"


def _distance(a: str, b: str) -> str:
    return f"CASE WHEN {a} = {b} THEN 0D ELSE nanvl(abs({a} - {b}), {INFINITE}) END"
