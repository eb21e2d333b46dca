"""Monoids as values, with the laws that each declares.

A monoid `(T, ⊕, z)` combines values of a carrier `T`; `unit` takes an element of a collection into the carrier, so
that `reduce(⊕, {x, y}) = unit(x) ⊕ unit(y)` is a homomorphism from bags. Rewrites ask for a law, never for a name:

- *commutative*: `x ⊕ y = y ⊕ x`. Needed for `reduce` over a bag, which has no order.
- *idempotent*: `x ⊕ x = x`. Then multiplicities do not matter.
- *a group*: each `x` has an inverse `-x` with `x ⊕ -x = z`. Then a deletion is the inverse of an insertion.

A missing value is skipped by every aggregation: `unit(null) = z`. The operations of monoids on values are in
`evaluation/monoid_operations.py`.  Source: [MRQL] §5, (5), §8.1 (□).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.nulls import greatest, least
from mrql.algebra.types import Type
from mrql.algebra.values import decimals
from mrql.algebra.values.values import Value

if TYPE_CHECKING:
    from mrql.algebra.terms import Lambda, Term


@attrs.frozen(repr=False)
class Op:
    """A monoid on basic values, as a row of the table. Rows are compared by name.

    A present element is its own unit; the unit of a missing one is the zero. `combine` takes values of the carrier,
    whose type `type_rule` gives. `sign` is a word, or a sign that `notation/term.lark` lists.
    """

    name: str
    """Must never change: states are identified by it."""
    sign: str = attrs.field(eq=False)
    """Its notation in a term."""
    meaning: str = attrs.field(eq=False)
    zero: Value = attrs.field(eq=False, kw_only=True)
    combine: Callable[[Any, Any], Value] = attrs.field(eq=False, kw_only=True)
    type_rule: Callable[[Type], Type | None] = attrs.field(eq=False, kw_only=True)
    """From the type of the elements to that of the carrier, or None where the monoid does not apply."""
    inverse: Callable[[Any], Value] | None = attrs.field(eq=False, kw_only=True, default=None)
    """`-x`, with `x ⊕ -x = z`, where there is one."""
    commutative: bool = attrs.field(eq=False, kw_only=True, default=True)
    idempotent: bool = attrs.field(eq=False, kw_only=True, default=False)

    def __repr__(self) -> str:
        return f"<Op.{self.name}: {self.sign!r}>"

    def __reduce__(self) -> Any:
        return _op, (self.sign,)  # terms are sent to Spark's Python workers, which have the same table


def _op(sign: str) -> Op:
    return OPS[sign]


def _sum_type(element: Type) -> Type | None:
    """Sums of integers are `long`, of decimals the widest decimal, and of other numbers `double`, whatever the width of
    the elements: so a sum of sums has the type of the sums."""
    if not ty.is_numeric(element):
        return None
    if isinstance(element, ty.DecimalType):
        return ty.DecimalType(ty.MAX_PRECISION, element.scale)
    return ty.DOUBLE if element in ty.FRACTIONS else ty.LONG


def _product_type(element: Type) -> Type | None:
    """As for sums, but None for decimals: no type has enough digits for all their products."""
    return None if isinstance(element, ty.DecimalType) else _sum_type(element)


def _condition_type(element: Type) -> Type | None:
    return ty.BOOL if ty.fits(element, ty.BOOL) else None


def _same_type(element: Type) -> Type | None:
    return element


def _both(a: Value, b: Value) -> Value:
    return a and b


def _either(a: Value, b: Value) -> Value:
    return a or b


_ROWS = (
    Op(
        "SUM",
        "+",
        "the sum of numbers",
        zero=0,
        combine=decimals.added,
        type_rule=_sum_type,
        inverse=decimals.opposite,
    ),
    Op("PRODUCT", "*", "the product of numbers", zero=1, combine=operator.mul, type_rule=_product_type),
    Op("MIN", "min", "the least value", zero=None, combine=least, type_rule=_same_type, idempotent=True),
    Op("MAX", "max", "the greatest value", zero=None, combine=greatest, type_rule=_same_type, idempotent=True),
    Op("AND", "∧", "whether all are true", zero=True, combine=_both, type_rule=_condition_type, idempotent=True),
    Op("OR", "∨", "whether any is true", zero=False, combine=_either, type_rule=_condition_type, idempotent=True),
)
OPS: dict[str, Op] = {op.sign: op for op in _ROWS}
"""The monoids on basic values by their signs. Another one needs only a row here, and its SQL in
`runtime/spark/expressions/aggregates.py`."""


@attrs.frozen
class Aggregate:
    """A monoid on basic values: `+ * min max ∧ ∨`."""

    op: Op

    def __str__(self) -> str:
        return self.op.sign


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
    """`□`, for values that do not change: `x □ y` is `x` if `x = y`, and an error otherwise.  Source: [MRQL] §7."""

    def __str__(self) -> str:
        return "□"


@attrs.frozen
class Fold:
    """A monoid that a query defines: `combine` is `λ(x, y). x ⊕ y` over values of type `type`, `zero` its identity.

    The author of the query is responsible for `combine` being associative and commutative, and for `zero` being its
    identity. It has no inverse. `combine` and `zero` have no free variables and no data sources.
    """

    name: str
    combine: Lambda
    zero: Term
    type: Type

    def __str__(self) -> str:
        return self.name


Monoid: TypeAlias = Aggregate | BagUnion | ListAppend | ProductMonoid | Keyed | Invariant | Fold

SUM, PRODUCT, MIN, MAX, AND, OR = map(Aggregate, _ROWS)
BAG, LIST, INVARIANT = BagUnion(), ListAppend(), Invariant()


def is_commutative(m: Monoid) -> bool:
    match m:
        case Aggregate(op):
            return op.commutative
        case ListAppend():
            return False
        case ProductMonoid(items):
            return all(map(is_commutative, items))
        case Keyed(value):
            return is_commutative(value)
        case BagUnion() | Invariant() | Fold():
            return True


def is_idempotent(m: Monoid) -> bool:
    match m:
        case Aggregate(op):
            return op.idempotent
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

    `□` is not a group, but needs no inverse: values that do not change are not deleted.
    """
    match m:
        case Aggregate(op):
            return op.inverse is not None
        case BagUnion() | Invariant():
            return True
        case ListAppend() | Fold():
            return False
        case ProductMonoid(items):
            return all(map(is_group, items))
        case Keyed(value):
            return is_group(value)


def result_type(m: Monoid, element: Type) -> Type | None:
    """The type of `reduce(⊕, {element})`, or None where the monoid does not apply."""
    match m:
        case Aggregate(op):
            return op.type_rule(element)
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
