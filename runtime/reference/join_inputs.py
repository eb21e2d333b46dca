"""The inputs that a join keeps, and the versions of them that the summands of the delta rule read."""

from __future__ import annotations

from fractions import Fraction

from mrql.algebra.values import decimals
from mrql.algebra.values.values import Bag, Canonical, Value, canonical
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.multilinear import Input


def below_nothing(read: Input, rows: ZSet) -> list[Value]:
    """The keys, or elements without a key, of rows with a negative weight; rows kept as one sum count together."""
    left: dict[Canonical, tuple[Value, int]] = {}
    for row, weight in rows:
        shown, kept = row, row
        if read.sums:
            key, value = row
            parts = value if isinstance(value, tuple) else (value,)
            shown, kept = key, (key, parts[: -read.sums])
        elif isinstance(row, tuple) and len(row) == 2:
            shown = row[0]
        found = canonical(kept)
        left[found] = shown, left.get(found, (shown, 0))[1] + weight
    return [shown for shown, weight in left.values() if weight < 0]


def kept(read: Input, rows: ZSet) -> Bag:
    """An input as the join keeps it: the rows, or sums of them."""
    return _sums(read, rows) if read.sums else rows.bag()


def version(which: str, old: ZSet, change: ZSet) -> ZSet:
    """The rows of an input that a summand of the delta rule reads (`choices_that_are_there`)."""
    match which:
        case "came":
            return ZSet.of(change.positive())
        case "went":
            return ZSet.of(change.negative())
        case "new":
            return old + change
        case "kept":
            return old - ZSet.of(change.negative())
        case _:
            return old


def _sums(read: Input, rows: ZSet) -> Bag:
    """One element for those that differ in their last `sums` parts only; these are added up, without rounding."""
    found: dict[Canonical, tuple[Value, list[Value]]] = {}
    for (key, value), weight in rows:
        parts = value if isinstance(value, tuple) else (value,)
        kept, numbers = parts[: -read.sums], parts[-read.sums :]
        _, sums = found.setdefault(canonical((key, kept)), ((key, kept), [0] * read.sums))
        sums[:] = [decimals.added(a, decimals.times(exact(b), weight)) for a, b in zip(sums, numbers, strict=True)]
    rows_of = (((key, (*kept, *sums)), sums) for (key, kept), sums in found.values())
    return Bag((key, parts if len(parts) > 1 else parts[0]) for (key, parts), sums in rows_of if any(sums))


def exact(number: Value) -> Value:
    """A number whose sums are not rounded: a float as a fraction."""
    return Fraction(number) if isinstance(number, float) else number
