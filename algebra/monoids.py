"""Monoids as values, with the laws that each declares.

A monoid `(T, ⊕, z)` combines values of a carrier `T`; `unit` takes an element of a collection into the carrier, so
that `reduce(⊕, {x, y}) = unit(x) ⊕ unit(y)` is a homomorphism from bags. Rewrites ask for a law, never for a name:

- *commutative*: `x ⊕ y = y ⊕ x`. Needed for `reduce` over a bag, which has no order.
- *idempotent*: `x ⊕ x = x`. Then multiplicities do not matter.
- *a group*: each `x` has an inverse `-x` with `x ⊕ -x = z`. Then a deletion is the inverse of an insertion.

A missing value is skipped by every aggregation: `unit(null) = z`.  Source: [MRQL] §5, (5), §8.1 (□).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value, canonical, same

if TYPE_CHECKING:
    from mrql.algebra.terms import Lambda, Term


class Op(Enum):
    """The monoids on basic values, by the sign that stands for them."""

    SUM = "+"
    PRODUCT = "*"
    MIN = "min"
    MAX = "max"
    AND = "∧"
    OR = "∨"


@attrs.frozen
class Aggregate:
    """A monoid on basic values: `+ * min max ∧ ∨`."""

    op: Op

    def __str__(self) -> str:
        return self.op.value


@attrs.frozen
class BagUnion:
    """`⊎`: adds multiplicities. On weighted bags it is a group."""

    def __str__(self) -> str:
        return "⊎"


@attrs.frozen
class ListAppend:
    """`++`: the only built-in monoid that does not commute."""

    def __str__(self) -> str:
        return "++"


@attrs.frozen
class ProductMonoid:
    """`⊕ × ⊗`: component by component."""

    items: tuple[Monoid, ...]

    def __str__(self) -> str:
        return f"({' × '.join(map(str, self.items))})"


@attrs.frozen
class Keyed:
    """`⇑⊕`: merges two collections of `(key, value)` with unique keys; values of equal keys are merged with `⊕`.

    The values are in the carrier of `⊕` already: `reduce(⇑⊎, {(k, {a}), (k, {b})}) = {(k, {a, b})}`, and
    `groupBy(X) = reduce(⇑⊎, cMap(λ(k, a). {(k, {a})}, X))`.

    Source: [MRQL] (5): a full outer join on the key.
    """

    value: Monoid

    def __str__(self) -> str:
        return f"⇑{self.value}"


@attrs.frozen
class Invariant:
    """`□`: what does not change. `x □ y` is `x` where `x = y`, and an error otherwise.  Source: [MRQL] §7."""

    def __str__(self) -> str:
        return "□"


@attrs.frozen
class Fold:
    """A monoid that a query defines: `combine` is `λ(x, y). x ⊕ y` over values of type `type`, `zero` its identity.

    That it is associative and commutes and that `zero` is neutral, is the word of whoever defines it. It has no
    inverse. `combine` and `zero` name no variables and no data sources.
    """

    name: str
    combine: Lambda
    zero: Term
    type: Type

    def __str__(self) -> str:
        return self.name


Monoid: TypeAlias = Aggregate | BagUnion | ListAppend | ProductMonoid | Keyed | Invariant | Fold

SUM, PRODUCT = Aggregate(Op.SUM), Aggregate(Op.PRODUCT)
MIN, MAX = Aggregate(Op.MIN), Aggregate(Op.MAX)
AND, OR = Aggregate(Op.AND), Aggregate(Op.OR)
BAG, LIST, INVARIANT = BagUnion(), ListAppend(), Invariant()


def zero(m: Monoid) -> Value:
    """The identity of `⊕`. `□` has none: a key that is absent has no invariant value."""
    match m:
        case Aggregate(op):
            return {Op.SUM: 0, Op.PRODUCT: 1, Op.MIN: None, Op.MAX: None, Op.AND: True, Op.OR: False}[op]
        case BagUnion() | Keyed():
            return Bag()
        case ListAppend():
            return []
        case ProductMonoid(items):
            return tuple(map(zero, items))
        case Fold():
            return _evaluated(m.zero, {})
        case Invariant():
            raise InternalError("monoids", "□ has no zero")


def unit(m: Monoid, element: Value) -> Value:
    """The carrier's value for one element: the function `u` of `reduce(⊕, {x}) = u(x)`."""
    match m:
        case Aggregate() | Fold():
            return zero(m) if element is None else element
        case BagUnion() | Keyed():
            return Bag([element])
        case ListAppend():
            return [element]
        case ProductMonoid():
            if element is None:
                return zero(m)
            return tuple(unit(item, part) for item, part in zip(m.items, element, strict=True))
        case Invariant():
            return element


