"""From text to syntax tree.

`grammar.lark` says what the language is. What a context-free grammar cannot say well is here, in this order: which
`>` and which `in` close something (`BracketFilter`), how tightly operators bind (`BINARY`), what the tree looks like
(`TreeBuilder`), what stands between `[xml|` and `|]` (`XmlReader`), and how to tell a person what is wrong
(`explain_token`). Nothing here recurses along the text, so no text is too deep to be refused politely.
"""

from __future__ import annotations

import difflib
import functools
import html
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, NoReturn

import attrs
from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError
from lark.lark import PostLex
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive, v_args

from mrql import syntax as s
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span

# The passes after this one recurse along the tree, and Python's stack bears some thousand calls.
MAX_DEPTH = 200


def parse_program(text: str, name: str = "<query>") -> s.Program:
    """The tree of a whole text; `name` is what errors call the text."""
    source = Source(name, text)
    program = _parse("program", source, 0, len(text))
    assert isinstance(program, s.Program)
    return program


def parse_expression(text: str, name: str = "<query>") -> s.Expr:
    """The tree of a text that is one expression."""
    expr: s.Expr = _parse("expr", Source(name, text), 0, len(text))
    return expr


def parse_type(text: str, name: str = "<query>") -> s.TypeExpr:
    """The tree of a text that is one type."""
    type_: s.TypeExpr = _parse("type", Source(name, text), 0, len(text))
    return type_


def _parse(start: str, source: Source, begin: int, end: int) -> Any:
    """Parse a part of a source; all places are places in the whole source."""
    text = source.text[begin:end]
    try:
        tree = _lark().parse(text, start=start)
    except UnexpectedToken as error:
        raise explain_token(error, source, begin, end) from None
    except UnexpectedCharacters as error:
        raise explain_character(source, begin + (error.pos_in_stream or 0)) from None
    try:
        node = TreeBuilder(source, begin).transform(tree)
    except VisitError as error:
        if isinstance(error.orig_exc, UserError):
            raise error.orig_exc from None
        raise
    check_depth(node)
    return node


@functools.cache
def _lark() -> Lark:
    grammar = resources.files("mrql").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["program", "expr", "type"],
        postlex=BracketFilter(),
        propagate_positions=True,
    )


def check_depth(node: s.Node) -> None:
    """Refuse a tree that is too deep for the passes to come."""
    level = [node]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in s.children(parent)]
        if not level:
            return
    raise UserError(
        f"nested too deeply: more than {MAX_DEPTH} levels",
        level[0].span,
        "give a name to a part of it: `x = …;`",
    )


# --- tokens -----------------------------------------------------------------------------------------------------------

CLOSES = {"_RPAR": "_LPAR", "_RBRACE": "_LBRACE", "_RBRACKET": "_LBRACKET", "_THEN": "_IF", "_ELSE": "_THEN"}
OPENS = {"_LPAR", "_LBRACE", "_LBRACKET", "_RECORD_START", "_IF", "_THEN", "_LET"}
WORDS = {"_IF", "_THEN", "_LET"}

# Words that never name a value. The lexer knows only which words the grammar could use at a place, and would take any
# other word for a name; then `select from x in X` would be told off for its `x`.
RESERVED = {
    "and": "OPERATOR",
    "as": "_AS",
    "case": "_CASE",
    "else": "_ELSE",
    "except": "SET_OPERATOR",
    "from": "_FROM",
    "having": "_HAVING",
    "if": "_IF",
    "in": "IN",
    "incr": "_INCR",
    "intersect": "SET_OPERATOR",
    "let": "_LET",
    "mod": "OPERATOR",
    "not": "PREFIX",
    "or": "OPERATOR",
    "repeat": "_REPEAT",
    "select": "_SELECT",
    "then": "_THEN",
    "union": "SET_OPERATOR",
    "where": "_WHERE",
}


