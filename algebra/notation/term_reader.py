"""From trees to terms, types and monoids, each with its place in the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import reduce
from typing import TypeAlias, TypeVar

import attrs
from lark import Token

from mrql.algebra import functions as fn
from mrql.algebra import monoids
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import pattern_vars
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.monoids import Monoid
from mrql.algebra.notation.trees import Node, name_in, place_of, subtree, subtrees, token_in, tokens_in
from mrql.algebra.span import Source, Span
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    IllTyped,
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
from mrql.algebra.values.decimals import exactly, literal_type, opposite, show_decimal

Scope: TypeAlias = Mapping[str, Type]
T = TypeVar("T")

_BASIC_TYPES: dict[str, Type] = {"nothing": ty.NOTHING, **ty.BASIC}
_MONOIDS: dict[str, Monoid] = {"⊎": monoids.BAG, "++": monoids.LIST, "□": monoids.INVARIANT}
_PAIRED: dict[str, Callable[[Term, Term], Term]] = {"union": Union, "co_group": CoGroup, "take": Take}


@attrs.frozen
class TermReader:
    """Turns trees into terms, from the outside in, since a variable has the type that its binder gives it."""

    source: Source
    streams: Mapping[str, Type | Stream]
    functions: Mapping[str, Function]
    folds: Mapping[str, monoids.Fold] = attrs.Factory(dict)

    def term(self, tree: Node, scope: Scope) -> Term:
        """The term of a tree.  Raises: UserError if it has no type."""
        if tree.data == "parentheses":
            return self.term(subtree(tree, 0), scope)
        term = attrs.evolve(self.build(tree, scope), span=self.span(tree))
        self.typed(lambda: term.type, tree)
        return term

    def build(self, tree: Node, scope: Scope) -> Term:
        match tree.data:
            case "let" | "conditional" | "infix" | "negation" | "minus" | "cast" | "nth" | "get" | "call":
                return self.operation(tree, scope)
            case "name":
                return self.name(name_in(tree), scope, tree)
            case "stream":
                return self.stream(name_in(tree), tree)
            case "tuple":
                return Tup(self.terms(tree, scope))
            case "record":
                fields = subtrees(tree)
                return Rec(tuple((name_in(field), self.term(subtree(field, 0), scope)) for field in fields))
            case "number" | "decimal" | "string" | "time" | "bytes" | "boolean" | "null":
                return self.literal(tree)
            case _:
                return self.collection(tree, scope)

    def operation(self, tree: Node, scope: Scope) -> Term:
        match tree.data:
            case "let":
                pattern_tree, value_tree, body_tree = subtrees(tree)
                value = self.term(value_tree, scope)
                pattern = self.pattern(pattern_tree, value.type)
                return Let(pattern, value, self.term(body_tree, _extend(scope, pattern)))
            case "conditional":
                condition, then, otherwise = self.terms(tree, scope)
                return If(condition, then, otherwise)
            case "infix":
                left, right = self.terms(tree, scope)
                return Prim(fn.FUNCTIONS[token_in(tree).value], (left, right))
            case "negation":
                return Prim(fn.NOT, self.terms(tree, scope))
            case "minus":
                return self.minus(tree, scope)
            case "cast":
                inner, t = subtrees(tree)
                return Cast(self.term(inner, scope), self.type(t))
            case "nth":
                return Nth(self.term(subtree(tree, 0), scope), int(token_in(tree)[1:]))
            case "get":
                return Get(self.term(subtree(tree, 0), scope), name_in(tree))
            case _:
                return Prim(self.function(tree), self.terms(tree, scope))

    def collection(self, tree: Node, scope: Scope) -> Term:
        match tree.data:
            case "empty_bag":
                return self.empty(tree, ty.BagType(ty.NOTHING))
            case "empty_list":
                return self.empty(tree, ty.ListType(ty.NOTHING))
            case "bag":
                return _bag(self.terms(tree, scope))
            case "list":
                return ListOf(self.terms(tree, scope))
            case "union" | "co_group" | "take":
                left, right = self.terms(tree, scope)
                return _PAIRED[tree.data](left, right)
            case "cmap":
                return self.cmap(tree, scope)
            case "group_by":
                return GroupBy(self.term(subtree(tree, 0), scope))
            case "reduce":
                monoid, source = subtrees(tree)
                return Reduce(self.monoid(monoid), self.term(source, scope))
            case "order_by":
                source, *directions = subtrees(tree)
                return OrderBy(self.term(source, scope), tuple(token_in(d).type == "DESC" for d in directions))
            case "repeat":
                return self.repeat(tree, scope)
            case other:
                raise AssertionError(f"the grammar has no {other}")

    def terms(self, tree: Node, scope: Scope) -> tuple[Term, ...]:
        return tuple(self.term(child, scope) for child in subtrees(tree))

    def cmap(self, tree: Node, scope: Scope) -> Term:
        pattern_tree, body_tree, source_tree = subtrees(tree)
        source = self.term(source_tree, scope)
        pattern = self.pattern(pattern_tree, self.typed(lambda: element_type(source), source_tree))
        return CMap(Lambda(pattern, self.term(body_tree, _extend(scope, pattern))), source)

    def repeat(self, tree: Node, scope: Scope) -> Term:
        pattern_tree, body_tree, *condition_tree, limit_tree, source_tree = subtrees(tree)
        source = self.term(source_tree, scope)
        pattern = self.pattern(pattern_tree, source.type)
        inner = _extend(scope, pattern)
        function = Lambda(pattern, self.term(body_tree, inner))
        condition = self.term(subtree(condition_tree[0], 0), inner) if condition_tree else None
        if limit_tree.data == "within":
            most = next(token for token in tokens_in(limit_tree) if token.type == "NUMBER")
            return Repeat(function, source, None, condition, int(most))
        return Repeat(function, source, self.term(subtree(limit_tree, 0), scope), condition)

    def name(self, name: str, scope: Scope, tree: Node) -> Term:
        if name in scope:
            return Var(name, scope[name])
        return self.stream(name, tree, scope)

    def stream(self, name: str, tree: Node, scope: Scope | None = None) -> Term:
        found = self.streams.get(name)
        if found is None:
            known = ", ".join(sorted({*self.streams, *(scope or {})}))
            kind = "stream" if scope is None else "variable or stream"
            raise self.error(f"there is no {kind} {name}", tree, f"known are {known}" if known else None)
        return found if isinstance(found, Stream) else Stream(name, found)

    def function(self, tree: Node) -> Function:
        name = name_in(tree)
        if name not in self.functions:
            raise self.error(f"there is no function {name}", tree)
        return self.functions[name]

    def minus(self, tree: Node, scope: Scope) -> Term:
        """`-1` is a literal, `-x` and `-(1)` are negations."""
        operand = subtree(tree, 0)
        if operand.data not in ("number", "decimal"):
            return Prim(fn.NEGATE, (self.term(operand, scope),))
        literal = self.literal(operand)
        return Lit(opposite(literal.value), literal.type)

    def literal(self, tree: Node) -> Lit:
        match tree.data:
            case "number":
                return _number(token_in(tree))
            case "decimal":
                return self.decimal(tree)
            case "string":
                return Lit(self.text(token_in(tree)), ty.STRING)
            case "time":
                return self.time(tree)
            case "bytes":
                return self.bytes(tree)
            case "boolean":
                return Lit(token_in(tree).type == "TRUE", ty.BOOL)
            case _:
                return Lit(None, self.annotation(tree, ty.NOTHING))

    def decimal(self, tree: Node) -> Lit:
        value = Decimal(token_in(tree)[:-1])
        t = self.annotation(tree, literal_type(value) or ty.NOTHING)
        if not isinstance(t, ty.DecimalType) or (held := exactly(value, t)) is None:
            raise self.error(f"{show_decimal(value)} is not a value of type {t}", tree)
        return Lit(held, t)

    def time(self, tree: Node) -> Lit:
        token = token_in(tree)
        t = ty.DATE if token.startswith("d") else ty.TIMESTAMP
        try:
            return Lit(fn.convert(token[2:-1], t), t)
        except fn.EvaluationError as error:
            raise self.error(str(error), tree) from None

    def bytes(self, tree: Node) -> Lit:
        digits = token_in(tree)[2:-1]
        try:
            return Lit(bytes.fromhex(digits), ty.BYTES)
        except ValueError:
            raise self.error(f'"{digits}" has no two hexadecimal digits for each byte', tree) from None

    def text(self, token: Token) -> str:
        try:
            return str(json.loads(token, strict=False))
        except json.JSONDecodeError as error:
            raise UserError(f"in a string: {error.msg}", place_of(self.source, token)) from None

    def empty(self, tree: Node, unannotated: Type) -> Term:
        t = self.annotation(tree, unannotated)
        if type(t) is not type(unannotated):
            raise self.error(f"an empty collection cannot have type {t}", tree)
        return Empty(t)

    def annotation(self, tree: Node, unannotated: Type) -> Type:
        types = subtrees(tree)
        return self.type(types[0]) if types else unannotated

    def pattern(self, tree: Node, met: Type) -> Pattern:
        """A pattern that meets values of type `met`."""
        if tree.data == "variable_pattern":
            t = self.annotation(tree, met)
            return PAny(t) if token_in(tree) == "_" else PVar(name_in(tree), t)
        items = subtrees(tree)
        match met:
            case ty.TupleType(types) if len(types) == len(items):
                return PTuple(tuple(self.pattern(item, t) for item, t in zip(items, types, strict=True)))
            case ty.Nothing():
                return PTuple(tuple(self.pattern(item, met) for item in items))
            case _:
                raise self.error(f"a pattern of {len(items)} parts meets a value of type {met}", tree)

    def type(self, tree: Node) -> Type:
        match tree.data:
            case "basic_type":
                name = name_in(tree)
                if name not in _BASIC_TYPES:
                    raise self.error(f"there is no type {name}", tree, f"basic types are {', '.join(_BASIC_TYPES)}")
                return _BASIC_TYPES[name]
            case "decimal_type":
                return self.decimal_type(tree)
            case "bag_type":
                return ty.BagType(self.type(subtree(tree, 0)))
            case "list_type":
                return ty.ListType(self.type(subtree(tree, 0)))
            case "tuple_type":
                return ty.TupleType(tuple(map(self.type, subtrees(tree))))
            case _:
                fields = [field for field in subtrees(tree) if field.data == "type_field"]
                others = [field for field in subtrees(tree) if field.data == "left_out"]
                return ty.RecordType(
                    tuple((name_in(field), self.type(subtree(field, 0))) for field in fields),
                    left_out=tuple(map(self.left_out, others)),
                )

    def left_out(self, tree: Node) -> tuple[str, str]:
        """The name of a field that a record leaves out, and the name of its type."""
        _, called = tokens_in(tree)
        return name_in(tree), self.text(called)

    def decimal_type(self, tree: Node) -> Type:
        name, precision, scale = tokens_in(tree)
        if name != "decimal" or not (precision.isdigit() and scale.isdigit()):
            raise self.error(f"there is no type {name}({precision}, {scale})", tree, "decimal(12, 2) is one")
        try:
            return ty.DecimalType(int(precision), int(scale))
        except ValueError as error:
            raise self.error(str(error), tree) from None

    def monoid(self, tree: Node) -> Monoid:
        match tree.data:
            case "basic_monoid":
                return _signed(token_in(tree))
            case "named_monoid":
                if token_in(tree) in monoids.OPS:
                    return _signed(token_in(tree))
                name = name_in(tree)
                if name not in self.folds:
                    raise self.error(f"there is no monoid {name}", tree)
                return self.folds[name]
            case "keyed_monoid":
                return monoids.Keyed(self.monoid(subtree(tree, 0)))
            case _:
                return monoids.ProductMonoid(tuple(map(self.monoid, subtrees(tree))))

    def typed(self, compute: Callable[[], T], tree: Node) -> T:
        try:
            return compute()
        except IllTyped as error:
            raise self.error(f"ill-typed: {error}", tree) from None

    def error(self, message: str, tree: Node, hint: str | None = None) -> UserError:
        return UserError(message, self.span(tree), hint)

    def span(self, tree: Node) -> Span:
        return Span(self.source, tree.meta.start_pos, tree.meta.end_pos)


def _number(token: Token) -> Lit:
    """`1` is an int, `1L` a long, `1.0f` a float, `1.0`, `1e3`, `NaN` and `Infinity` are doubles."""
    digits = token.rstrip("Lf")
    if token.endswith("f"):
        return Lit(fn.single_from_text(digits), ty.FLOAT)
    if not digits.isdigit():
        return Lit(float(digits), ty.DOUBLE)
    return Lit(int(digits), ty.LONG if token.endswith("L") else ty.INT)


def _signed(sign: str) -> Monoid:
    return monoids.Aggregate(monoids.OPS[sign]) if sign in monoids.OPS else _MONOIDS[sign]


def _bag(items: Iterable[Term]) -> Term:
    """`{a, b, c}`, which is `{a} ⊎ {b} ⊎ {c}`."""
    singles: Iterable[Term] = (Single(item, span=item.span) for item in items)
    return reduce(Union, singles)


def _extend(scope: Scope, pattern: Pattern) -> Scope:
    return {**scope, **{variable.name: variable.type for variable in pattern_vars(pattern)}}