def combine(m: Monoid, a: Value, b: Value) -> Value:
    """`a ⊕ b`."""
    match m:
        case Aggregate(op):
            return _combine_basic(op, a, b)
        case BagUnion():
            return a + b
        case ListAppend():
            return [*a, *b]
        case ProductMonoid(items):
            return tuple(combine(item, x, y) for item, x, y in zip(items, a, b, strict=True))
        case Keyed(value):
            return _merge_by_key(value, a, b)
        case Fold():
            from mrql.algebra.evaluation.evaluate import bind

            return _evaluated(m.combine.body, bind(m.combine.param, (a, b)))
        case Invariant():
            if not same(a, b):
                raise InternalError("monoids", f"□ over two different values: {a!r} and {b!r}")
            return a


def _evaluated(term: Term, env: Mapping[str, Value]) -> Value:
    """The value of a part of a fold; the evaluator stands on the monoids, and so is asked for when it is needed."""
    from mrql.algebra.evaluation.evaluate import evaluate

    return evaluate(term, {}, env)


def _combine_basic(op: Op, a: Value, b: Value) -> Value:
    match op:
        case Op.SUM:
            return a + b
        case Op.PRODUCT:
            return a * b
        case Op.AND:
            return a and b
        case Op.OR:
            return a or b
        case Op.MIN | Op.MAX:
            if a is None or b is None:
                return b if a is None else a
            return (min if op is Op.MIN else max)(a, b, key=canonical)


def _merge_by_key(value: Monoid, a: Bag, b: Bag) -> Bag:
    merged: dict[object, tuple[Value, Value]] = {canonical(k): (k, v) for k, v in a}
    for k, v in b:
        key = canonical(k)
        merged[key] = (k, combine(value, merged[key][1], v)) if key in merged else (k, v)
    return Bag(merged.values())


def is_commutative(m: Monoid) -> bool:
    match m:
        case ListAppend():
            return False
        case ProductMonoid(items):
            return all(map(is_commutative, items))
        case Keyed(value):
            return is_commutative(value)
        case Aggregate() | BagUnion() | Invariant() | Fold():
            return True


def is_idempotent(m: Monoid) -> bool:
    match m:
        case Aggregate(op):
            return op in (Op.MIN, Op.MAX, Op.AND, Op.OR)
        case BagUnion() | ListAppend() | Fold():
            return False
        case ProductMonoid(items):
            return all(map(is_idempotent, items))
        case Keyed(value):
            return is_idempotent(value)
        case Invariant():
            return True


def is_group(m: Monoid) -> bool:
    """Whether deletions can be merged as inverses: the carrier with its weights or numbers is a group.

    `□` is no group, but needs no inverse either: what does not change is not deleted.
    """
    match m:
        case Aggregate(op):
            return op is Op.SUM
        case BagUnion() | Invariant():
            return True
        case ListAppend() | Fold():
            return False
        case ProductMonoid(items):
            return all(map(is_group, items))
        case Keyed(value):
            return is_group(value)


def result_type(m: Monoid, element: Type) -> Type | None:
    """The type of `reduce(⊕, {element})`, or None where the monoid does not apply.

    Sums of integers are `long`, of other numbers `double`, whatever the width of the elements.
    """
    match m:
        case Aggregate(op):
            return _result_of_basic(op, element)
        case BagUnion():
            return ty.BagType(element)
        case ListAppend():
            return ty.ListType(element)
        case Keyed():
            merges = isinstance(element, ty.TupleType) and len(element.items) == 2
            return ty.BagType(element) if merges else None
        case ProductMonoid(items):
            if not isinstance(element, ty.TupleType) or len(element.items) != len(items):
                return None
            parts = [result_type(item, t) for item, t in zip(items, element.items, strict=True)]
            return None if None in parts else ty.TupleType(tuple(t for t in parts if t is not None))
        case Invariant():
            return element
        case Fold():
            return m.type if ty.fits(element, m.type) else None


def _result_of_basic(op: Op, element: Type) -> Type | None:
    match op:
        case Op.SUM | Op.PRODUCT:
            if not ty.is_numeric(element):
                return None
            return ty.DOUBLE if element in (ty.FLOAT, ty.DOUBLE) else ty.LONG
        case Op.MIN | Op.MAX:
            return element
        case Op.AND | Op.OR:
            return ty.BOOL if ty.fits(element, ty.BOOL) else None