class BracketFilter(PostLex):
    """Follows the open brackets, and says which `>` ends a record, which `in` a let, and which names are reserved.

    `if … then` and `then … else` are brackets, too: nothing around them can end between them.
    """

    # A type has no place for a comparison, but its record may end there.
    always_accept = ("GT",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        opened: list[str] = []
        previous = ""
        for token in stream:
            innermost = opened[-1] if opened else ""
            if token.type == "GT" and innermost == "_RECORD_START":
                token.type = "_RECORD_END"
                opened.pop()
            elif token.type == "IN" and innermost == "_LET":
                token.type = "_LET_IN"
                opened.pop()
            elif token.type == "NAME" and not _names_a_field(previous, innermost):
                token.type = RESERVED.get(token.lower(), "NAME")
            if token.type in CLOSES:
                _close(opened, CLOSES[token.type])
            if token.type in OPENS:
                opened.append(token.type)
            previous = token.type
            yield token


def _close(opened: list[str], bracket: str) -> None:
    # Where brackets do not match, the parser will say so; all that matters here is to stay in step until then.
    while bracket not in WORDS and opened and opened[-1] in WORDS:
        opened.pop()
    if opened and opened[-1] == bracket:
        opened.pop()


def _names_a_field(previous: str, innermost: str) -> bool:
    return previous in {"_DOT", "_AT", "_RECORD_START"} or (previous == "_COMMA" and innermost == "_RECORD_START")


# --- operators --------------------------------------------------------------------------------------------------------


@attrs.frozen
class Binding:
    """How tightly an operator binds (a greater `level` binds tighter), and whether `a op b op c` means anything."""

    level: int
    chains: bool = True


BINARY: dict[str, tuple[Binding, s.BinaryOp]] = {
    spelling: (binding, op)
    for binding, operators in (
        (Binding(1), {"or": s.BinaryOp.OR}),
        (Binding(2), {"and": s.BinaryOp.AND}),
        # Level 3 is `not`.
        (
            Binding(4, chains=False),
            {
                "=": s.BinaryOp.EQUAL,
                "<>": s.BinaryOp.NOT_EQUAL,
                "!=": s.BinaryOp.NOT_EQUAL,
                "<": s.BinaryOp.LESS,
                "<=": s.BinaryOp.LESS_EQUAL,
                ">": s.BinaryOp.GREATER,
                ">=": s.BinaryOp.GREATER_EQUAL,
                "in": s.BinaryOp.IN,
                "not in": s.BinaryOp.IN,
            },
        ),
        (
            Binding(5),
            {"union": s.BinaryOp.UNION, "intersect": s.BinaryOp.INTERSECT, "except": s.BinaryOp.EXCEPT},
        ),
        # Level 6 are the ranges.
        (Binding(7), {"+": s.BinaryOp.ADD, "-": s.BinaryOp.SUBTRACT}),
        (
            Binding(8),
            {"*": s.BinaryOp.MULTIPLY, "/": s.BinaryOp.DIVIDE, "%": s.BinaryOp.MOD, "mod": s.BinaryOp.MOD},
        ),
    )
    for spelling, op in operators.items()
}
RANGES = dict.fromkeys(("..", "..."), Binding(6, chains=False))
PREFIX = {"not": Binding(3), "-": Binding(9), "+": Binding(9), "exists": Binding(9)}


@attrs.frozen
class Operator:
    """An operator that waits for its right operand."""

    token: Token
    spelling: str
    binding: Binding
    prefix: bool


class Chain:
    """Puts a flat row of operands and operators together, by precedence (Dijkstra's two stacks)."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source = source
        self._offset = offset
        self._operands: list[s.Expr] = []
        self._operators: list[Operator] = []

    def build(self, items: Iterable[Any]) -> s.Expr:
        after_operand = False
        for item in items:
            if isinstance(item, Token):
                self._push(item, prefix=not after_operand)
                after_operand = False
            else:
                self._operands.append(item)
                after_operand = True
        while self._operators:
            self._apply(self._operators.pop())
        (result,) = self._operands
        return result

    def _push(self, token: Token, prefix: bool) -> None:
        spelling = " ".join(token.lower().split())
        if prefix:
            self._operators.append(Operator(token, spelling, PREFIX[spelling], prefix=True))
            return
        binding = RANGES.get(spelling) or BINARY[spelling][0]
        while self._operators and self._operators[-1].binding.level >= binding.level:
            if self._operators[-1].binding == binding and not binding.chains:
                self._refuse_chain(token)
            self._apply(self._operators.pop())
        self._operators.append(Operator(token, spelling, binding, prefix=False))

    def _refuse_chain(self, token: Token) -> NoReturn:
        if token in RANGES:
            raise UserError("ranges do not chain", self._span(token))
        raise UserError("comparisons do not chain", self._span(token), "write `a < b and b < c`, or use round brackets")

    def _apply(self, operator: Operator) -> None:
        right = self._operands.pop()
        if operator.prefix:
            self._operands.append(self._prefixed(operator, right))
            return
        left = self._operands.pop()
        self._operands.append(self._joined(operator, left, right, left.span.to(right.span)))

    def _prefixed(self, operator: Operator, operand: s.Expr) -> s.Expr:
        span = self._span(operator.token).to(operand.span)
        match operator.spelling:
            case "not":
                return s.Unary(s.UnaryOp.NOT, operand, span)
            case "-":
                return s.Unary(s.UnaryOp.NEGATE, operand, span)
            case "exists":
                return s.Call("exists", (operand,), span)
            case _:
                return operand

    def _joined(self, operator: Operator, left: s.Expr, right: s.Expr, span: Span) -> s.Expr:
        if operator.spelling in RANGES:
            return s.RangeExpr(left, right, operator.spelling == "...", span)
        joined = s.Binary(BINARY[operator.spelling][1], left, right, span)
        return s.Unary(s.UnaryOp.NOT, joined, span) if operator.spelling == "not in" else joined

    def _span(self, token: Token) -> Span:
        return _span_between(self._source, self._offset, token.start_pos, token.end_pos)


# --- the tree ---------------------------------------------------------------------------------------------------------

OPTIONS = {"header"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
# Python refuses to read longer integers; none of them is a value of the language anyway.
_MAX_DIGITS = 400


def _span_between(source: Source, offset: int, start: int | None, end: int | None) -> Span:
    return Span(source, offset + (start or 0), offset + (end or 0))


@v_args(meta=True, inline=True)
class TreeBuilder(Transformer_NonRecursive[Token, Any]):
    """One method for each rule of the grammar, called from the leaves up."""

    def __init__(self, source: Source, offset: int) -> None:
        super().__init__(visit_tokens=False)
        self._source = source
        self._offset = offset

    def _span(self, place: Meta | Token) -> Span:
        # The meta of a rule that matched nothing has no positions.
        start = getattr(place, "start_pos", 0)
        return _span_between(self._source, self._offset, start, getattr(place, "end_pos", start))

    def _string(self, token: Token) -> str:
        def escape(match: re.Match[str]) -> str:
            code, char = match.groups()
            # An unknown escape is two characters, as in Apache MRQL, so that "\d+" is a regular expression.
            return chr(int(code, 16)) if code else _ESCAPES.get(char, "\\" + char)

        text = _ESCAPE.sub(escape, token[1:-1])
        if any("\ud800" <= c <= "\udfff" for c in text):
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise UserError("the string holds half a surrogate pair", self._span(token)) from None
        return text

    # statements

    def program(self, meta: Meta, *statements: s.Statement) -> s.Program:
        whole = Span(self._source, self._offset, len(self._source.text))
        return s.Program(statements, whole)

    def expression(self, meta: Meta, expr: s.Expr) -> s.Statement:
        return s.ExprStatement(expr, self._span(meta))

    def definition(self, meta: Meta, name: Token, _: Token, expr: s.Expr) -> s.Statement:
        return s.Definition(str(name), expr, self._span(meta))

    def store(self, meta: Meta, name: Token, expr: s.Expr) -> s.Statement:
        return s.Store(str(name), expr, self._span(meta))

    def store_file(self, meta: Meta, path: s.Expr, expr: s.Expr) -> s.Statement:
        return s.Dump(path, expr, False, self._span(meta))

    def dump_file(self, meta: Meta, path: s.Expr, expr: s.Expr) -> s.Statement:
        return s.Dump(path, expr, True, self._span(meta))

    def type_definition(self, meta: Meta, name: Token, _: Token, type_: s.TypeExpr) -> s.Statement:
        return s.TypeDef(str(name), type_, self._span(meta))

    def data_definition(self, meta: Meta, name: Token, _: Token, *constructors: s.Constructor) -> s.Statement:
        return s.DataDef(str(name), constructors, self._span(meta))

    def constructor(self, meta: Meta, name: Token, type_: s.TypeExpr | None = None) -> s.Constructor:
        match type_:
            case None:
                args: tuple[s.TypeExpr, ...] = ()
            case s.TupleType(items):
                args = items
            case _:
                args = (type_,)
        return s.Constructor(str(name), args, self._span(meta))

    def function(self, meta: Meta, name: Token, *rest: Any) -> s.Statement:
        *params, result, body = rest
        return s.FunctionDef(str(name), tuple(params), result, body, self._span(meta))

    def parameter(self, meta: Meta, name: Token, type_: s.TypeExpr) -> tuple[str, s.TypeExpr]:
        return str(name), type_

    def macro(self, meta: Meta, name: Token, *rest: Any) -> s.Statement:
        *params, body = rest
        return s.MacroDef(str(name), tuple(map(str, params)), body, self._span(meta))

    def aggregation(self, meta: Meta, name: Token, *rest: Any) -> s.Statement:
        *parts, type_ = rest
        if len(parts) not in (2, 3):
            raise UserError(
                f"an aggregation has a way to combine, a zero and perhaps a unit, not {_number(len(parts), 'part')}",
                self._span(meta),
                "aggregation total(\\(x: int, y: int): int. x + y, 0): int;",
            )
        combine, zero, *unit = parts
        return s.AggregationDef(str(name), combine, zero, unit[0] if unit else None, type_, self._span(meta))

    def include(self, meta: Meta, path: Token) -> s.Statement:
        return s.Include(self._string(path), self._span(meta))

    def parser(self, meta: Meta, name: Token, _: Token, target: Token) -> s.Statement:
        return s.ParserDef(str(name), self._string(target), self._span(meta))

    def import_module(self, meta: Meta, module: Token) -> s.Statement:
        return s.Import(self._string(module), (), self._span(meta))

    def import_names(self, meta: Meta, *rest: Any) -> s.Statement:
        *functions, module = rest
        return s.Import(self._string(module), tuple(functions), self._span(meta))

    def import_callable(self, meta: Meta, target: Token, function: s.ImportedFunction) -> s.Statement:
        module, colon, attribute = self._string(target).rpartition(":")
        if not colon or not module or not attribute:
            raise UserError(
                "an import under a name says which callable of which module",
                self._span(target),
                'import "module:callable" as f(int): int;',
            )
        return s.Import(module, (attrs.evolve(function, attribute=attribute),), self._span(meta))

    def imported(
        self,
        meta: Meta,
        name: Token,
        params: tuple[s.TypeExpr, ...] | None = None,
        result: s.TypeExpr | None = None,
    ) -> s.ImportedFunction:
        text = self._string(name) if name.type == "STRING" else str(name)
        return s.ImportedFunction(text, text, params, result, self._span(meta))

    def import_types(self, meta: Meta, *params: Any) -> tuple[s.TypeExpr, ...]:
        return tuple(p[1] if isinstance(p, tuple) else p for p in params)

    # expressions

    def chain(self, meta: Meta, *items: Any) -> s.Expr:
        return Chain(self._source, self._offset).build(items)

    def conditional(self, meta: Meta, condition: s.Expr, then: s.Expr, otherwise: s.Expr) -> s.Expr:
        return s.IfExpr(condition, then, otherwise, self._span(meta))

    def let(self, meta: Meta, *rest: Any) -> s.Expr:
        *bindings, body = rest
        return s.LetExpr(tuple(bindings), body, self._span(meta))

    def binding(self, meta: Meta, pattern: s.Pattern, _: Token, expr: s.Expr) -> tuple[s.Pattern, s.Expr]:
        return pattern, expr

    def bare_lambda(self, meta: Meta, name: Token, body: s.Expr) -> s.Expr:
        return s.Lambda(((self.variable_pattern(name, name), None),), None, body, self._span(meta))

    def untyped_lambda(self, meta: Meta, params: Any, body: s.Expr) -> s.Expr:
        return s.Lambda(params, None, body, self._span(meta))

    def typed_lambda(self, meta: Meta, params: Any, result: s.TypeExpr, body: s.Expr) -> s.Expr:
        return s.Lambda(params, result, body, self._span(meta))

    def lambda_parameters(self, meta: Meta, *params: Any) -> Any:
        return params

    def lambda_parameter(self, meta: Meta, pattern: s.Pattern, type_: s.TypeExpr | None = None) -> Any:
        return pattern, type_

    def quantified(self, meta: Meta, word: Token, generators: Any, body: s.Expr) -> s.Expr:
        kind = s.QuantifierKind.ALL if word.lower() == "all" else s.QuantifierKind.SOME
        return s.Quantified(kind, generators, body, self._span(meta))

    def repeat(
        self, meta: Meta, pattern: s.Pattern, _: Token, init: s.Expr, step: s.Expr, limit: s.Expr | None = None
    ) -> s.Expr:
        return s.Repeat(pattern, init, step, limit, self._span(meta))

    def incr(self, meta: Meta, expr: s.Expr) -> s.Expr:
        return s.Incr(expr, self._span(meta))

    def select(self, meta: Meta, first: Any, *rest: Any) -> s.Expr:
        distinct = isinstance(first, Token)
        head, generators, *clauses = rest if distinct else (first, *rest)
        by_kind = dict(clauses)
        return s.Select(
            distinct,
            head,
            generators,
            by_kind.get("where"),
            by_kind.get("group"),
            by_kind.get("order"),
            self._span(meta),
        )

    def generators(self, meta: Meta, *generators: s.Generator) -> tuple[s.Generator, ...]:
        return generators

    def generator(self, meta: Meta, pattern: s.Pattern, *rest: Any) -> s.Generator:
        *equals, expr = rest
        source = s.BagExpr((expr,), expr.span) if equals else expr
        return s.Generator(pattern, source, self._span(meta))

    def where(self, meta: Meta, condition: s.Expr) -> tuple[str, s.Expr]:
        return "where", condition

    def group(self, meta: Meta, *parts: Any) -> tuple[str, s.GroupBy]:
        keys = tuple(part for part in parts if isinstance(part, s.GroupKey))
        having = None if isinstance(parts[-1], s.GroupKey) else parts[-1]
        return "group", s.GroupBy(keys, having, self._span(meta))

    def having(self, meta: Meta, condition: s.Expr) -> s.Expr:
        return condition

    def key(self, meta: Meta, first: s.Expr, second: s.Expr | None = None) -> s.GroupKey:
        # Until the `:` nobody knows whether this is a pattern, so the grammar reads an expression.
        check_depth(first)
        if second is None:
            return s.GroupKey(_pattern_of_names(first), first, self._span(meta))
        return s.GroupKey(_pattern_of(first), second, self._span(meta))

    def order(self, meta: Meta, *parts: Any) -> tuple[str, s.OrderBy]:
        keys = tuple(part for part in parts if isinstance(part, s.OrderKey))
        limit = None if isinstance(parts[-1], s.OrderKey) else parts[-1]
        return "order", s.OrderBy(keys, limit, self._span(meta))

    def order_key(self, meta: Meta, expr: s.Expr, direction: Token | None = None) -> s.OrderKey:
        return s.OrderKey(expr, direction is not None and direction.lower() == "desc", self._span(meta))

    def limit(self, meta: Meta, expr: s.Expr) -> s.Expr:
        return expr

    def name(self, meta: Meta, name: Token) -> s.Expr:
        return s.Name(str(name), self._span(name))

    def literal(self, meta: Meta, token: Token) -> s.Literal:
        span = self._span(token)
        if token.type == "INT":
            return s.IntLit(self._integer(token), span)
        if token.type == "STRING":
            return s.StringLit(self._string(token), span)
        match token.lower():
            case "null":
                return s.NullLit(span)
            case "true" | "false" as word:
                return s.BoolLit(word == "true", span)
            case _:
                return s.FloatLit(self._float(token), span)

    def _integer(self, token: Token) -> int:
        if len(token) > _MAX_DIGITS:
            raise UserError("the number is too large", self._span(token))
        return int(token)

    def _float(self, token: Token) -> float:
        value = float(token)
        if value == float("inf"):
            raise UserError("the number is too large for a double", self._span(token))
        return value

    def tuple_expr(self, meta: Meta, *items: s.Expr) -> s.Expr:
        # A bracketed expression spans its brackets, so that `(a + b) * c` is underlined as a whole.
        if len(items) == 1:
            return attrs.evolve(items[0], span=self._span(meta))
        return s.TupleExpr(items, self._span(meta))

    def bag_expr(self, meta: Meta, *items: s.Expr) -> s.Expr:
        return s.BagExpr(items, self._span(meta))

    def list_expr(self, meta: Meta, *items: s.Expr) -> s.Expr:
        return s.ListExpr(items, self._span(meta))

    def record_expr(self, meta: Meta, *fields: tuple[str, s.Expr]) -> s.Expr:
        return s.RecordExpr(fields, self._span(meta))

    def field(self, meta: Meta, name: Token, expr: s.Expr) -> tuple[str, s.Expr]:
        return str(name), expr

    def case_expr(self, meta: Meta, subject: s.Expr, *branches: tuple[s.Pattern, s.Expr]) -> s.Expr:
        return s.CaseExpr(subject, branches, self._span(meta))

    def branch(self, meta: Meta, pattern: s.Pattern, expr: s.Expr) -> tuple[s.Pattern, s.Expr]:
        return pattern, expr

    def template(self, meta: Meta, token: Token) -> s.Expr:
        return XmlReader(self._source, self._span(token)).read()

    def projection(self, meta: Meta, expr: s.Expr, name: Token) -> s.Expr:
        return s.Field(expr, str(name), self._span(meta))

    def children(self, meta: Meta, expr: s.Expr, _: Token) -> s.Expr:
        return s.Children(expr, self._span(meta))

    def attribute(self, meta: Meta, expr: s.Expr, name: Token) -> s.Expr:
        return s.Attribute(expr, str(name), self._span(meta))

    def nth(self, meta: Meta, expr: s.Expr, index: Token) -> s.Expr:
        return s.Nth(expr, self._integer(index), self._span(meta))

    def indexing(self, meta: Meta, expr: s.Expr, index: s.Expr) -> s.Expr:
        return s.Index(expr, index, self._span(meta))

    def slicing(self, meta: Meta, expr: s.Expr, low: s.Expr, high: s.Expr) -> s.Expr:
        return s.Slice(expr, low, high, self._span(meta))

    def ascribe(self, meta: Meta, expr: s.Expr, type_: s.TypeExpr) -> s.Expr:
        return s.Ascribe(expr, type_, self._span(meta))

    def call(self, meta: Meta, function: s.Expr, *args: s.Expr) -> s.Expr:
        if isinstance(function, s.Name):
            return s.Call(function.name, args, self._span(meta))
        return s.Apply(function, args, self._span(meta))

    def source(self, meta: Meta, word: Token, format_: Token, *args: Any) -> s.Expr:
        kind = s.SourceKind(word.lower())
        return s.SourceExpr(kind, str(format_), tuple(map(_source_argument, args)), self._span(meta))

    def type_argument(self, meta: Meta, type_: s.TypeExpr) -> s.SourceArg:
        return s.TypeArg(type_, self._span(meta))

    def deletions(self, meta: Meta, path: s.Expr) -> s.SourceArg:
        return s.DeletionsArg(path, self._span(meta))

    def xpath(self, meta: Meta, token: Token) -> s.SourceArg:
        path = token[token.index("(") + 1 : -1].strip()
        quoted = len(path) > 1 and path[0] in "\"'" and path.find(path[0], 1) == len(path) - 1
        return s.XPathArg(path[1:-1] if quoted else path, self._span(token))

    # patterns

    def variable_pattern(self, meta: Meta | Token, name: Token) -> s.Pattern:
        span = self._span(name)
        return s.WildcardPattern(span) if name == "_" else s.VarPattern(str(name), span)

    def wildcard(self, meta: Meta, star: Token) -> s.Pattern:
        return s.WildcardPattern(self._span(star))

    def constant_pattern(self, meta: Meta, value: s.Literal) -> s.Pattern:
        return s.ConstPattern(value, self._span(meta))

    def negative_pattern(self, meta: Meta, minus: Token, value: s.Literal) -> s.Pattern:
        return _negative(value, self._span(meta))

    def tuple_pattern(self, meta: Meta, *items: s.Pattern) -> s.Pattern:
        return items[0] if len(items) == 1 else s.TuplePattern(items, self._span(meta))

    def list_pattern(self, meta: Meta, *items: s.Pattern) -> s.Pattern:
        return s.ListPattern(items, self._span(meta))

    def record_pattern(self, meta: Meta, *fields: tuple[str, s.Pattern]) -> s.Pattern:
        return s.RecordPattern(fields, self._span(meta))

    def field_pattern(self, meta: Meta, name: Token, pattern: s.Pattern) -> tuple[str, s.Pattern]:
        return str(name), pattern

    def constructor_pattern(self, meta: Meta, name: Token, *args: s.Pattern) -> s.Pattern:
        return s.ConstructorPattern(str(name), args, self._span(meta))

    def typed_pattern(self, meta: Meta, pattern: s.Pattern, type_: s.TypeExpr) -> s.Pattern:
        return s.TypedPattern(pattern, type_, self._span(meta))

    # types

    def named_type(self, meta: Meta, name: Token) -> s.TypeExpr:
        return s.NamedType(str(name), self._span(name))

    def applied_type(self, meta: Meta, name: Token, *items: s.TypeExpr) -> s.TypeExpr:
        span = self._span(meta)
        if name.lower() not in ("bag", "list"):
            raise UserError(f"`{name}` does not make a type of others", span, "write bag(t) or list(t)")
        if len(items) != 1:
            raise UserError(f"`{name}` has one type in its brackets, not {len(items)}", span)
        return s.BagType(items[0], span) if name.lower() == "bag" else s.ListType(items[0], span)

    def tuple_type(self, meta: Meta, *items: s.TypeExpr) -> s.TypeExpr:
        return items[0] if len(items) == 1 else s.TupleType(items, self._span(meta))

    def record_type(self, meta: Meta, *fields: tuple[str, s.TypeExpr]) -> s.TypeExpr:
        return s.RecordType(fields, self._span(meta))

    def field_type(self, meta: Meta, name: Token, type_: s.TypeExpr) -> tuple[str, s.TypeExpr]:
        return str(name), type_

    def bag_type(self, meta: Meta, item: s.TypeExpr) -> s.TypeExpr:
        return s.BagType(item, self._span(meta))

    def list_type(self, meta: Meta, item: s.TypeExpr) -> s.TypeExpr:
        return s.ListType(item, self._span(meta))


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _negative(value: s.Literal, span: Span) -> s.Pattern:
    match value:
        case s.IntLit(number):
            return s.ConstPattern(s.IntLit(-number, span), span)
        case s.FloatLit(number):
            return s.ConstPattern(s.FloatLit(-number, span), span)
        case _:
            raise UserError("only a number can have a sign", span)


def _source_argument(arg: s.SourceArg) -> s.SourceArg:
    """Some arguments of a source look like expressions, and are not."""
    match arg:
        case s.Name("tagged", span=span):
            return s.TaggedArg(span)
        case s.Name(name, span=span) if name in OPTIONS:
            return s.OptionArg(name, span)
        case s.BagExpr(items, span=span) if items and all(isinstance(item, s.StringLit) for item in items):
            return s.TagsArg(tuple(item.value for item in items if isinstance(item, s.StringLit)), span)
        case _:
            return arg


def _pattern_of_names(expr: s.Expr) -> s.Pattern | None:
    """`x` or `(x, (y, z))` as a pattern: `group by (i, j)` groups by the names, and keeps them as the key's parts."""
    match expr:
        case s.Name(name, span=span):
            return s.VarPattern(name, span)
        case s.TupleExpr(items, span=span) if items:
            patterns = [_pattern_of_names(item) for item in items]
            known = tuple(pattern for pattern in patterns if pattern is not None)
            return s.TuplePattern(known, span) if len(known) == len(patterns) else None
        case _:
            return None


def _pattern_of(expr: s.Expr) -> s.Pattern:
    """The pattern that looks like this expression."""
    span = expr.span
    match expr:
        case s.Name("_"):
            return s.WildcardPattern(span)
        case s.Name(name):
            return s.VarPattern(name, span)
        case s.IntLit() | s.FloatLit() | s.StringLit() | s.BoolLit() | s.NullLit():
            return s.ConstPattern(expr, span)
        case s.Unary(s.UnaryOp.NEGATE, s.IntLit() | s.FloatLit() as number):
            return _negative(number, span)
        case s.TupleExpr(items):
            return s.TuplePattern(tuple(map(_pattern_of, items)), span)
        case s.ListExpr(items):
            return s.ListPattern(tuple(map(_pattern_of, items)), span)
        case s.RecordExpr(fields):
            return s.RecordPattern(tuple((name, _pattern_of(field)) for name, field in fields), span)
        case s.Call(name, args):
            return s.ConstructorPattern(name, tuple(map(_pattern_of, args)), span)
        case s.Ascribe(inner, type_):
            return s.TypedPattern(_pattern_of(inner), type_, span)
        case _:
            raise UserError("expected a pattern before the `:`", span, "group by (k, n): (x.A, x.B)")


# --- XML --------------------------------------------------------------------------------------------------------------

_XML_NAME = r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?"
_XML_TAG = re.compile(rf"<({_XML_NAME})\s*")
_XML_ATTRIBUTE = re.compile(rf"({_XML_NAME})\s*=\s*")
_XML_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_XML_END = re.compile(rf"</({_XML_NAME})\s*>")
_XML_SKIPPED = re.compile(r"<!--.*?-->", re.DOTALL)
_XML_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_XML_TEXT = re.compile(r"(?:[^<{]|\{(?!\{))+")
_HOLE_PART = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[{}]", re.DOTALL)
_SPACE = re.compile(r"\s*")


@attrs.define
class OpenElement:
    """An element whose end has not been seen yet."""

    tag: str
    attributes: tuple[tuple[str, s.Expr], ...]
    start: int
    children: list[s.Expr] = attrs.Factory(list)


class XmlReader:
    """Reads `[xml| … |]`: one element, with expressions in its `{{ }}`."""

    def __init__(self, source: Source, span: Span) -> None:
        self._source = source
        self._text = source.text
        self._span = span
        self._at = self._text.index("|", span.start) + 1
        self._end = span.end - 2
        self._opened: list[OpenElement] = []
        self._root: s.Expr | None = None

    def read(self) -> s.Expr:
        kind = self._text[self._span.start + 1 : self._at - 1]
        if kind.lower() != "xml":
            raise UserError(f"`[{kind}| … |]` is not known", self._span, "[xml| <tag>{{e}}</tag> |]")
        while self._at < self._end:
            self._step()
        if self._opened:
            last = self._opened[-1]
            raise UserError(f"`<{last.tag}>` is not closed", self._between(last.start), f"</{last.tag}>")
        if self._root is None:
            raise UserError("expected an XML element", self._span, "[xml| <tag>{{e}}</tag> |]")
        return attrs.evolve(self._root, span=self._span)

    def _between(self, start: int) -> Span:
        return Span(self._source, start, min(max(self._at, start + 1), self._end))

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at, self._end)
        if match:
            self._at = match.end()
        return match

    def _step(self) -> None:
        start = self._at
        if self._take(_XML_SKIPPED):
            return
        if found := self._take(_XML_CDATA):
            self._add(s.StringLit(found[1], self._between(start)))
        elif found := self._take(_XML_END):
            self._close(found[1], start)
        elif found := self._take(_XML_TAG):
            self._open(found[1], start)
        elif self._text.startswith("{{", start):
            self._add(self._hole())
        elif found := self._take(_XML_TEXT):
            if found[0].strip():
                self._add(s.StringLit(html.unescape(found[0]), self._between(start)))
        else:
            raise UserError("expected an XML tag", self._between(start), "write `&lt;` for a `<` in a text")

    def _add(self, expr: s.Expr) -> None:
        if self._opened:
            self._opened[-1].children.append(expr)
        elif isinstance(expr, s.XmlElement) and self._root is None:
            self._root = expr
        else:
            raise UserError("an XML literal is one element", expr.span, "put everything inside one tag")

    def _open(self, tag: str, start: int) -> None:
        element = OpenElement(tag, tuple(self._attributes()), start)
        self._opened.append(element)
        if self._text.startswith("/>", self._at):
            self._at += 2
            self._finish(start)
        elif self._text.startswith(">", self._at):
            self._at += 1
        else:
            raise UserError(f"expected an attribute, `>` or `/>` in the tag `{tag}`", self._between(self._at))

    def _attributes(self) -> Iterator[tuple[str, s.Expr]]:
        while found := self._take(_XML_ATTRIBUTE):
            yield found[1], self._value()
            self._take(_SPACE)

    def _value(self) -> s.Expr:
        start = self._at
        if self._text.startswith("{{", start):
            return self._hole()
        if self._text.startswith(('"{{', "'{{"), start):
            self._at += 1
            hole = self._hole()
            if self._text[self._at] != self._text[start]:
                raise UserError("a hole must be the whole value of an attribute", self._between(start))
            self._at += 1
            return hole
        if found := self._take(_XML_QUOTED):
            return s.StringLit(html.unescape(found[1] or found[2] or ""), self._between(start))
        raise UserError("expected an attribute's value in quotes", self._between(start))

    def _close(self, tag: str, start: int) -> None:
        if not self._opened or self._opened[-1].tag != tag:
            hint = f"</{self._opened[-1].tag}>" if self._opened else None
            raise UserError(f"`</{tag}>` closes nothing", self._between(start), hint)
        self._finish(self._opened[-1].start)

    def _finish(self, start: int) -> None:
        done = self._opened.pop()
        self._add(s.XmlElement(done.tag, done.attributes, tuple(done.children), self._between(start)))

    def _hole(self) -> s.Expr:
        start = self._at
        depth = 0
        for part in _HOLE_PART.finditer(self._text, start + 2, self._end):
            if part[0] == "{":
                depth += 1
            elif part[0] == "}" and depth:
                depth -= 1
            elif part[0] == "}" and self._text.startswith("}}", part.start()):
                self._at = part.start() + 2
                expr: s.Expr = _parse("expr", self._source, start + 2, part.start())
                return expr
        raise UserError("`{{` is not closed", Span(self._source, start, start + 2), "{{ e }}")


