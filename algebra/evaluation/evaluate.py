"""The reference evaluator, which defines the meaning of terms.

Plain Python on plain values, one clause for each kind of term, written so that it can be read as the definition. Every
rewrite and every plan that runs on Spark is checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce as fold_left
from itertools import count
from operator import is_
from typing import assert_never

from mrql.algebra import monoids
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.errors import endless, place_of, with_place
from mrql.algebra.evaluation.lookup import key_in_words
from mrql.algebra.evaluation.monoid_operations import MonoidOperations
from mrql.algebra.evaluation.pairs import co_grouped, grouped, sort_pairs
from mrql.algebra.evaluation.recursive_functions import Definition, Recursive
from mrql.algebra.evaluation.trace import print_trace
from mrql.algebra.functions import AND, COALESCE, ONLY, OR, TRACE, apply, convert, convert_from, widened
from mrql.algebra.functions.operators import only
from mrql.algebra.memory import LARGE_MIN_SIZE, PLACE_BYTES, make_room, with_room
from mrql.algebra.stack import NESTED_MAX_CALLS, STACK_MAX_CALLS, deep, on_a_stack_of_its_own
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
    pair_type,
)
from mrql.algebra.types import DOUBLE, BagType, ListType, TupleType, Type, has_collection
from mrql.algebra.values.exact_sums import total
from mrql.algebra.values.values import Bag, Record, Unread, Value, canonical, parts_of_pair, same

Environment = Mapping[str, Value]

_LONG = (CMap, GroupBy, CoGroup, Reduce, OrderBy, Repeat)
"""Terms whose evaluation takes time in proportion to their collections."""


@deep
def evaluate(term: Term, streams: Mapping[str, Bag] | None = None, env: Environment | None = None) -> Value:
    """The value of a term.

    `streams` gives each data source its contents, `env` each free variable its value.

    Raises: UserError if a function has no value (overflow, division by zero), with the place in the query.
    """
    return Evaluator(streams or {}).value(term, env or {})


class Evaluator:
    """Evaluates terms over the contents of the data sources."""

    def __init__(self, streams: Mapping[str, Bag]) -> None:
        self.streams = streams
        self.level = 0
        """The number of nested calls of the query's functions."""
        self.room = STACK_MAX_CALLS // 10
        """The number of further Python calls for which this stack has room."""
        self.last: dict[int, tuple[Term, list[Value], Value]] = {}
        """By the identity of a term: the term, which is kept so that no other gets the same identity, the values of its
        free variables at its last evaluation, and the result."""

    def value(self, term: Term, env: Environment) -> Value:
        match term:
            case Var(name, _):
                return _given(env[name])
            case Lit(value, _):
                return value
            case Tup(items):
                return tuple(self.value(item, env) for item in items)
            case Rec(fields):
                return Record({name: self.value(item, env) for name, item in fields})
            case Nth(inner, index):
                whole = self.value(inner, env)
                return None if whole is None else _given(whole[index])
            case Get(inner, name):
                whole = self.value(inner, env)
                return None if whole is None else whole[name]
            case Prim():
                return self.prim(term, env)
            case Cast(inner, t):
                return with_place(term, lambda: convert_from(self.value(inner, env), inner.type, t))
            case If(condition, then, otherwise):
                taken = then if self.holds(condition, env) else otherwise
                if isinstance(taken, Prim) and taken.function == ONLY and taken is otherwise:
                    return widened(self.looked_up(taken, term, env), taken.type, term.type)
                return widened(self.value(taken, env), taken.type, term.type)
            case Let(pattern, value, body):
                return self.value(body, {**env, **bind(pattern, self.value(value, env))})
            case _:
                return self.collection(term, env)

    def prim(self, term: Prim, env: Environment) -> Value:
        if term.function in (AND, OR):
            return self.guarded(term, env)
        if isinstance(term.function, Recursive):
            return self.called(term, term.function.definition, env)
        if term.function == COALESCE:
            values = (self.value(arg, env) for arg in term.args)
            return convert(next((value for value in values if value is not None), None), term.type)
        args = [self.value(arg, env) for arg in term.args]
        if term.function == TRACE:
            print_trace(args[0], term.span)
        types = [arg.type for arg in term.args]
        value = with_place(term, lambda: apply(term.function, args, types, term.type))
        if isinstance(value, str | bytes) and len(value) > LARGE_MIN_SIZE:
            with_place(term, make_room)
        return value

    def called(self, term: Prim, definition: Definition, env: Environment) -> Value:
        """The value of a call of a function that calls itself."""
        inner: dict[str, Value] = {}
        for param, arg in zip(definition.params, term.args, strict=True):
            value = self.value(arg, env)
            inner[param.name] = widened(value, arg.type, param.type)
        if self.level == NESTED_MAX_CALLS:
            message = f"`{definition.name}` calls itself too often: {NESTED_MAX_CALLS:,} calls are nested in each other"
            hint = "a comparison with a missing value is false" if any(map(_lacks, inner.values())) else None
            raise UserError(message, term.span, hint)
        level, room = self.level, self.room
        self.level, self.room = level + 1, room - definition.calls
        try:
            if self.room > 0:
                return self.value(definition.term, inner)
            self.room = STACK_MAX_CALLS // 2
            return on_a_stack_of_its_own(lambda: self.value(definition.term, inner))
        finally:
            self.level, self.room = level, room

    def holds(self, condition: Term, env: Environment) -> bool:
        """Whether a condition is true; a missing one is not, and the right side of `and` is not evaluated after it."""
        match condition:
            case Prim(function, (left, right)) if function == AND:
                return self.holds(left, env) and self.holds(right, env)
            case _:
                return bool(self.value(condition, env))

    def looked_up(self, term: Prim, lookup: If, env: Environment) -> Value:
        """`only(…)` within a lookup: its error names the key."""
        values = self.value(term.args[0], env)
        key = key_in_words(lookup) if values is not None and len(values) != 1 else None
        if key is None:
            return with_place(term, lambda: None if values is None else only(values))
        return with_place(term, lambda: only(values, self.value(key, env)))

    def guarded(self, term: Prim, env: Environment) -> Value:
        """The left side of `and` and `or` guards the right one: `x <> 0 and 1/x > 2`."""
        left = self.value(term.args[0], env)
        if left is (term.function == OR):
            return left
        args = [left, self.value(term.args[1], env)]
        return apply(term.function, args, [arg.type for arg in term.args], term.type)

    def collection(self, term: Term, env: Environment) -> Value:
        """The value of a collection, which is evaluated once for all rows if it does not depend on their variables."""
        if not env or not isinstance(term, _LONG):
            return self.computed(term, env)
        given = [env.get(name) for name in free_vars(term)]
        known = self.last.get(id(term))
        if known is not None and all(map(is_, known[1], given)):
            return known[2]
        value = self.computed(term, env)
        self.last[id(term)] = term, given, value
        return value

    def computed(self, term: Term, env: Environment) -> Value:
        match term:
            case Empty(t):
                return Bag() if isinstance(t, BagType) else []
            case Single(item):
                return Bag([self.value(item, env)])
            case ListOf(items):
                return [widened(self.value(item, env), item.type, element_type(term)) for item in items]
            case Union(left, right):
                parts = [widened(self.collected(side, env), side.type, term.type) for side in (left, right)]
                if (size := sum(map(len, parts))) > LARGE_MIN_SIZE:
                    with_place(term, lambda: make_room(size * PLACE_BYTES))
                return parts[0] + parts[1]
            case Stream(name, _):
                return self.streams[name]
            case CMap(Lambda(param, body), source):
                elements = self.elements(source, env)
                made = (z for x in elements for z in self.elements(body, {**env, **bind(param, x)}))
                return Bag(with_room(made, lambda: place_of(term)))
            case GroupBy(source):
                return Bag((k, Bag(group)) for k, group in grouped(self.keyed(source, pair_type(term)[0], env)))
            case CoGroup(left, right):
                key = pair_type(term)[0]
                return co_grouped(self.keyed(left, key, env), self.keyed(right, key, env))
            case Reduce(_, source):
                return self.reduce(term, self.elements(source, env))
            case OrderBy(source, descending):
                return [value for _, value in sort_pairs(self.elements(source, env), descending)]
            case Take(wanted, source):
                n = self.value(wanted, env)
                return self.collected(source, env)[: max(n or 0, 0)]
            case Repeat():
                return self.repeat(term, env)
            case Var() | Lit() | Tup() | Rec() | Nth() | Get() | Prim() | Cast() | If() | Let():
                raise AssertionError("scalar terms are handled above")
            case _:
                assert_never(term)

    def elements(self, term: Term, env: Environment) -> Iterable[Value]:
        """The elements of a collection; a missing collection has none."""
        value = self.value(term, env)
        return () if value is None else value

    def collected(self, term: Term, env: Environment) -> Value:
        """A collection as a whole; a missing one is empty."""
        return _there(self.value(term, env), term.type)

    def keyed(self, term: Term, key: Type, env: Environment) -> Iterable[tuple[Value, Value]]:
        """The pairs of a collection, with their keys widened to the type in which they are compared."""
        own = pair_type(term)[0]
        for pair in with_room(self.elements(term, env), lambda: place_of(term)):
            k, v = parts_of_pair(pair)
            yield widened(k, own, key), v

    def repeat(self, term: Repeat, env: Environment) -> Value:
        """The steps of a loop, one after the other."""
        limit = None if term.limit is None else max(self.value(term.limit, env) or 0, 0)
        value = self.looped(term.source, env)
        for n in count():
            if n == limit:
                return value
            if limit is None and n == term.most:
                raise endless(term)
            before, value = value, self.looped(term.function.body, {**env, **bind(term.function.param, value)})
            if term.condition is None:
                ended = same(value, before)
            else:
                ended = not self.value(term.condition, {**env, **bind(term.function.param, value)})
            if ended:
                return value
        raise AssertionError("counting does not end")

    def looped(self, term: Term, env: Environment) -> Value:
        """A value that a loop carries from step to step; a missing collection is empty."""
        return _carried(self.value(term, env), term.type)

    def reduce(self, term: Reduce, elements: Iterable[Value]) -> Value:
        """`reduce(⊕, {x, y, …}) = z ⊕ u(x) ⊕ u(y) ⊕ …`.

        If the query defines `⊕`, elements are merged in the order of their values, so that an overflow on the way, or a
        rounding, depends on the bag alone, and not on its history.
        """
        m, t = term.monoid, term.type
        if isinstance(m, monoids.Fold):
            elements = sorted(elements, key=canonical)
        if m == monoids.SUM and t == DOUBLE:
            return total(convert_unit(m, x, t) for x in elements)
        carried = (convert_unit(m, x, t) for x in elements)
        whole = fold_left(lambda a, b: MONOID_OPERATIONS.combine(m, a, b), carried, convert_zero(m, t))
        return with_place(term, lambda: convert(whole, t))  # an integer sum may be out of range


