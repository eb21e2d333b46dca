"""The terms of the algebra.

Collections are computed by a few homomorphic operators ([MRQL] §5):

    cMap(f, e)       the union of the bags f(x), for x in e
    groupBy(e)       {(k, a)} to {(k, {a})}
    coGroup(e1, e2)  {(k, a)}, {(k, b)} to {(k, ({a}, {b}))}
    reduce(⊕, e)     the elements of e merged with ⊕
    orderBy(e)       {(k, a)} to the list of the a's in the order of k
    repeat(f, n, e)  fⁿ(e)

and everything else is scalar: variables, literals, tuples, records, `if`, `let`, functions. Terms are immutable,
carry their types, and compare by structure: two terms are equal when they are written the same. The type of a literal
takes part (`1`, `1L` and `1.0` differ), the place in the query's text does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.function import Function
from mrql.algebra.monoids import Monoid, result_type
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value, canonical


class IllTyped(Exception):
    """A term was built that has no type: a fault of the code that built it."""


def _place() -> Span | None:
    return attrs.field(default=None, eq=False, repr=False, kw_only=True)  # type: ignore[no-any-return]


# --- patterns -----------------------------------------------------------------------------------


@attrs.frozen
class PVar:
    """Binds a variable."""

    name: str
    type: Type


@attrs.frozen
class PTuple:
    """Takes a tuple apart."""

    items: tuple[Pattern, ...]

    @property
    def type(self) -> Type:
        return ty.TupleType(tuple(item.type for item in self.items))


@attrs.frozen
class PAny:
    """Matches anything and binds nothing: `_`."""

    type: Type


Pattern: TypeAlias = PVar | PTuple | PAny


@attrs.frozen
class Lambda:
    """`λp. e`: a function, which exists only as an argument of an operator."""

    param: Pattern
    body: Term


# --- scalar terms -------------------------------------------------------------------------------


@attrs.frozen
class Var:
    name: str
    type: Type
    span: Span | None = _place()


@attrs.frozen
class Lit:
    """A constant of a basic type, or `null` of any type."""

    value: Value = attrs.field(eq=canonical)
    type: Type
    span: Span | None = _place()


@attrs.frozen
class Tup:
    items: tuple[Term, ...]
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        return ty.TupleType(tuple(item.type for item in self.items))


@attrs.frozen
class Rec:
    fields: tuple[tuple[str, Term], ...]
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        return ty.RecordType(tuple((name, item.type) for name, item in self.fields))


@attrs.frozen
class Nth:
    """`e#i`: a part of a tuple, counted from 0."""

    term: Term
    index: int
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        match self.term.type:
            case ty.TupleType(items) if 0 <= self.index < len(items):
                return items[self.index]
            case other:
                raise IllTyped(f"#{self.index} of a value of type {other}")


@attrs.frozen
class Get:
    """`e.A`: a field of a record."""

    term: Term
    name: str
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        match self.term.type:
            case ty.RecordType() as record if (found := record.field(self.name)) is not None:
                return found
            case other:
                raise IllTyped(f".{self.name} of a value of type {other}")


@attrs.frozen
class Prim:
    """A scalar function applied to its arguments."""

    function: Function
    args: tuple[Term, ...]
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        found = self.function.type_rule([arg.type for arg in self.args])
        if found is None:
            raise IllTyped(f"{self.function.name} over {', '.join(str(arg.type) for arg in self.args)}")
        return found


@attrs.frozen
class Cast:
    """`e as t`: a value widened or converted to type `t`."""

    term: Term
    type: Type
    span: Span | None = _place()


@attrs.frozen
class If:
    """`if c then a else b`; a missing condition counts as false."""

    condition: Term
    then: Term
    otherwise: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        joined = ty.join_types(self.then.type, self.otherwise.type)
        if joined is None:
            raise IllTyped(f"if with branches of types {self.then.type} and {self.otherwise.type}")
        return joined


@attrs.frozen
class Let:
    """`let p = e in e`."""

    pattern: Pattern
    value: Term
    body: Term
    span: Span | None = _place()

    @property
    def type(self) -> Type:
        return self.body.type


# --- collections --------------------------------------------------------------------------------


@attrs.frozen
class Empty:
    """`{}` or `[]`, of the collection type that it carries."""

    type: Type
    span: Span | None = _place()


@attrs.frozen
class Single:
    """`{e}`."""

    item: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        return ty.BagType(self.item.type)


@attrs.frozen
class ListOf:
    """`[e, …]`, with at least one element."""

    items: tuple[Term, ...]
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        item: Type = ty.NOTHING
        for term in self.items:
            joined = ty.join_types(item, term.type)
            if joined is None:
                raise IllTyped(f"a list of {item} and {term.type}")
            item = joined
        return ty.ListType(item)


@attrs.frozen
class Union:
    """`e ⊎ e` on bags, `e ++ e` on lists."""

    left: Term
    right: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        joined = ty.join_types(self.left.type, self.right.type)
        if joined is None or not ty.is_collection(joined):
            raise IllTyped(f"the union of {self.left.type} and {self.right.type}")
        return joined


@attrs.frozen
class Stream:
    """A data source by its name: a stream, or a static table, which no batch changes."""

    name: str
    type: Type
    static: bool = False
    span: Span | None = _place()


@attrs.frozen
class CMap:
    """`cMap(f, e) = {z | x ∈ e, z ∈ f(x)}`; over a list it gives a bag too.  Source: [MRQL] (1)."""

    function: Lambda
    source: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        element_type(self.source)
        match self.function.body.type:
            case ty.BagType() as bag:
                return bag
            case ty.ListType(item):
                return ty.BagType(item)
            case other:
                raise IllTyped(f"cMap of a function that returns {other}, not a collection")


@attrs.frozen
class GroupBy:
    """`groupBy({(k, a)}) = {(k, {a})}`; missing keys form one group.  Source: [MRQL] §5."""

    source: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        key, value = pair_type(self.source)
        return ty.BagType(ty.TupleType((key, ty.BagType(value))))


@attrs.frozen
class CoGroup:
    """`coGroup({(k, a)}, {(k, b)}) = {(k, ({a}, {b}))}` over the keys of either side.  Source: [MRQL] §5."""

    left: Term
    right: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        key, a = pair_type(self.left)
        other, b = pair_type(self.right)
        joined = ty.join_types(key, other)
        if joined is None:
            raise IllTyped(f"coGroup over keys of types {key} and {other}")
        return ty.BagType(ty.TupleType((joined, ty.TupleType((ty.BagType(a), ty.BagType(b))))))


@attrs.frozen
class Reduce:
    """`reduce(⊕, e)`: the elements merged with `⊕`; its zero where there are none.  Source: [MRQL] §5."""

    monoid: Monoid
    source: Term
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        found = result_type(self.monoid, element_type(self.source))
        if found is None:
            raise IllTyped(f"reduce({self.monoid}) of a collection of {element_type(self.source)}")
        return found


@attrs.frozen
class OrderBy:
    """`orderBy({(k, a)}) = [a]`, in the order of the parts of the tuple `k`.

    `descending` has a flag for each part of `k`. Missing values come first in ascending order. Elements with equal keys
    are put in the order of their own values, so that the answer is one list and not one of many.
    """

    source: Term
    descending: tuple[bool, ...]
    span: Span | None = _place()

    @cached_property
    def type(self) -> Type:
        _, value = pair_type(self.source)
        return ty.ListType(value)


@attrs.frozen
class Take:
    """The first `count` elements of a list."""

    count: Term
    source: Term
    span: Span | None = _place()

    @property
    def type(self) -> Type:
        return self.source.type


LOOP_MAX_STEPS = 10_000
"""The number of steps after which a loop without a limit is assumed not to end."""


@attrs.frozen
class Repeat:
    """`repeat(λp. f while c, n, e)`: the last of e, f(e), f(f(e)), …

    At most `limit` steps are taken. Without a condition, the loop ends after a step that changes nothing; with one,
    after a step to a value that does not satisfy it. A loop without a limit that has not ended after `most` steps is
    an error.

    *Source*: [MRQL] §5.
    """

    function: Lambda
    source: Term
    limit: Term | None = None
    condition: Term | None = None
    """A term over the variables of the function's pattern, which is bound to the value after a step."""
    most: int = LOOP_MAX_STEPS
    span: Span | None = _place()

    @property
    def type(self) -> Type:
        return self.function.param.type


