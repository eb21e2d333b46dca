"""`xpath(…)` in a source: paths from a row to parts of it.

    path       step ('/' step)*
    step       '.' | '*' | name | '@' name | '@*' | 'text()'      each with predicates behind it
    predicate  '[' condition ']'
    condition  condition 'or' condition | condition 'and' condition | 'not(' condition ')' | '(' condition ')'
               | path | path comparison constant | position

That is the part of XPath 1.0 that goes down from an element, with its abbreviations. A path is translated into the
functions on elements that the language has, so that it means the same in both engines. As in XPath, a comparison holds
when it holds for one of the nodes: their texts are compared with a string, or as numbers with a number. A condition
that is a path holds when the path selects a node. A position counts from 1 among the nodes that a step selects below
one element, and is its first predicate.
"""

from __future__ import annotations

import re
from typing import NoReturn

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, CMap, Empty, If, Lambda, ListOf, Lit, Prim, PVar, Single, Term, Var, element_type
from mrql.translate.quantifiers import exists, is_some

_TOKEN = re.compile(
    r"\s*(?:(?P<name>text\s*\(\s*\)|@?[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?|@\*|\*|\.\.|\.)|(?P<string>\"[^\"]*\"|'[^']*')"
    r"|(?P<number>-?\d+(?:\.\d+)?)|(?P<sign>!=|<=|>=|//|[=<>/\[\]()]))"
)
_COMPARISONS: dict[str, Function] = {"=": fn.EQ, "!=": fn.NE, "<": fn.LT, "<=": fn.LE, ">": fn.GT, ">=": fn.GE}
ONE = Single(Lit(1, ty.LONG))


def follow(path: str, row: Term, names: Names, span: Span) -> Term:
    """The nodes that a path selects from an element: a collection of elements, or of strings.

    Raises: UserError where the path is not one of those above.
    """
    reader = _PathReader(path, names, span)
    found = reader.path(row)
    if reader.at < len(reader.tokens):
        reader.refuse()
    return found


class _PathReader:
    def __init__(self, path: str, names: Names, span: Span) -> None:
        self.written = path
        self.names = names
        self.span = span
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        place = 0
        while path[place:].strip():
            token = _TOKEN.match(path, place)
            if token is None:
                self.refuse(path[place:].strip()[0])
            self.tokens.append((str(token.lastgroup), token[str(token.lastgroup)]))
            place = token.end()
        self.tokens = [(kind, re.sub(r"\s", "", text) if kind == "name" else text) for kind, text in self.tokens]

    def refuse(self, what: str | None = None) -> NoReturn:
        found = what or (self.tokens[self.at][1] if self.at < len(self.tokens) else None)
        where = f"`{found}` is not expected here" if found else "something is missing at the end"
        hint = "steps down (a/b, *, .), @a, text() and conditions in brackets are read"
        raise UserError(f"xpath({self.written}): {where}", self.span, hint)

    def next_is(self, *texts: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][1] in texts and self.tokens[self.at][0] != "string"

    def take(self, *texts: str) -> str | None:
        if not self.next_is(*texts):
            return None
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expect(self, text: str) -> None:
        if self.take(text) is None:
            self.refuse()

    # --- paths --------------------------------------------------------------------------------

    def path(self, start: Term) -> Term:
        """The nodes that the path selects from an element, as a collection."""
        found = self.step(start)
        while self.take("/"):
            if element_type(found) != ty.XML:
                self.refuse()  # nothing is below a text
            x = PVar(self.names.fresh("x"), ty.XML)
            found = CMap(Lambda(x, self.step(Var(x.name, ty.XML))), found)
        return found

    def step(self, node: Term) -> Term:
        found = self.below(node)
        if self.next_is("[") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][0] == "number":
            self.at += 1
            place = Lit(self.position() - 1, ty.LONG)
            found = Prim(fn.SLICE, (found, place, place), span=self.span)
            self.expect("]")
        while self.take("["):
            x = PVar(self.names.fresh("x"), element_type(found))
            one = Single(Var(x.name, x.type))
            found = CMap(Lambda(x, If(self.either(Var(x.name, x.type)), one, Empty(one.type))), found)
            self.expect("]")
        return found

    def position(self) -> int:
        number = self.tokens[self.at][1]
        if not number.isdigit() or number == "0":
            self.refuse()
        self.at += 1
        return int(number)

    def below(self, node: Term) -> Term:
        """The nodes that a step selects, without its predicates, as a list."""
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name" or self.next_is(".."):
            self.refuse()
        if node.type != ty.XML and not self.next_is("."):
            self.refuse()
        self.at += 1
        match self.tokens[self.at - 1][1]:
            case ".":
                return ListOf((node,))
            case "*":
                return Prim(fn.ALL_CHILDREN, (node,), span=self.span)
            case "@*":
                return Prim(fn.ATTRIBUTES, (node,), span=self.span)
            case "text()":
                return ListOf((Prim(fn.TEXT, (node,), span=self.span),))
            case name if name.startswith("@"):
                return Prim(fn.ATTRIBUTE, (ListOf((node,)), Lit(name[1:], ty.STRING)), span=self.span)
            case tag:
                return Prim(fn.CHILDREN, (node, Lit(tag, ty.STRING)), span=self.span)

    # --- conditions ---------------------------------------------------------------------------

    def either(self, node: Term) -> Term:
        condition = self.both(node)
        while self.take("or"):
            condition = Prim(fn.OR, (condition, self.both(node)))
        return condition

    def both(self, node: Term) -> Term:
        condition = self.one(node)
        while self.take("and"):
            condition = Prim(fn.AND, (condition, self.one(node)))
        return condition

    def one(self, node: Term) -> Term:
        bracketed = self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][1] == "("
        if self.next_is("(") or (self.next_is("not") and bracketed):
            negated = self.take("not") is not None
            self.expect("(")
            condition = self.either(node)
            self.expect(")")
            return Prim(fn.NOT, (condition,)) if negated else condition
        found = self.path(node)
        sign = self.take(*_COMPARISONS)
        if sign is None:
            return exists(found, self.names, self.span)
        return self.compared(found, _COMPARISONS[sign])

    def compared(self, found: Term, function: Function) -> Term:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] not in ("string", "number"):
            self.refuse()
        kind, written = self.tokens[self.at]
        self.at += 1
        x = PVar(self.names.fresh("x"), element_type(found))
        value: Term = Var(x.name, x.type)
        text = Prim(fn.TEXT, (value,), span=self.span) if x.type == ty.XML else value
        if kind == "string":
            condition = Prim(function, (text, Lit(written[1:-1], ty.STRING)))
        else:
            condition = Prim(function, (Cast(text, ty.DOUBLE, span=self.span), Lit(float(written), ty.DOUBLE)))
        return is_some(CMap(Lambda(x, If(condition, ONE, Empty(ONE.type))), found), self.span)