def convert_unit(m: monoids.Monoid, element: Value, t: Type) -> Value:
    """The carrier's value for an element: a `long` in sums of ints, a `double` in sums of floats."""
    unit = MONOID_OPERATIONS.unit(m, element)
    return convert(unit, t) if isinstance(m, monoids.Aggregate) else unit


def convert_zero(m: monoids.Monoid, t: Type) -> Value:
    """The zero in the carrier's own type: `0.0` for a sum of doubles."""
    value = MONOID_OPERATIONS.zero(m)
    return convert(value, t) if isinstance(m, monoids.Aggregate) else value


def _given(value: Value) -> Value:
    """The value.  Raises: UserError if it is `Unread`."""
    if isinstance(value, Unread):
        raise value.error
    return value


def _there(value: Value, t: Type) -> Value:
    """A collection, with the empty one in place of a missing one."""
    return (Bag() if isinstance(t, BagType) else []) if value is None else value


def _carried(value: Value, t: Type) -> Value:
    """A value as a loop carries it: missing collections become empty, also in tuples."""
    match t:
        case BagType() | ListType():
            return _there(value, t)
        case TupleType(items) if any(map(has_collection, items)):
            parts = (None,) * len(items) if value is None else value
            return tuple(map(_carried, parts, items))
        case _:
            return value


def bind(pattern: Pattern, value: Value) -> dict[str, Value]:
    """The variables of a pattern, bound to the parts of a value."""
    match pattern:
        case PVar(name, _):
            return {name: value}
        case PTuple(items):
            bindings: dict[str, Value] = {}
            for i, item in enumerate(items):
                bindings |= bind(item, None if value is None else value[i])
            return bindings
        case PAny():
            return {}


MONOID_OPERATIONS = MonoidOperations(
    evaluate, lambda function, value: evaluate(function.body, {}, bind(function.param, value))
)
"""The operations of monoids on values."""


def _lacks(value: Value) -> bool:
    """Whether a value, or a part of it, is missing."""
    match value:
        case tuple():
            return any(map(_lacks, value))
        case Record():
            return any(map(_lacks, value.fields.values()))
        case _:
            return value is None
