"""The operations of a monoid on values: its zero, the unit of an element, and `⊕`; those of a fold are terms."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mrql.algebra.errors import InternalError
from mrql.algebra.monoids import (
    Aggregate,
    BagUnion,
    Fold,
    Invariant,
    Keyed,
    ListAppend,
    Monoid,
    ProductMonoid,
)
from mrql.algebra.terms import Lambda, Term
from mrql.algebra.values.values import Bag, Value, canonical, parts_of_pair, same


@attrs.frozen
class MonoidOperations:
    """The operations of monoids, given an evaluator of terms, which is passed in since it merges values, too
    (`evaluate.py`)."""

    value: Callable[[Term], Value]
    """The value of a term without variables."""
    apply: Callable[[Lambda, Value], Value]
    """The value of a function applied to a value."""

    def zero(self, m: Monoid) -> Value:
        """The identity of `⊕`. `□` has none: a key that is absent has no invariant value."""
        match m:
            case Aggregate(op):
                return op.zero
            case BagUnion() | Keyed():
                return Bag()
            case ListAppend():
                return []
            case ProductMonoid(items):
                return tuple(map(self.zero, items))
            case Fold():
                return self.value(m.zero)
            case Invariant():
                raise InternalError("monoids", "□ has no zero")

    def unit(self, m: Monoid, element: Value) -> Value:
        """The carrier's value for one element: the function `u` of `reduce(⊕, {x}) = u(x)`."""
        match m:
            case Aggregate() | Fold():
                return self.zero(m) if element is None else element
            case BagUnion():
                return Bag([element])
            case Keyed(value):
                return Bag([self._pair(value, element)])
            case ListAppend():
                return [element]
            case ProductMonoid():
                if element is None:
                    return self.zero(m)
                return tuple(self.unit(item, part) for item, part in zip(m.items, element, strict=True))
            case Invariant():
                return element

    def _pair(self, value: Monoid, element: Value) -> Value:
        """A key with its value in the carrier, the zero for a missing one; both parts of a missing pair are missing."""
        key, carried = parts_of_pair(element)
        return key, self.zero(value) if carried is None and not isinstance(value, Invariant) else carried

    def combine(self, m: Monoid, a: Value, b: Value) -> Value:
        """`a ⊕ b`."""
        match m:
            case Aggregate(op):
                return op.combine(a, b)
            case BagUnion():
                return a + b
            case ListAppend():
                return [*a, *b]
            case ProductMonoid(items):
                return tuple(self.combine(item, x, y) for item, x, y in zip(items, a, b, strict=True))
            case Keyed(value):
                return self._merge_by_key(value, a, b)
            case Fold():
                return self.apply(m.combine, (a, b))
            case Invariant():
                if not same(a, b):
                    raise InternalError("monoids", f"□ over two different values: {a!r} and {b!r}")
                return a

    def _merge_by_key(self, value: Monoid, a: Bag, b: Bag) -> Bag:
        merged: dict[object, tuple[Value, Value]] = {canonical(k): (k, v) for k, v in a}
        for k, v in b:
            key = canonical(k)
            merged[key] = (k, self.combine(value, merged[key][1], v)) if key in merged else (k, v)
        return Bag(merged.values())