# --- errors -----------------------------------------------------------------------------------------------------------

# How the terminals of the grammar are called in front of people. Those that are left out begin an expression, a
# pattern, a type or a statement, or continue an expression, and are never listed one by one.
SPELLING = {
    "_FROM": "`from`",
    "_WHERE": "`where`",
    "_GROUP": "`group by`",
    "_HAVING": "`having`",
    "_ORDER": "`order by`",
    "_BY": "`by`",
    "DIRECTION": "`asc`, `desc`",
    "_LIMIT": "`limit`",
    "_THEN": "`then`",
    "_ELSE": "`else`",
    "_STEP": "`step`",
    "_LET_IN": "`in`",
    "_GENERATOR_IN": "`in`",
    "_ASSIGN": "`:=`",
    "_AS": "`as`",
    "_BAR": "`|`",
    "_COLON": "`:`",
    "_COMMA": "`,`",
    "_RPAR": "`)`",
    "_RBRACKET": "`]`",
    "_RBRACE": "`}`",
    "_RECORD_END": "`>`",
    "_SEMI": "`;`",
    "_LBRACE": "`{`",
    "_LPAR": "`(`",
    "_DOT": "`.`",
    "EQ": "`=`",
    "STRING": "a string",
    "INT": "a whole number",
    "NAME": "a name",
}
CONTINUES = {"_DOT", "_LPAR", "_AS", "EQ"}
# What an unfinished construct waits for. Where several wait, the innermost construct is in the way of the others, but
# an `if` without an `else` is more likely forgotten than meant to be a part of something unfinished.
AWAITED = {
    "_THEN": "`then` after the condition",
    "_ELSE": "`else`, which every `if` needs",
    "_STEP": "`step` after the first value of the repeat",
    "_LET_IN": "`in` after the bindings of the let",
    "_GENERATOR_IN": "`in` after the pattern",
    "_BY": "`by`",
}
BRACKETS = {"_LPAR": "(", "_LBRACE": "{", "_LBRACKET": "[", "_RECORD_START": "<"}
CLOSING = {"_RPAR", "_RBRACE", "_RBRACKET", "_RECORD_END"}
HINTS = {
    "==": "equality is written `=`",
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    ":=": "`x = e;` names an expression; `store x := e;` evaluates it once",
    "->": "the body of a function follows a `.`: `\\x. e`",
    "=>": "the body of a function follows a `.`: `\\x. e`",
    "#": "comments begin with `//`",
    "descending": "write `desc`",
    "ascending": "write `asc`",
    "limit": "`limit` follows the keys of an `order by`, or the step of a `repeat`",
    "having": "`having` follows the keys of a `group by`",
}


