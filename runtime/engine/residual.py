"""Which changes of a loop's value exceed a threshold: how far its elements are from those that the loop had before.

Elements that differ only in their numbers (doubles and floats) form a *group*. The *change* of two elements of a group
is the largest relative difference of their numbers, `|a − b| / max(|a|, |b|)`, and their *distance* the largest
difference `|a − b|`. The change or distance of two versions of a group is the largest one between an element of either
and the nearest element of the other (the Hausdorff distance). A group whose number of elements has changed is
infinitely far from its old version. A difference matters if it exceeds a threshold (`rewrite/plan/threshold.py`).

*Source*: [MRQL] §2 compares keys that are floating-point numbers by an "approximate equality", below a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Canonical, Record, Value, canonical
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.threshold import Threshold

COMPARED_MAX_PAIRS = 1_000_000
"""Groups with more pairs of elements than this are not compared, but taken to be infinitely far apart."""


@attrs.frozen
class Residual:
    """How far the values of loops that are carried over are from what a further step would make of them."""

    change: float = 0.0
    """The largest relative difference of a group; infinite where elements were added or removed."""
    groups: int = 0
    """The number of groups (often of one element) that differ."""
    distance: float = 0.0
    """The sum of the distances of the groups; infinite likewise."""

    def __str__(self) -> str:
        """In words.

        >>> print(Residual(0.00051, 12, 0.3)), print(Residual()), print(Residual(math.inf, 1, math.inf))
        12 elements differ by up to 0.051 %, by 0.3 in all
        no element differs
        1 element is not there or new
        (None, None, None)
        """
        if not self.groups:
            return "no element differs"
        one = self.groups == 1
        elements = "1 element" if one else f"{self.groups:,} elements"
        if math.isinf(self.change):
            return f"{elements} {'is' if one else 'differ, some are'} not there or new"
        differ, in_all = ("differs", "") if one else ("differ", " in all")
        return f"{elements} {differ} by up to {100 * self.change:.2g} %, by {self.distance:.3g}{in_all}"

    def and_also(self, other: Residual) -> Residual:
        return Residual(max(self.change, other.change), self.groups + other.groups, self.distance + other.distance)

    @staticmethod
    def of_steps(steps: Sequence[Residual]) -> Residual:
        """The residual of steps in a row, each of which has read a value that is off by its own residual.

        With relative residuals r_1, …, r_n, the result is off by 1 − Π (1 − r_i) if no step increases a relative
        difference; and by the sum of the distances if no step increases their total.

        >>> Residual.of_steps([Residual(0.1, 3, 0.5), Residual(0.2, 4, 0.25)])
        Residual(change=0.28, groups=7, distance=0.75)
        """
        kept = math.prod(1 - step.change for step in steps)
        groups, distance = sum(step.groups for step in steps), math.fsum(step.distance for step in steps)
        return Residual(round(1 - kept, 12), groups, distance)


def is_number(t: Type) -> bool:
    """Whether values of a type are compared by how much they differ."""
    return isinstance(t, ty.Basic) and t.kind in (ty.Kind.DOUBLE, ty.Kind.FLOAT)


@attrs.define
class _Elements:
    new: list[tuple[float, ...]] = attrs.Factory(list)
    old: list[tuple[float, ...]] = attrs.Factory(list)
    rows: list[tuple[Value, int]] = attrs.Factory(list)

    def farthest(self, difference: Callable[[float, float], float]) -> float:
        """How far the new elements are from the old ones, for a given difference of two numbers."""
        balance = sum(weight for _, weight in self.rows)
        if balance or not self.new or not self.old or len(self.new) * len(self.old) > COMPARED_MAX_PAIRS:
            return math.inf

        def between(one: tuple[float, ...], other: tuple[float, ...]) -> float:
            return max(map(difference, one, other), default=0.0)

        sides = (self.new, self.old), (self.old, self.new)
        return max(min(between(a, b) for b in others) for these, others in sides for a in these)


def divided(pending: ZSet, item: Type, threshold: Threshold) -> tuple[ZSet, Residual]:
    """Of pending insertions and deletions, the rows of the groups that exceed a threshold; and the residual of all of
    them."""
    groups: dict[Canonical, _Elements] = {}
    for row, weight in pending:
        group = groups.setdefault(_group_of(row, item), _Elements())
        numbers = tuple(part for part, t in _parts(row, item) if is_number(t) and part is not None)
        (group.new if weight > 0 else group.old).append(numbers)
        group.rows.append((row, weight))
    far = [(group, group.farthest(relative_difference), group.farthest(distance)) for group in groups.values()]
    due = ZSet.weighted(row for group, *both in far if threshold.passes(*both) for row in group.rows)
    change = max((change for _, change, _ in far), default=0.0)
    return due, Residual(change, len(groups), math.fsum(between for _, _, between in far))


def unlike(rows: ZSet, known: ZSet, item: Type) -> ZSet:
    """The rows of groups that are new as a whole: no row of such a group is deleted, and none is `known`."""
    seen = {_group_of(row, item) for row, _ in known}
    seen |= {_group_of(row, item) for row, weight in rows if weight < 0}
    return ZSet.weighted((row, weight) for row, weight in rows if _group_of(row, item) not in seen)


def _group_of(row: Value, item: Type) -> Canonical:
    return canonical(tuple(part is None if is_number(t) else part for part, t in _parts(row, item)))


def _parts(value: Value, t: Type) -> Iterator[tuple[Value, Type]]:
    """The parts of a value that are neither tuples nor records, with their types."""
    match t:
        case ty.TupleType(items) if value is not None:
            assert isinstance(value, tuple)
            for part, inner in zip(value, items, strict=True):
                yield from _parts(part, inner)
        case ty.RecordType(fields) if value is not None:
            assert isinstance(value, Record)
            for name, inner in fields:
                yield from _parts(value[name], inner)
        case _:
            yield value, t


def relative_difference(a: float, b: float) -> float:
    """How far two numbers are from each other, relative to the larger one.

    >>> relative_difference(2.0, 1.0), relative_difference(0.0, 0.0), relative_difference(math.nan, 1.0)
    (0.5, 0.0, inf)
    """
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    difference = abs(a - b) / max(abs(a), abs(b))
    return math.inf if math.isnan(difference) else difference


def distance(a: float, b: float) -> float:
    """How far two numbers are from each other.

    >>> distance(2.0, 1.0), distance(math.inf, math.inf), distance(math.nan, 1.0)
    (1.0, 0.0, inf)
    """
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return math.inf if math.isnan(a - b) else abs(a - b)
