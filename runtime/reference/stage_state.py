"""The state of a stage in the reference engine: a dictionary, into which the shares of rows are merged."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import attrs

from mrql.algebra import monoids
from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError, UserError
from mrql.algebra.evaluation.evaluate import convert_zero
from mrql.algebra.evaluation.merge import combine
from mrql.algebra.functions import convert, side_sums
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.types import Type
from mrql.algebra.values import decimals
from mrql.algebra.values.exact_sums import Total
from mrql.algebra.values.values import Bag, Canonical, Unread, Value, canonical
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.incremental.diminish import diminish
from mrql.rewrite.plan.plan import Component, Shape, Stage
from mrql.runtime.engine.state_store import StateStore

_UNBOUNDED = (monoids.SUM, monoids.PRODUCT)
"""The monoids whose integers may leave the range of their type in between, and return to it."""


@attrs.define
class Entry:
    """The entry of one key: its support from each feed, and the values of the components."""

    key: Value
    support: list[int]
    values: list[Value]


@attrs.frozen
class Share:
    """The share of one row of a feed in the state: its key, the support it adds, and for each component, by number, a
    value and how often that is merged. A negative number takes something back."""

    feed: int
    key: Value
    support: int
    values: Mapping[int, tuple[Value, int]]


@attrs.define
class StageState(StateStore[Iterable[Share], Iterable[Canonical], Collection[Entry], "StageState"]):
    """The state of a stage: its entries by key, and the inputs that its joins keep, by feed number and label."""

    stage: Stage
    entries: dict[Canonical, Entry] = attrs.Factory(dict)
    inputs: dict[tuple[int, str], ZSet] = attrs.Factory(dict)
    touched_keys: set[Canonical] = attrs.Factory(set)
    changed: dict[tuple[int, str], int] = attrs.Factory(dict)
    """The number of rows that the last batch changed in each input of a join."""
    rows_by_feed: dict[int, int] = attrs.Factory(dict)
    """The number of rows that each feed, by its number, gave to the state in the last batch."""

    def snapshot(self) -> StageState:
        """A copy of the state, which later changes do not affect."""
        entries = {k: Entry(entry.key, [*entry.support], [*entry.values]) for k, entry in self.entries.items()}
        changed, rows_by_feed = dict(self.changed), dict(self.rows_by_feed)
        return StageState(self.stage, entries, dict(self.inputs), set(self.touched_keys), changed, rows_by_feed)

    def restore(self, snapshot: StageState) -> None:
        """Goes back to the state of a snapshot."""
        before = snapshot.snapshot()
        self.entries, self.inputs = before.entries, before.inputs
        self.touched_keys, self.changed, self.rows_by_feed = before.touched_keys, before.changed, before.rows_by_feed

    @property
    def touched(self) -> int:
        """How many keys the last batch touched."""
        return len(self.touched_keys)

    def rows_given_to(self, component: int) -> int:
        """How many rows the last batch gave to a component."""
        return sum(rows for feed, rows in self.rows_by_feed.items() if component in dict(self.stage.feeds[feed].units))

    def size(self) -> int:
        """How many rows the state holds."""
        return len(self.entries) + sum(map(len, self.inputs.values()))

    def value(self) -> Value:
        """The value of the stage's variable in the answer."""
        match self.stage.shape:
            case Shape.KEYED:
                return Bag((entry.key, self._value(entry.values)) for entry in self.scan() if self._is_there(entry))
            case Shape.TOTAL | Shape.BAG:
                kept = [entry.values for entry in self.lookup([canonical(())])]
                return self._value(kept[0] if kept else _zeros(self.stage.components))

    def _value(self, kept: list[Value]) -> Value:
        values = [_read(component, value) for component, value in zip(self.stage.components, kept, strict=True)]
        return values[0] if len(values) == 1 else tuple(values)

    def _is_there(self, entry: Entry) -> bool:
        return any(n for n, feed in zip(entry.support, self.stage.feeds, strict=True) if feed.supports)

    def lookup(self, keys: Iterable[Canonical]) -> list[Entry]:
        """The entries of those keys that have one."""
        return [self.entries[key] for key in keys if key in self.entries]

    def scan(self) -> Collection[Entry]:
        """All entries."""
        return self.entries.values()

    def append(self, changes: Iterable[Share]) -> None:
        """Merges the shares of some rows."""
        for share in changes:
            self._merge(share)

    def _merge(self, share: Share) -> None:
        found = canonical(share.key)
        if found not in self.entries:
            self.entries[found] = Entry(share.key, [0] * len(self.stage.feeds), _zeros(self.stage.components))
        self.touched_keys.add(found)
        entry = self.entries[found]
        entry.support[share.feed] += share.support
        for i, (value, times) in share.values.items():
            entry.values[i] = _merged(self.stage.components[i], entry.values[i], value, times)

    def compact(self) -> None:
        """Drops the entries of keys without support."""
        for found in [found for found, entry in self.entries.items() if not any(entry.support)]:
            del self.entries[found]