def explain_character(source: Source, at: int) -> UserError:
    """The error for a character that begins no token."""
    span = Span(source, at, at + 1)
    char = source.text[at]
    if char in "\"'":
        return UserError("unterminated string", span, f"it needs a closing {char}")
    hint = next((hint for sign, hint in HINTS.items() if source.text.startswith(sign, at)), None)
    return UserError(f"unexpected character `{char}`", span, hint)


def explain_token(error: UnexpectedToken, source: Source, begin: int, end: int) -> UserError:
    """The error for a token that the grammar has no use for where it stands, or for the end of the text."""
    state: Any = error.state
    token = error.token
    open_tokens = [value for value in state.value_stack if isinstance(value, Token)]
    expected = _expectation(_accepted(state), open_tokens)
    if token.type == "$END":
        stop = len(source.text[:end].rstrip())
        whole = "query" if end == len(source.text) else "expression"
        hint = _unclosed(source, begin, open_tokens)
        return UserError(f"unexpected end of the {whole}: expected {expected}", Span(source, stop, stop), hint)
    at = begin + (token.start_pos or 0)
    unterminated = _unterminated(source, at)
    if unterminated:
        return unterminated
    span = Span(source, at, begin + (token.end_pos or 0))
    hint = _hint(source, begin, at, token, state, open_tokens)
    return UserError(f"expected {expected}, found {_shown(token)}", span, hint)