Scalar: TypeAlias = Var | Lit | Tup | Rec | Nth | Get | Prim | Cast | If | Let
Bulk: TypeAlias = Empty | Single | ListOf | Union | Stream | CMap | GroupBy | CoGroup | Reduce | OrderBy | Take | Repeat
Term: TypeAlias = Scalar | Bulk


def element_type(term: Term) -> Type:
    """The type of the elements of a collection."""
    match term.type:
        case ty.BagType(item) | ty.ListType(item):
            return item
        case other:
            raise IllTyped(f"{other} is not a collection")


def cast_to(term: Term, t: Type) -> Term:
    """A term as one of a type; itself where it has that type."""
    return term if term.type == t else Cast(term, t)


def one_or_tuple(terms: Sequence[Term]) -> Term:
    """One term as it is; none, or several, as a tuple."""
    return terms[0] if len(terms) == 1 else Tup(tuple(terms))


def one_or_pattern(patterns: Sequence[Pattern]) -> Pattern:
    """The pattern that matches a value of `one_or_tuple`."""
    return patterns[0] if len(patterns) == 1 else PTuple(tuple(patterns))


def pair_type(term: Term) -> tuple[Type, Type]:
    """The types of key and value of a collection of pairs."""
    match element_type(term):
        case ty.TupleType((key, value)):
            return key, value
        case other:
            raise IllTyped(f"{other} is not a pair of a key and a value")
