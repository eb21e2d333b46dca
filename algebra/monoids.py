"""Monoids as values, with the laws that each declares.

A monoid `(T, ⊕, z)` combines values of a carrier `T`; `unit` takes an element of a collection into the carrier, so
that `reduce(⊕, {x, y}) = unit(x) ⊕ unit(y)` is a homomorphism from bags. Rewrites ask for a law, never for a name:

- *commutative*: `x ⊕ y = y ⊕ x`. Needed for `reduce` over a bag, which has no order.
- *idempotent*: `x ⊕ x = x`. Then multiplicities do not matter.
- *a group*: each `x` has an inverse `-x` with `x ⊕ -x = z`. Then a deletion is the inverse of an insertion.

A missing value is skipped by every aggregation: `unit(null) = z`. What monoids do with values is in
`evaluation/merge.py`.  Source: [MRQL] §5, (5), §8.1 (□).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type

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