def _zeros(components: Iterable[Component]) -> list[Value]:
    return [Total() if _is_total(c) else convert_zero(c.monoid, c.type) for c in components]


def _is_total(component: Component) -> bool:
    return component.monoid == monoids.SUM and component.type == ty.DOUBLE


def _read(component: Component, stored: Value) -> Value:
    """The value of a stored component. A sum or product outside the range of its type is an error only where the
    answer reads it."""
    if isinstance(stored, Total):
        return stored.value
    try:
        return convert(stored, component.type) if component.monoid in _UNBOUNDED else stored
    except EvaluationError as error:
        return Unread(UserError(str(error), component.span))


def _added(stored: Value, share: Value, times: int, t: Type) -> Value:
    """A sum plus `times` a share: a number, or the total of a row that stands for several (`Feed.totals`)."""
    match stored, share:
        case Total(), (high, low):
            return stored.with_integer(times * side_sums.whole(high, low))
        case Total(), (magnitude, mantissas, count):
            return _with_products(stored, magnitude, times * mantissas, times * count)
        case Total(), (magnitude, mantissas, count, partners, rest, pairs, words, ones, fractions):
            times *= partners
            huge = _with_products(stored, magnitude, times * mantissas, times * count)
            integer = times * ((pairs << 96) + (words << 64) + (ones << 32) + fractions)
            return huge.with_part(integer, -32).added(rest, times)
        case Total(), _:
            return stored.added(share, times)
        case _, (first, last) if isinstance(t, ty.DecimalType):
            return decimals.added(stored, decimals.times(side_sums.decimal_of(first, last, t), times))
        case _, (high, low):
            return stored + times * side_sums.whole(high, low)
        case _:
            return decimals.added(stored, decimals.times(share, times))


def _with_products(stored: Total, magnitude: int | None, mantissas: float, count: int) -> Total:
    """A sum of doubles plus `count` doubles of one magnitude, whose mantissas add up to `mantissas`."""
    if magnitude is None or magnitude == side_sums.ZERO:
        return stored
    if abs(magnitude) == side_sums.NO_NUMBER:
        return stored.added(math.nan, count)
    exponent = abs(magnitude) - side_sums.ONE
    if exponent >= side_sums.INFINITE_MIN_MAGNITUDE:
        return stored.added(math.copysign(math.inf, magnitude), count)
    return stored.scaled(mantissas, side_sums.MAGNITUDE_BITS * exponent)


def _merged(component: Component, stored: Value, share: Value, weight: int) -> Value:
    monoid = component.monoid
    if monoid == monoids.SUM:
        return _added(stored, share, weight, component.type)
    if isinstance(monoid, BagUnion):
        # All copies at once: one by one, each merge would copy the bag.
        share, weight = Bag([*share] * abs(weight)), 1 if weight > 0 else -1
    for _ in range(1 if monoids.is_idempotent(monoid) and weight > 0 else abs(weight)):
        stored = combine(monoid, stored, share) if weight > 0 else diminish(monoid, stored, share)
    return _carried(stored, monoid, component.type)


def _carried(value: Value, monoid: Aggregate | BagUnion, t: Type) -> Value:
    if monoid == monoids.PRODUCT and t == ty.LONG:
        # A product that is out of range stays so with every further factor but 0, so it can be clamped.
        return max(-TOO_LARGE, min(value, TOO_LARGE))
    return convert(value, t) if isinstance(monoid, Aggregate) else value


TOO_LARGE = 1 << 64
"""Greater than the absolute value of any long."""
