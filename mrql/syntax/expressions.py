"""Expressions."""

from __future__ import annotations

import enum
from typing import TypeAlias

import attrs

from mrql.algebra.span import Span
from mrql.syntax.literals import Literal
from mrql.syntax.node import Node, nodes
from mrql.syntax.patterns import Pattern
from mrql.syntax.types import TypeExpr


class BinaryOp(enum.Enum):
    """The operators between two expressions; the value is the preferred spelling (`!=` is `<>`, `%` is `mod`)."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MOD = "mod"
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    AND = "and"
    OR = "or"
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"
    IN = "in"


class UnaryOp(enum.Enum):
    """The operators before one expression."""

    NEGATE = "-"
    NOT = "not"


class QuantifierKind(enum.Enum):
    """Whether some element or every element must satisfy the condition."""

    SOME = "some"
    ALL = "all"


class SourceKind(enum.Enum):
    """Whether the data are read once or watched for changes."""

    SOURCE = "source"
    STREAM = "stream"


@attrs.frozen
class Name(Node):
    """A variable, a definition, a stream, or a constructor without arguments."""

    name: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TupleExpr(Node):
    """`(e, e)`; `()` has no items, and `(e)` is just `e`."""

    items: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class RecordExpr(Node):
    """`<A: e, B: e>`."""

    fields: tuple[tuple[str, Expr], ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class BagExpr(Node):
    """`{e, e}`."""

    items: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ListExpr(Node):
    """`[e, e]`."""

    items: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class RangeExpr(Node):
    """`e..e`, or, for ranges too large to hold in one place, `e...e` (`large`). Both ends are included."""

    low: Expr
    high: Expr
    large: bool
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Field(Node):
    """`e.A`."""

    expr: Expr
    name: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Attribute(Node):
    """`e.@a`; for `e.@*` the name is `*`."""

    expr: Expr
    name: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Children(Node):
    """`e.*`."""

    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Nth(Node):
    """`e#0`."""

    expr: Expr
    index: int
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Index(Node):
    """`e[i]`: the element of a list at index i, or the value of the key i in a bag of pairs."""

    expr: Expr
    index: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Slice(Node):
    """`e[i:j]`, both ends included."""

    expr: Expr
    low: Expr
    high: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Unary(Node):
    """`-e` or `not e`."""

    op: UnaryOp
    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Binary(Node):
    """`e + e`, `e and e`, `e in e`, and so on; `e not in e` is a `not` around an `in`."""

    op: BinaryOp
    left: Expr
    right: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class IfExpr(Node):
    """`if e then e else e`."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class LetExpr(Node):
    """`let p = e, p = e in e`; each binding sees those before it."""

    bindings: tuple[tuple[Pattern, Expr], ...]
    body: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class CaseExpr(Node):
    """`case e { p: e | p: e }`."""

    subject: Expr
    branches: tuple[tuple[Pattern, Expr], ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Lambda(Node):
    """`\\(x: t, y: t): t. e`, or without types: `\\(x, y). e`, `\\x. e`."""

    params: tuple[tuple[Pattern, TypeExpr | None], ...]
    result: TypeExpr | None
    body: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Ascribe(Node):
    """`e as t`."""

    expr: Expr
    type: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Call(Node):
    """`f(e, e)`: a function, a macro, an aggregation or a constructor. `exists e` is the call `exists(e)`."""

    function: str
    args: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Apply(Node):
    """A call of something that is not a name: `(\\x. x + 1)(2)`."""

    function: Expr
    args: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Generator(Node):
    """`p in e` after `from`, `some` or `all`. `p = e` is represented as `p in {e}`."""

    pattern: Pattern
    source: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class GroupKey(Node):
    """`p: e` after `group by`. A bare key that is a name or a tuple of names is its own pattern."""

    pattern: Pattern | None
    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class GroupBy(Node):
    """`group by p: e, p: e having e`."""

    keys: tuple[GroupKey, ...]
    having: Expr | None
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class OrderKey(Node):
    """`e asc` or `e desc`; `inv(e)` stays a call."""

    expr: Expr
    descending: bool
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class OrderBy(Node):
    """`order by e desc, e limit e`."""

    keys: tuple[OrderKey, ...]
    limit: Expr | None
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Select(Node):
    """`select distinct e from p in e, p in e where e group by … order by …`."""

    distinct: bool
    head: Expr
    generators: tuple[Generator, ...]
    where: Expr | None
    group: GroupBy | None
    order: OrderBy | None
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Quantified(Node):
    """`some p in e, p in e: e` (or `exists …`) and `all p in e: e`."""

    kind: QuantifierKind
    generators: tuple[Generator, ...]
    body: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Repeat(Node):
    """`repeat p = e step e limit e`."""

    pattern: Pattern
    init: Expr
    step: Expr
    limit: Expr | None
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class Incr(Node):
    """`incr e`: keep e up to date."""

    expr: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TypeArg(Node):
    """`type(t)` in a source: the type of a row."""

    type: TypeExpr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TagsArg(Node):
    """`{"tag", "tag"}` in a source: the tags of the elements that are rows."""

    tags: tuple[str, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class XPathArg(Node):
    """`xpath(path)` in a source, the path as text."""

    path: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class DeletionsArg(Node):
    """`deletions(e)` in a stream: the directory in which deleted rows arrive."""

    path: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class TaggedArg(Node):
    """`tagged` in a stream: the first column says whether a row is inserted or deleted."""

    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class KeyArg(Node):
    """`key(a, b)` in a stream: the fields of the key; a row replaces the one with the same key."""

    fields: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class VersionArg(Node):
    """`version(e)`: for a stream with a key, the field that says which of two rows is later; for a table with a log,
    the number of the version to read."""

    which: Expr
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class ChangesArg(Node):
    """`changes(debezium)` in a stream: its rows are changes in the named envelope."""

    envelope: str
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class OptionArg(Node):
    """An option of a source: a word, as in `header`, or a word with values, as in `nullValue("NA")`."""

    name: str
    values: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class SourceExpr(Node):
    """`source(csv, "points", ",", type(<X: long>))`, or `stream(…)` with the same arguments."""

    kind: SourceKind
    format: str
    args: tuple[SourceArg, ...]
    span: Span = attrs.field(eq=False, repr=False)


@attrs.frozen
class XmlElement(Node):
    """An element of `[xml| <tag a="x">text{{e}}</tag> |]`. Text is a `StringLit`, a hole any expression."""

    tag: str
    attributes: tuple[tuple[str, Expr], ...]
    children: tuple[Expr, ...]
    span: Span = attrs.field(eq=False, repr=False)


Expr: TypeAlias = (
    Literal
    | Name
    | TupleExpr
    | RecordExpr
    | BagExpr
    | ListExpr
    | RangeExpr
    | Field
    | Attribute
    | Children
    | Nth
    | Index
    | Slice
    | Unary
    | Binary
    | IfExpr
    | LetExpr
    | CaseExpr
    | Lambda
    | Ascribe
    | Call
    | Apply
    | Select
    | Quantified
    | Repeat
    | Incr
    | SourceExpr
    | XmlElement
)

SourceArg: TypeAlias = (
    Expr | TypeArg | TagsArg | XPathArg | DeletionsArg | TaggedArg | ChangesArg | KeyArg | VersionArg | OptionArg
)


def names_in(node: Node) -> frozenset[str]:
    """The names that occur in an expression."""
    return frozenset(each.name for each in nodes(node) if isinstance(each, Name))