def _accepted(state: Any) -> set[str]:
    """The terminals that the parser could go on with.

    The keys of its table are too many: a terminal may be there only because of a reduction that leads to a dead end.
    """
    if state.position == state.parse_conf.end_state:
        return {"$END"}
    states = state.parse_conf.states
    return {t for t in states[state.position] if t.isupper() and _leads_on(states, list(state.state_stack), t)}


def _leads_on(states: Any, stack: list[Any], terminal: str) -> bool:
    while terminal in states[stack[-1]]:
        action, target = states[stack[-1]][terminal]
        if action.name == "Shift":
            return True
        if target.expansion:
            del stack[-len(target.expansion) :]
        stack.append(states[stack[-1]][target.origin.name][1])
        # The end of the text is accepted without being shifted.
        if terminal == "$END" and "$END" not in states[stack[-1]]:
            return True
    return False


def _expectation(accepted: set[str], open_tokens: list[Token]) -> str:
    """What could follow, in a person's words."""
    if "_TYPE_DEF" in accepted:
        return "a statement"
    if "_SELECT" in accepted:
        return "an expression"
    if "_BANG" in accepted:
        return "a type"
    if {"STAR", "NAME"} <= accepted and "OPERATOR" not in accepted:
        return _after_sign(open_tokens, accepted) or "a pattern"
    for terminal, awaited in AWAITED.items():
        if terminal in accepted:
            return awaited
    opened = [token.type for token in open_tokens]
    if "_FROM" in accepted and _innermost(opened, {"_SELECT", "DISTINCT"}, {"_STORE", "_DUMP", "_IMPORT"}):
        return "`from` after the head of the select"
    if "_LBRACE" in accepted and opened and opened[-1] == "_CASE":
        return "`{` and the branches of the case"
    if accepted == {"NAME"}:
        return "a field name" if opened and opened[-1] in {"_RECORD_START", "_COMMA", "_DOT", "_AT"} else "a name"
    # Inside brackets, only what closes them matters; elsewhere, what continues an expression goes without saying.
    unsaid = CONTINUES if "OPERATOR" in accepted else {"_AS", "_LPAR"}
    words = [SPELLING[t] for t in SPELLING if t in accepted and t not in unsaid]
    return _listed(words or ["the end of the query" if "$END" in accepted else SPELLING["_LPAR"]])


