"""Terms as text, in the notation of [MRQL] §5, in such a way that the text reads back.

`parse(show(t), streams, variables) == t` for every well-formed term (`parser.parse`). The types of variables are not
written where the reader can derive them: a `λ`'s parameter has the type of the elements that it ranges over, `let`
the type of its value; streams and free variables are given to the reader by name. Where the two differ, as over the
empty collection of `nothing`, the parameter is written with its type.

A name is put between backquotes when it is no plain identifier or is a word of the notation. A stream is written by its
name alone, or as `stream S` where a variable `S` is in scope.

`show` writes one line; `pretty` breaks the same text so that it fits a width.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import TypeAlias, assert_never

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import bound_names, free_vars
from mrql.algebra.notation.document import Doc, Group, Line, Nest, block, filled, render
from mrql.algebra.notation.names import show_name, show_string
from mrql.algebra.notation.type_printer import show_monoid, show_type
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
)
from mrql.algebra.types import Type
from mrql.algebra.values.atom_text import single_digits
from mrql.algebra.values.decimals import literal_type, show_decimal

# How tightly each form binds, loosest first; `term.lark` has the same ladder.
OPEN, OR, AND, NOT, COMPARE, UNION, ADD, MULTIPLY, AS, MINUS, POSTFIX, ATOM = range(12)

# Each infix function: how tightly it binds, and how tightly its left and right operands must bind at least.
_LEFT = {fn.OR: OR, fn.AND: AND, fn.PLUS: ADD, fn.MINUS: ADD}
_LEFT |= dict.fromkeys((fn.TIMES, fn.DIVIDE, fn.MODULO, fn.QUOTIENT), MULTIPLY)
_COMPARISONS = (fn.EQ, fn.NE, fn.LT, fn.LE, fn.GT, fn.GE)
INFIX: dict[str, tuple[int, int, int]] = {f.name: (level, level, level + 1) for f, level in _LEFT.items()}
INFIX |= {f.name: (COMPARE, UNION, UNION) for f in _COMPARISONS}


def show(term: Term) -> str:
    """The term on one line.

    >>> from mrql.algebra.notation.parser import parse
    >>> print(show(parse("reduce(+,cMap(λ(k,s). {(s+1)*2}, (S)))", {"S": ty.BagType(ty.TupleType((ty.INT, ty.INT)))})))
    reduce(+, cMap(λ(k, s). {(s + 1) * 2}, S))
    """
    return render(_Printer().term(term, free_vars(term), OPEN), sys.maxsize, 0)


def pretty(term: Term, width: int = 100, indent: int = 0, types: bool = True) -> str:
    """The term over several lines, each indented by `indent` and at most `width` characters wide where that can be.

    Without `types`, the type after `{}`, `[]` and `null` is left out: easier to read, but it no longer reads back.

    >>> from mrql.algebra.notation.parser import parse
    >>> print(pretty(parse("groupBy(cMap(λx. {(x, 1L)}, S))", {"S": ty.BagType(ty.LONG)}), width=24))
    groupBy(cMap(
      λx. {(x, 1L)},
      S
    ))
    """
    return " " * indent + render(_Printer(types).term(term, free_vars(term), OPEN), width, indent)


def show_pattern(pattern: Pattern, expected: Type | None = None) -> str:
    """A pattern, with the types of its variables where they are not those of `expected`, the type that it meets."""
    return render(_pattern(pattern, expected), sys.maxsize, 0)


def _pattern(pattern: Pattern, expected: Type | None) -> Doc:
    """The layout of a pattern, whose lines are filled where it needs several."""
    match pattern:
        case PVar(name, t):
            return show_name(name) + _unless(t == expected, t)
        case PAny(t):
            return "_" + _unless(t == expected, t)
        case PTuple(items):
            shown = [_pattern(item, t) for item, t in zip(items, _parts(expected, len(items)), strict=True)]
            return filled("(", shown, ",)" if len(shown) == 1 else ")")
        case _:
            assert_never(pattern)


def show_literal(term: Lit, types: bool = True) -> str:
    """A constant: `1` is an int, `1L` a long, `1.0` a double, `1.0f` a float, `1.50m` a decimal, followed by its type
    if that has other digits, `d"2026-01-31"` a date, `t"2026-01-31 10:20:30"` a timestamp, `x"00ff"` two bytes; `null`
    is followed by its type."""
    value, t = term.value, term.type
    if value is None:
        return "null" + (f":{show_type(t)}" if types else "")
    if isinstance(value, str):
        return show_string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return f'{"t" if t == ty.TIMESTAMP else "d"}"{fn.show_atom(value)}"'
    if isinstance(value, bytes):
        return f'x"{value.hex()}"'
    if t == ty.FLOAT:
        return f"{_show_number(float(single_digits(value)) if value and math.isfinite(value) else value)}f"
    if isinstance(value, Decimal):
        return f"{show_decimal(value)}m" + ("" if literal_type(value) == t or not types else f":{show_type(t)}")
    if t == ty.DOUBLE:
        return _show_number(float(value))
    return f"{value}L" if t == ty.LONG else str(value)


def _show_number(x: float) -> str:
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(x), repr(x))


def _unless(derived: bool, t: Type) -> str:
    return "" if derived else f": {show_type(t)}"


def _parts(expected: Type | None, count: int) -> Sequence[Type | None]:
    """The types of the values that the parts of a tuple pattern meet."""
    match expected:
        case ty.TupleType(items) if len(items) == count:
            return items
        case ty.Nothing():
            return (expected,) * count
        case _:
            return (None,) * count


# --- terms --------------------------------------------------------------------------------------

_Names: TypeAlias = frozenset[str]


@attrs.frozen
class _Printer:
    """Turns terms into layouts. `names` are the variables in scope, `level` is how tightly a term must bind."""

    types: bool = True

    def term(self, term: Term, names: _Names, level: int) -> Doc:
        """The layout of a term, in parentheses when it binds more loosely than `level`."""
        own, doc = self.bare(term, names)
        return block("(", [doc], ")") if own < level else doc

    def bare(self, term: Term, names: _Names) -> tuple[int, Doc]:
        """How tightly a term binds, and its layout without parentheses."""
        match term:
            case Var(name, _):
                return ATOM, show_name(name)
            case Lit():
                text = show_literal(term, self.types)
                return (MINUS if text.startswith("-") else ATOM), text
            case Tup(items):
                return ATOM, block("(", self.all(items, names), ",)" if len(items) == 1 else ")")
            case Rec(fields):
                # A field ends at `>`, so that a comparison in it must stand in parentheses.
                shown = [(f"{show_name(name)}: ", self.term(e, names, UNION)) for name, e in fields]
                return ATOM, block("<", shown, ">")
            case Nth(inner, index):
                return POSTFIX, (self.term(inner, names, POSTFIX), f"#{index}")
            case Get(inner, name):
                return POSTFIX, (self.term(inner, names, POSTFIX), f".{show_name(name)}")
            case Cast(inner, t):
                return AS, (self.term(inner, names, AS), f" as {show_type(t)}")
            case Prim():
                return self.prim(term, names)
            case If(condition, then, otherwise):
                test, yes, no = self.all((condition, then, otherwise), names)
                return OPEN, Group(("if ", test, Nest((Line(), "then ", yes, Line(), "else ", no))))
            case Let():
                return OPEN, self.let(term, names)
            case _:
                return self.collection(term, names)

    def collection(self, term: Term, names: _Names) -> tuple[int, Doc]:
        match term:
            case Empty(t):
                brackets = "{}" if isinstance(t, ty.BagType) else "[]"
                return ATOM, brackets + (f":{show_type(t)}" if self.types else "")
            case Single(item):
                return ATOM, self.around("{", item, "}", names)
            case ListOf(items):
                return ATOM, block("[", self.all(items, names), "]")
            case Union():
                return UNION, self.union(term, names)
            case Stream(name, _):
                return ATOM, f"stream {show_name(name)}" if name in names else show_name(name)
            case CMap(function, source):
                shown = self.function(function, _element_type(source), names)
                return ATOM, block("cMap(", [shown, self.term(source, names, OPEN)], ")")
            case GroupBy(source):
                return ATOM, self.around("groupBy(", source, ")", names)
            case CoGroup(left, right):
                return ATOM, block("coGroup(", self.all((left, right), names), ")")
            case Reduce(monoid, source):
                return ATOM, self.around(f"reduce({show_monoid(monoid)}, ", source, ")", names)
            case OrderBy(source, descending):
                flags = ", ".join("desc" if down else "asc" for down in descending)
                return ATOM, self.around("orderBy(", source, f"; {flags})" if flags else ")", names)
            case Take(count, source):
                return ATOM, block("take(", self.all((count, source), names), ")")
            case Repeat():
                return ATOM, self.repeat(term, names)
            case Var() | Lit() | Tup() | Rec() | Nth() | Get() | Prim() | Cast() | If() | Let():
                raise AssertionError("scalar terms are handled above")
            case _:
                assert_never(term)

    def all(self, terms: Iterable[Term], names: _Names) -> list[Doc]:
        """Terms in places that are delimited on both sides."""
        return [self.term(term, names, OPEN) for term in terms]

    def around(self, opening: str, term: Term, closing: str, names: _Names) -> Doc:
        """One term between brackets; brackets of its own open on the same line."""
        doc = self.term(term, names, OPEN)
        return (opening, doc, closing) if _bracketed(term) else block(opening, [doc], closing)

    def after(self, head: Doc, term: Term, names: _Names) -> Doc:
        """One term after `λx.` or `let x =`, on a line of its own unless it fits or begins with a bracket."""
        doc = self.term(term, names, OPEN)
        return (head, " ", doc) if _bracketed(term) else Group((head, Nest((Line(), doc))))

    def prim(self, term: Prim, names: _Names) -> tuple[int, Doc]:
        name, args = term.function.name, term.args
        if name in INFIX and len(args) == 2:
            return INFIX[name][0], self.infix(term, names)
        if term.function == fn.NOT and len(args) == 1:
            return NOT, ("not ", self.term(args[0], names, NOT))
        if term.function == fn.NEGATE and len(args) == 1:
            # `-1` is a literal: the negation of the literal 1 is `-(1)`.
            literal = isinstance(args[0], Lit)
            return MINUS, ("-", self.term(args[0], names, ATOM + 1 if literal else MINUS))
        return ATOM, block(f"{show_name(name)}(", self.all(args, names), ")")

    def infix(self, term: Prim, names: _Names) -> Doc:
        """A chain of operators that bind equally, one to a line when it is broken."""
        level, left, right = INFIX[term.function.name]
        rest: list[tuple[str, Term]] = []
        first: Term = term
        while isinstance(first, Prim) and len(first.args) == 2 and _level(first) == level:
            rest.append((first.function.name, first.args[1]))
            first = first.args[0]
            if left > level:
                break  # comparisons do not chain
        return self.chain(self.term(first, names, left), rest, names, right)

    def union(self, term: Union, names: _Names) -> Doc:
        rest: list[tuple[str, Term]] = []
        first: Term = term
        while isinstance(first, Union):
            rest.append(("++" if isinstance(_type(first), ty.ListType) else "⊎", first.right))
            first = first.left
        return self.chain(self.term(first, names, UNION), rest, names, ADD)

    def chain(self, first: Doc, rest: Sequence[tuple[str, Term]], names: _Names, level: int) -> Doc:
        parts: list[Doc] = []
        for operator, term in reversed(rest):
            parts += [Line(), f"{operator} ", self.term(term, names, level)]
        return Group((first, Nest(tuple(parts))))

    def function(self, function: Lambda, argument: Type | None, names: _Names) -> Doc:
        head = ("λ", _pattern(function.param, argument), ".")
        return self.after(head, function.body, names | bound_names(function.param))

    def repeat(self, term: Repeat, names: _Names) -> Doc:
        function = self.function(term.function, _type(term.source), names)
        if term.condition is not None:
            condition = self.term(term.condition, names | bound_names(term.function.param), OPEN)
            function = Group((function, Nest((Line(), "while ", condition))))
        limit = f"within {term.most}" if term.limit is None else self.term(term.limit, names, OPEN)
        return block("repeat(", [function, limit, self.term(term.source, names, OPEN)], ")")

    def let(self, term: Let, names: _Names) -> Doc:
        head = ("let ", _pattern(term.pattern, _type(term.value)), " =")
        body = self.term(term.body, names | bound_names(term.pattern), OPEN)
        return Group((self.after(head, term.value, names), " in", Line(), body))


def _bracketed(term: Term) -> bool:
    """Whether the text of a term ends with the bracket that it opens on its first line."""
    return isinstance(term, Tup | Rec | Single | ListOf | CMap | GroupBy | CoGroup | Reduce | OrderBy | Take | Repeat)


def _level(term: Prim) -> int | None:
    found = INFIX.get(term.function.name)
    return None if found is None else found[0]


def _type(term: Term) -> Type | None:
    """The type of a term, or None where it has none: ill-typed terms are shown too, in error messages."""
    try:
        return term.type
    except IllTyped:
        return None


def _element_type(term: Term) -> Type | None:
    match _type(term):
        case ty.BagType(item) | ty.ListType(item):
            return item
        case _:
            return None
