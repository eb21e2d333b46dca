"""Generated types, values and well-typed terms, for tests that hold for all of them.

Names are drawn from a small pool on purpose, so that variables shadow each other, streams and words of the notation.
Numbers stay small and fractions dyadic: no sum overflows, and floating-point sums are exact in any order. Any value may
be missing, also whole tuples and collections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import TypeAlias

from hypothesis import reject
from hypothesis import strategies as st

from mrql.algebra import functions as fn
from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import free_vars, pattern_vars, var_of
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.typecheck import in_carrier
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
    element_type,
)
from mrql.algebra.types import Type
from mrql.algebra.values.decimals import EXACT
from mrql.algebra.values.values import Bag, Record, Value
from tests.support.weighted import weighted

Scope: TypeAlias = Mapping[str, Type]
Streams: TypeAlias = Mapping[str, Type | Stream]
Draw: TypeAlias = st.DrawFn
Production: TypeAlias = Callable[[], Term]

NAMES = ("x", "y", "x1", "k", "S", "if", "reduce", "_v", "in", "λ", "a b", "mod", "min", "T")
FIELDS = ("A", "B", "in", "x", "C 1")
MONEY, WIDE = ty.DecimalType(12, 2), ty.DecimalType(38, 10)
BASIC = (ty.BOOL, ty.INT, ty.LONG, ty.FLOAT, ty.DOUBLE, MONEY, WIDE, ty.STRING, ty.DATE, ty.TIMESTAMP, ty.BYTES)
DIRECTED = ("+", "-", "*")
COMPARISONS = (fn.EQ, fn.NE, fn.LT, fn.LE, fn.GT, fn.GE)
TO_STRING = ("upper", "lower", "trim")

GROUPED = ty.TupleType((ty.INT, ty.BagType(ty.STRING)))
COGROUPED = ty.TupleType((ty.INT, ty.TupleType((ty.BagType(ty.LONG), ty.BagType(ty.STRING)))))
SUMMED = ty.TupleType((ty.STRING, ty.LONG))
BY_BAG = ty.TupleType((ty.BagType(ty.LONG), ty.BagType(ty.INT)))
NESTED = ty.RecordType((("V", ty.BagType(ty.LONG)), ("in", ty.TupleType((ty.INT, ty.BagType(ty.BagType(ty.LONG)))))))
BULK: tuple[Type, ...] = (GROUPED, COGROUPED, SUMMED, BY_BAG, ty.LONG)
LIKELY: tuple[Type, ...] = (*BASIC, *(ty.BagType(item) for item in BULK), ty.ListType(ty.LONG))

ODD: Mapping[Type, tuple[Value, ...]] = {
    ty.INT: (2**31 - 1, -(2**31)),
    ty.LONG: (2**63 - 1, -(2**63), 2**62, 2**53 + 1),
    ty.FLOAT: (math.nan, math.inf, -math.inf, -0.0),
    ty.DOUBLE: (math.nan, math.inf, -math.inf, -0.0, 5e-324, 2.2250738585072014e-308, 1e308, -1e308),
    ty.STRING: ("\ufffd", "\U0001f600", "\U0010ffff", "e\u0301", "\0"),
    ty.BYTES: (b"\x7f", b"\x80", b"\xff\x00"),
    ty.DATE: (date.min, date.max),
    ty.TIMESTAMP: (datetime.min, datetime.max),
    MONEY: (Decimal("9999999999.99"), Decimal("-9999999999.99")),
    WIDE: (Decimal(10**38 - 1).scaleb(-10, EXACT), Decimal(1).scaleb(-10, EXACT)),
}
"""Extreme and special values of the types."""

TAME_TO_ODD = 15
"""The number of tame values to one odd value, so that keys meet and most terms have a value."""

# How often a term is a constant, something in scope, a form of its own type or a form of any type.
CHOICES = ("leaf", *("known",) * 2, *("special",) * 6, *("other",) * 2)

STREAMS: dict[str, Stream] = {
    s.name: s
    for s in (
        Stream("S", ty.BagType(ty.RecordType((("A", ty.LONG), ("B", ty.STRING))))),
        Stream("T", ty.BagType(ty.TupleType((ty.INT, ty.TupleType((ty.DOUBLE, ty.BOOL)))))),
        Stream("reduce", ty.BagType(ty.LONG)),
        Stream("P", ty.BagType(NESTED)),
        Stream("R", ty.BagType(ty.TupleType((ty.INT, ty.STRING))), static=True),
    )
}
"""Sources of different kinds; some have names that need care."""

VARIABLES: dict[str, Type] = {
    "x": ty.LONG,
    "y": ty.TupleType((ty.INT, ty.STRING)),
    "k": ty.BagType(ty.DOUBLE),
    "if": ty.RecordType((("A", ty.BOOL), ("in", ty.DOUBLE))),
}
"""Free variables of different types."""


# --- types and values ---------------------------------------------------------------------------


@cache
def basic_types() -> st.SearchStrategy[Type]:
    return st.sampled_from(BASIC)


@cache
def types(max_leaves: int = 5) -> st.SearchStrategy[Type]:
    """Types of all forms, but without `nothing`."""
    return st.recursive(basic_types(), _larger_types, max_leaves=max_leaves)


def _larger_types(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    fields = st.lists(st.tuples(st.sampled_from(FIELDS), inner), max_size=3, unique_by=lambda field: field[0])
    return st.one_of(
        st.lists(inner, max_size=3).map(lambda items: ty.TupleType(tuple(items))),
        fields.map(lambda chosen: ty.RecordType(tuple(chosen))),
        inner.map(ty.BagType),
        inner.map(ty.ListType),
    )


@cache
def values(t: Type, nulls: bool = True) -> st.SearchStrategy[Value]:
    """Values of a type; with `nulls`, they may be missing, as a whole or in all parts, and so may any part and any
    element of them."""
    if not nulls:
        return present(t, nulls=False)
    match t:
        case ty.TupleType(items):
            return st.none() | st.just((None,) * len(items)) | present(t)
        case ty.RecordType(fields):
            return st.none() | st.just(Record({name: None for name, _ in fields})) | present(t)
        case _:
            return st.none() | present(t)


@cache
def present(t: Type, nulls: bool = True) -> st.SearchStrategy[Value]:
    """Values of a type that are not missing as a whole; with `nulls`, their parts and elements may be."""
    match t:
        case ty.Basic():
            return _atoms(t)
        case ty.Nothing():
            return st.none()
        case ty.TupleType(items):
            return st.tuples(*(values(item, nulls) for item in items))
        case ty.RecordType(fields):
            names = [name for name, _ in fields]
            parts = st.tuples(*(values(item, nulls) for _, item in fields))
            return parts.map(lambda items: Record(dict(zip(names, items, strict=True))))
        case ty.BagType(item):
            return st.lists(values(item, nulls), max_size=4).map(Bag)
        case ty.ListType(item):
            return st.lists(values(item, nulls), max_size=4)


def _atoms(t: ty.Basic) -> st.SearchStrategy[Value]:
    """Tame values, which repeat, and now and then an odd one."""
    tame = _tame(t)
    return weighted((TAME_TO_ODD, tame), (1, st.sampled_from(ODD[t]))) if t in ODD else tame


def _tame(t: ty.Basic) -> st.SearchStrategy[Value]:
    match t:
        case ty.BOOL:
            return st.booleans()
        case ty.STRING:
            return st.sampled_from(("", "a", "b", "Ab", "ä\n", '"\\'))
        case ty.BYTES:
            return st.sampled_from((b"", b"a", b"b", b"ab", b"\xff"))
        case ty.DATE:
            return st.dates()
        case ty.TIMESTAMP:
            return st.datetimes()
        case ty.INT | ty.LONG:
            return st.integers(-4, 4)
        case ty.DecimalType():
            return st.integers(-8, 8).map(lambda n: fn.convert(n / 4, t))
        case _:
            return st.integers(-8, 8).map(lambda n: n / 4)


def environments(variables: Scope, nulls: bool = True) -> st.SearchStrategy[dict[str, Value]]:
    """A value for each variable."""
    return st.fixed_dictionaries({name: values(t, nulls) for name, t in variables.items()})


def contents(streams: Streams = STREAMS, nulls: bool = True) -> st.SearchStrategy[dict[str, Value]]:
    """The contents of the data sources."""
    types = {name: s.type if isinstance(s, Stream) else s for name, s in streams.items()}
    return st.fixed_dictionaries({name: present(t, nulls) for name, t in types.items()})


def value_of(term: Term, held: Mapping[str, Value], env: Mapping[str, Value] | None = None) -> Value:
    """The value of a term. A case in which it has none is rejected: properties are about values.

    It has none if a number overflows, for example, or if a value of a carrier is missing, which no query can write.
    """
    try:
        return evaluate(term, held, env)
    except (UserError, TypeError):
        reject()


# --- terms --------------------------------------------------------------------------------------


@st.composite
def terms(draw: Draw, t: Type, streams: Streams = STREAMS, variables: Scope | None = None, depth: int = 4) -> Term:
    """Well-formed terms of type `t`, of all kinds of nodes, at most about `depth` deep."""
    return _Generator(draw, streams).term(t, variables or {}, depth)


@st.composite
def typed_terms(draw: Draw, streams: Streams = STREAMS, variables: Scope | None = None, depth: int = 4) -> Term:
    """Well-formed terms of any type, grouped collections and scalars more often than chance would have them."""
    t = draw(weighted((2, st.sampled_from(LIKELY)), (1, types())))
    return draw(terms(t, streams, variables, depth))


@st.composite
def group_functions(draw: Draw, streams: Streams, depth: int = 2) -> Term:
    """Functions of the groups of a groupBy or a coGroup that iterate over the groups, taken apart or not."""
    generator = _Generator(draw, streams)
    return generator.over_groups(generator.pair_type({}), {}, depth)


@st.composite
def patterns(draw: Draw, t: Type) -> Pattern:
    """Patterns that values of type `t` fit."""
    return _Generator(draw, {}).pattern(t)


class _Generator:
    """Draws terms from the outside in. `scope` are the variables that may be used."""

    def __init__(self, draw: Draw, streams: Streams) -> None:
        self.draw = draw
        self.streams = {n: s if isinstance(s, Stream) else Stream(n, s) for n, s in streams.items()}

    def term(self, t: Type, scope: Scope, depth: int) -> Term:
        known = list(self.known(t, scope))
        larger = self.special(t, scope, depth - 1) if depth > 0 else []
        choice = self.draw(st.sampled_from(CHOICES))
        if known and (choice == "known" or not larger):
            return self.draw(st.sampled_from(known))()
        if choice == "leaf" or not larger:
            return self.smallest(t, scope)
        options = self.anywhere(t, scope, depth - 1) if choice == "other" else larger
        return self.draw(st.sampled_from(options))()

    def type(self, scope: Scope) -> Type:
        """A type for a part of a term: one that something in scope has, or a new one."""
        near = [*scope.values(), *(s.type for s in self.streams.values())]
        return self.draw(st.sampled_from(near) | types(3) if near else types(3))

    # Terms without choice.

    def known(self, t: Type, scope: Scope) -> Iterator[Production]:
        """Variables, parts of variables and streams of type `t`."""
        for name, own in scope.items():
            for found in _parts(Var(name, own)):
                if found.type == t:
                    yield lambda found=found: found  # type: ignore[misc]
        for s in self.streams.values():
            if s.type == t:
                yield lambda s=s: s  # type: ignore[misc]

    def smallest(self, t: Type, scope: Scope) -> Term:
        if not isinstance(t, ty.Basic) and self.draw(st.integers(0, 5)) == 0:
            return Lit(None, t)
        match t:
            case ty.Basic():
                return Lit(self.draw(values(t)), t)
            case ty.Nothing():
                return Lit(None, t)
            case ty.TupleType(items):
                return Tup(tuple(self.term(item, scope, 0) for item in items))
            case ty.RecordType(fields):
                return Rec(tuple((name, self.term(item, scope, 0)) for name, item in fields))
            case ty.BagType() | ty.ListType():
                return Empty(t)

    # Forms that have any type.

    def anywhere(self, t: Type, scope: Scope, depth: int) -> list[Production]:
        return [
            lambda: If(self.term(ty.BOOL, scope, depth), self.term(t, scope, depth), self.term(t, scope, depth)),
            lambda: self.let(t, scope, depth),
            lambda: self.nth(t, scope, depth),
            lambda: self.get(t, scope, depth),
            lambda: self.repeat(t, scope, depth),
        ]

    def repeat(self, t: Type, scope: Scope, depth: int) -> Term:
        """A loop of a few steps; its value may double in each."""
        pattern = self.pattern(t)
        inner = _extend(scope, pattern)
        function = Lambda(pattern, self.term(t, inner, depth))
        condition = self.term(ty.BOOL, inner, depth) if self.draw(st.booleans()) else None
        limit = Lit(self.draw(st.integers(0, 2)), ty.INT)
        return Repeat(function, self.term(t, scope, depth), limit, condition)

    def let(self, t: Type, scope: Scope, depth: int) -> Term:
        value = self.term(self.type(scope), scope, depth)
        pattern = self.pattern(value.type)
        return Let(pattern, value, self.term(t, _extend(scope, pattern), depth))

    def nth(self, t: Type, scope: Scope, depth: int) -> Term:
        before = tuple(self.term(self.draw(basic_types()), scope, 0) for _ in range(self.draw(st.integers(0, 2))))
        return Nth(Tup((*before, self.term(t, scope, depth))), len(before))

    def get(self, t: Type, scope: Scope, depth: int) -> Term:
        name = self.draw(st.sampled_from(FIELDS))
        return Get(Rec(((name, self.term(t, scope, depth)),)), name)

    def pattern(self, t: Type, taken: set[str] | None = None) -> Pattern:
        taken = set() if taken is None else taken
        choice = self.draw(st.integers(0, 3))
        if isinstance(t, ty.TupleType) and choice > 0:
            return PTuple(tuple(self.pattern(item, taken) for item in t.items))
        free = [name for name in NAMES if name not in taken]
        if choice == 3 or not free:
            return PAny(t)
        name = self.draw(st.sampled_from(free))
        taken.add(name)
        return PVar(name, t)

    # Forms of a given type.

    def special(self, t: Type, scope: Scope, depth: int) -> list[Production]:
        match t:
            case ty.BOOL:
                return self.conditions(scope, depth)
            case ty.STRING:
                return self.strings(scope, depth)
            case ty.BYTES:
                return self.bytes(scope, depth)
            case ty.DATE | ty.TIMESTAMP:
                return self.times(t, scope, depth)
            case ty.DecimalType():
                return self.decimals(t, scope, depth)
            case ty.Basic():
                return self.numbers(t, scope, depth)
            case ty.TupleType(items):
                return [lambda: Tup(tuple(self.term(item, scope, depth) for item in items))]
            case ty.RecordType(fields):
                return [lambda: Rec(tuple((n, self.term(item, scope, depth)) for n, item in fields))]
            case ty.BagType(item):
                return self.bags(item, scope, depth)
            case ty.ListType(item):
                return self.lists(item, scope, depth)
            case ty.Nothing():
                return []

    def prim(self, function: fn.Function, scope: Scope, depth: int, *args: Type) -> Term:
        return Prim(function, tuple(self.term(t, scope, depth) for t in args))

    def reduced(self, m: mo.Monoid, element: Type, scope: Scope, depth: int) -> Term:
        return Reduce(m, self.term(ty.BagType(element), scope, depth))

    def conditions(self, scope: Scope, depth: int) -> list[Production]:
        def comparison() -> Term:
            t = self.draw(basic_types())
            return self.prim(self.draw(st.sampled_from(COMPARISONS)), scope, depth, t, t)

        def null_test() -> Term:
            function = self.draw(st.sampled_from((fn.IS_NULL, fn.HAS_NULL)))
            return self.prim(function, scope, depth, self.type(scope))

        return [
            comparison,
            null_test,
            lambda: self.prim(self.draw(st.sampled_from((fn.AND, fn.OR))), scope, depth, ty.BOOL, ty.BOOL),
            lambda: self.prim(fn.NOT, scope, depth, ty.BOOL),
            lambda: self.prim(fn.FUNCTIONS["contains"], scope, depth, ty.STRING, ty.STRING),
            lambda: self.reduced(self.draw(st.sampled_from((mo.AND, mo.OR))), ty.BOOL, scope, depth),
        ]

    def strings(self, scope: Scope, depth: int) -> list[Production]:
        def substring() -> Term:
            text = self.term(ty.STRING, scope, depth)
            return Prim(fn.FUNCTIONS["substring"], (text, Lit(0, ty.INT), Lit(1, ty.INT)))

        return [
            substring,
            lambda: self.prim(fn.PLUS, scope, depth, ty.STRING, ty.STRING),
            lambda: self.prim(fn.FUNCTIONS[self.draw(st.sampled_from(TO_STRING))], scope, depth, ty.STRING),
            lambda: Cast(self.term(ty.LONG, scope, depth), ty.STRING),
            lambda: self.prim(fn.FUNCTIONS[self.draw(st.sampled_from(("hex", "base64")))], scope, depth, ty.BYTES),
            lambda: self.reduced(self.draw(st.sampled_from((mo.MIN, mo.MAX))), ty.STRING, scope, depth),
        ]

    def bytes(self, scope: Scope, depth: int) -> list[Production]:
        return [
            lambda: Cast(self.term(ty.STRING, scope, depth), ty.BYTES),
            lambda: self.reduced(self.draw(st.sampled_from((mo.MIN, mo.MAX))), ty.BYTES, scope, depth),
        ]

    def times(self, t: ty.Basic, scope: Scope, depth: int) -> list[Production]:
        def truncated() -> Term:
            unit = Lit(self.draw(st.sampled_from(("year", "week", "hour"))), ty.STRING)
            return Prim(fn.FUNCTIONS["date_trunc"], (unit, self.term(t, scope, depth)))

        return [
            truncated,
            lambda: Cast(self.term(ty.DATE, scope, depth), t),
            lambda: self.reduced(self.draw(st.sampled_from((mo.MIN, mo.MAX))), t, scope, depth),
        ]

    def numbers(self, t: ty.Basic, scope: Scope, depth: int) -> list[Production]:
        def arithmetic() -> Term:
            narrower: Type = self.draw(st.sampled_from(ty.BINARY[: ty.BINARY.index(t) + 1]))
            args = self.draw(st.permutations((t, narrower)))
            return self.prim(fn.FUNCTIONS[self.draw(st.sampled_from(DIRECTED))], scope, depth, *args)

        def division() -> Term:
            function = self.draw(st.sampled_from((fn.DIVIDE, fn.MODULO)))
            divisor = Lit(2.0 if t in (ty.FLOAT, ty.DOUBLE) else 2, t)
            return Prim(function, (self.term(t, scope, depth), divisor))

        options = [
            arithmetic,
            division,
            lambda: self.prim(fn.NEGATE, scope, depth, t),
            lambda: self.prim(fn.FUNCTIONS["abs"], scope, depth, t),
            lambda: self.reduced(self.draw(st.sampled_from((mo.MIN, mo.MAX))), t, scope, depth),
            lambda: Cast(self.term(self.draw(st.sampled_from((ty.BOOL, ty.INT))), scope, depth), t),
        ]
        if t in (ty.LONG, ty.DOUBLE):
            summed = (ty.INT, ty.LONG) if t == ty.LONG else (ty.FLOAT, ty.DOUBLE)
            options.append(lambda: self.reduced(mo.SUM, self.draw(st.sampled_from(summed)), scope, depth))
            options.append(lambda: Reduce(mo.PRODUCT, Single(self.term(t, scope, depth))))
        if t == ty.DOUBLE:
            options.append(lambda: self.prim(fn.QUOTIENT, scope, depth, ty.DOUBLE, ty.LONG))
        if t == ty.INT:
            options.append(lambda: self.prim(fn.FUNCTIONS["length"], scope, depth, ty.STRING))
        return options

    def decimals(self, t: ty.DecimalType, scope: Scope, depth: int) -> list[Production]:
        def arithmetic() -> Term:
            args = self.draw(st.permutations((t, self.draw(st.sampled_from((MONEY, ty.INT))))))
            return Cast(self.prim(fn.FUNCTIONS[self.draw(st.sampled_from(DIRECTED))], scope, depth, *args), t)

        options = [
            arithmetic,
            lambda: Cast(Prim(fn.DIVIDE, (self.term(t, scope, depth), Lit(fn.convert(2, MONEY), MONEY))), t),
            lambda: self.prim(fn.NEGATE, scope, depth, t),
            lambda: self.prim(fn.FUNCTIONS["abs"], scope, depth, t),
            lambda: self.reduced(self.draw(st.sampled_from((mo.MIN, mo.MAX))), t, scope, depth),
            lambda: Cast(self.term(self.draw(st.sampled_from((ty.INT, ty.DOUBLE, MONEY))), scope, depth), t),
        ]
        if t == WIDE:
            options.append(lambda: self.reduced(mo.SUM, t, scope, depth))
        return options

    def bags(self, item: Type, scope: Scope, depth: int) -> list[Production]:
        t = ty.BagType(item)
        options: list[Production] = [
            lambda: Single(self.term(item, scope, depth)),
            lambda: Union(self.term(t, scope, depth), self.term(t, scope, depth)),
            lambda: Union(Empty(ty.BagType(ty.NOTHING)), self.term(t, scope, depth)),
            lambda: Union(self.term(ty.BagType(_narrower(item)), scope, depth), self.term(t, scope, depth)),
            lambda: self.cmap(item, scope, depth),
            lambda: self.cmap_over_nothing(item, scope, depth),
            lambda: self.over_groups(item, scope, depth),
            lambda: self.over_groups(item, scope, depth),
            lambda: self.reduced(mo.BAG, item, scope, depth),
            lambda: Cast(self.term(ty.ListType(item), scope, depth), t),
        ]
        match item:
            case ty.TupleType((key, ty.BagType(value))):
                pairs = ty.BagType(ty.TupleType((key, value)))
                options += [lambda: GroupBy(self.term(pairs, scope, depth))] * 4
            case ty.TupleType((key, ty.TupleType((ty.BagType(a), ty.BagType(b))))):
                left, right = (ty.BagType(ty.TupleType((key, side))) for side in (a, b))
                options += [lambda: CoGroup(self.term(left, scope, depth), self.term(right, scope, depth))] * 4
            case _:
                pass
        match item:
            case ty.TupleType((_, value)):
                options += [
                    lambda m=m: self.reduced(mo.Keyed(m), item, scope, depth)  # type: ignore[misc]
                    for m in (mo.SUM, mo.BAG, mo.MAX, mo.OR, mo.Keyed(mo.SUM))
                    if in_carrier(value, m)
                ]
            case _:
                pass
        return options

    def cmap(self, item: Type, scope: Scope, depth: int) -> Term:
        elements = [ty.LONG, GROUPED, COGROUPED, *self.ranged(scope)]
        element = self.draw(st.sampled_from(elements) | types(3))
        over = self.draw(st.sampled_from(_collections(element)))
        result = self.draw(st.sampled_from(_collections(item)))
        source = self.term(over, scope, depth)
        pattern = self.pattern(element)
        return CMap(Lambda(pattern, self.term(result, _extend(scope, pattern), depth)), source)

    def cmap_over_nothing(self, item: Type, scope: Scope, depth: int) -> Term:
        """The elements of `{}:{nothing}` fit any pattern."""
        pattern = self.pattern(self.draw(types(3)))
        body = self.term(ty.BagType(item), _extend(scope, pattern), depth)
        return CMap(Lambda(pattern, body), Empty(ty.BagType(ty.NOTHING)))

    def over_groups(self, item: Type, scope: Scope, depth: int) -> Term:
        """A function of groups that iterates over some of them, one inside the other."""
        source = self.draw(st.sampled_from((self.grouped, self.co_grouped)))(scope, depth)
        pattern = self.pattern(element_type(source))
        own = [var_of(variable) for variable in pattern_vars(pattern)]
        groups = [part for variable in own for part in _parts(variable) if isinstance(part.type, ty.BagType)]
        chosen = self.draw(st.permutations(groups)) if groups else []
        return CMap(Lambda(pattern, self.nested(item, chosen, _extend(scope, pattern), depth)), source)

    def grouped(self, scope: Scope, depth: int) -> Term:
        return GroupBy(self.pairs(self.pair_type(scope), scope, depth))

    def co_grouped(self, scope: Scope, depth: int) -> Term:
        left = self.pair_type(scope)
        likewise = [pair for pair in self.pair_types(scope) if pair.items[0] == left.items[0]]
        right = self.draw(st.sampled_from(likewise or [left]))
        if self.draw(st.integers(0, 3)) == 0:
            key, value = right.items
            right = ty.TupleType((_narrower(key), value))
        sides = self.draw(st.permutations((left, right)))
        return CoGroup(self.pairs(sides[0], scope, depth), self.pairs(sides[1], scope, depth))

    def pairs(self, pair: Type, scope: Scope, depth: int) -> Term:
        """A bag of pairs, mostly a stream where there is one, or a union with one."""
        streams = [s for s in self.streams.values() if s.type == ty.BagType(pair)]
        choice = self.draw(st.integers(0, 3)) if streams else 0
        if choice == 0:
            return self.term(ty.BagType(pair), scope, depth)
        stream = self.draw(st.sampled_from(streams))
        return stream if choice < 3 else Union(stream, self.term(ty.BagType(_narrower(pair)), scope, depth))

    def pair_type(self, scope: Scope) -> ty.TupleType:
        """A type of pairs, mostly that of a stream."""
        new = st.tuples(types(2), types(2)).map(ty.TupleType)
        known = list(self.pair_types(scope))
        return self.draw(weighted((3, st.sampled_from(known)), (1, new)) if known else new)

    def pair_types(self, scope: Scope) -> Iterator[ty.TupleType]:
        """The types of the pairs in streams and in the collections in scope."""
        for element in self.ranged(scope):
            if isinstance(element, ty.TupleType) and len(element.items) == 2:
                yield element

    def nested(self, item: Type, sources: Sequence[Term], scope: Scope, depth: int) -> Term:
        """A bag with a generator over each of some of the sources."""
        if not sources or self.draw(st.integers(0, 3)) == 0:
            return self.term(ty.BagType(item), scope, depth)
        first, *rest = sources
        pattern = self.pattern(element_type(first), {name for source in rest for name in free_vars(source)})
        return CMap(Lambda(pattern, self.nested(item, rest, _extend(scope, pattern), depth)), first)

    def ranged(self, scope: Scope) -> Iterator[Type]:
        """The element types of the collections in scope."""
        for t in (*scope.values(), *(s.type for s in self.streams.values())):
            if isinstance(t, ty.BagType | ty.ListType):
                yield t.item

    def lists(self, item: Type, scope: Scope, depth: int) -> list[Production]:
        t = ty.ListType(item)

        def ordered() -> Term:
            keys = tuple(self.draw(st.lists(basic_types(), max_size=2)))
            source = self.term(ty.BagType(ty.TupleType((ty.TupleType(keys), item))), scope, depth)
            return OrderBy(source, tuple(self.draw(st.booleans()) for _ in keys))

        return [
            ordered,
            ordered,
            lambda: ListOf(tuple(self.term(item, scope, depth) for _ in range(self.draw(st.integers(1, 2))))),
            lambda: Union(self.term(t, scope, depth), self.term(t, scope, depth)),
            lambda: Take(
                self.term(self.draw(st.sampled_from((ty.INT, ty.LONG))), scope, 0), self.term(t, scope, depth)
            ),
            lambda: Reduce(mo.LIST, self.term(t, scope, depth)),
        ]


def _narrower(t: Type) -> Type:
    """A type whose values a union takes to type `t`; `t` itself where there is no narrower one."""
    match t:
        case ty.LONG | ty.FLOAT | ty.DOUBLE:
            return ty.INT
        case ty.TupleType(items):
            return ty.TupleType(tuple(map(_narrower, items)))
        case _:
            return t


def _collections(item: Type) -> tuple[Type, ...]:
    return ty.BagType(item), ty.BagType(item), ty.ListType(item)


def _parts(term: Term) -> Iterator[Term]:
    """A term and all its parts: `x`, `x#0`, `x#0.A`, …"""
    yield term
    match term.type:
        case ty.TupleType(items):
            for i in range(len(items)):
                yield from _parts(Nth(term, i))
        case ty.RecordType(fields):
            for name, _ in fields:
                yield from _parts(Get(term, name))
        case _:
            pass


def _extend(scope: Scope, pattern: Pattern) -> Scope:
    return {**scope, **{variable.name: variable.type for variable in pattern_vars(pattern)}}