def _after_sign(open_tokens: list[Token], accepted: set[str]) -> str | None:
    if "_AT" in accepted:
        return "a field name"
    return "the name of an attribute" if open_tokens and open_tokens[-1].type == "_AT" else None


def _innermost(opened: list[str], wanted: set[str], others: set[str]) -> bool:
    return next((token in wanted for token in reversed(opened) if token in wanted | others), False)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(token: Token) -> str:
    text = token.split("\n")[0]
    return f"`{text if len(text) <= 30 else text[:30] + '…'}`"


def _unterminated(source: Source, at: int) -> UserError | None:
    """The error for a comment or an XML literal without an end; its first characters pass for something else."""
    for start in (at, at - 1):
        if start >= 0 and source.text.startswith("/*", start):
            return UserError("unterminated comment", Span(source, start, start + 2), "it needs a closing */")
    if source.text[at] == "|" and re.search(r"\[xml\Z", source.text[:at], re.IGNORECASE):
        return UserError("unterminated XML literal", Span(source, at - 4, at + 1), "it needs a closing |]")
    return None


def _unclosed(source: Source, begin: int, open_tokens: list[Token]) -> str | None:
    for token in reversed(open_tokens):
        if token.type in BRACKETS:
            line = source.line_of(begin + (token.start_pos or 0))
            return f"the `{BRACKETS[token.type]}` on line {line} is not closed"
    return None


