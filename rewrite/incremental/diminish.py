"""The diminisher: how a merge is undone, so that a deletion is the inverse of an insertion.

*Equations* ([MRQL] §11, Def. 6): `⊎` becomes `−` on bags, `+` becomes `−`, products component by component, and `⇑⊕`
a left outer join by key that diminishes the values.

*Requires*: a group. `min max ∧ ∨` and `*` have no inverse: where a stream can delete, the values are kept with their
counts.

*Deviation*: the paper drops a key when the subtracted value equals the stored one (`a ≠ b`). Rows `(k, 5), (k, 0)`
minus `(k, 5)` would lose `k`, whose sum is 0. A key is dropped when its *support*, the number of rows behind it, is 0:
the support is kept beside the values, and that is not decided here.
"""

from __future__ import annotations

from mrql.algebra.errors import UserError
from mrql.algebra.monoids import Aggregate, BagUnion, Fold, Invariant, Keyed, ListAppend, Monoid, ProductMonoid
from mrql.algebra.values.values import Bag, Value, canonical
from mrql.algebra.values.zset import ZSet


class TakenTooOften(UserError):
    """A deletion takes more out of a bag than it contains."""


def diminish(monoid: Monoid, a: Value, b: Value) -> Value:
    """`a ⊗̃ b`, with `(x ⊗ y) ⊗̃ y = x` ([MRQL] Theorem 3).

    Raises: UserError when the monoid is not a group, or when b deletes what a does not contain.

    >>> from mrql.algebra.monoids import BAG, SUM
    >>> diminish(ProductMonoid((SUM, BAG)), (5, Bag(["a", "b"])), (2, Bag(["a"])))
    (3, Bag(['b']))
    """
    match monoid:
        case Aggregate(op) if op.inverse is not None:
            return op.combine(a, op.inverse(b))
        case BagUnion():
            return _difference(a, b)
        case Invariant():
            return a
        case ProductMonoid(items):
            return tuple(diminish(m, x, y) for m, x, y in zip(items, a, b, strict=True))
        case Keyed(value):
            return _by_key(value, a, b)
        case Aggregate() | ListAppend() | Fold():
            raise UserError(f"{monoid} has no inverse: it cannot take back what was deleted")


def _difference(a: Bag, b: Bag) -> Bag:
    rest = ZSet.of(a) - ZSet.of(b)
    try:
        return rest.bag()
    except ValueError as error:
        raise TakenTooOften(str(error)) from None


def _by_key(value: Monoid, a: Bag, b: Bag) -> Bag:
    merged = {canonical(k): (k, v) for k, v in a}
    for k, v in b:
        key = canonical(k)
        if key not in merged:
            raise UserError(f"the key {k!r} was deleted and never inserted")
        merged[key] = (k, diminish(value, merged[key][1], v))
    return Bag(merged.values())