def _hint(source: Source, begin: int, at: int, token: Token, state: Any, open_tokens: list[Token]) -> str | None:
    """What may help, from the most to the least certain."""
    before = state.value_stack[-1] if state.value_stack else None
    if isinstance(before, Token):
        if before.type == "_RECORD_END":
            return "inside a record, put a comparison with `>` in round brackets"
        if before.type == "STRING" and "\n" in before:
            return f"the string that begins on line {source.line_of(begin + (before.start_pos or 0))} has several lines"
        if before.type in {"_SELECT", "DISTINCT"} and token == "*":
            return "a select has one expression: `select x from x in X`"
    for sign in (source.text[at : at + 2], source.text[max(at - 1, 0) : at + 1], token.lower()):
        if sign in HINTS:
            return HINTS[sign]
    accepted = _accepted(state)
    known = {word for terminal in accepted for word in re.findall(r"`(\w+)", SPELLING.get(terminal, ""))}
    close = difflib.get_close_matches(token.lower(), known, n=1, cutoff=0.7) if token.isalpha() else []
    if close:
        return f"did you mean `{close[0]}`?"
    if accepted & CLOSING and token.type not in {"NAME", "INT", "STRING", "CONSTANT"}:
        return _unclosed(source, begin, open_tokens)
    if "_SEMI" in accepted and not source.text[source.line_starts[source.line_of(at) - 1] : at].strip():
        return "a statement ends with `;`"
    return None
