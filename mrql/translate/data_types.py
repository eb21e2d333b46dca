"""Unions: `data Shape = Circle: double | Rectangle: (double, double) | Nothing`.

A value of a union is a record: its field `is` names the constructor, and the field of that name holds the constructor's
arguments; the other fields are missing:

    Circle(2.0)  =  <is: "Circle", Circle: 2.0, Rectangle: null>

As a missing part makes a comparison false, two such values are compared by their parts, with a constant in place of the
arguments of each other constructor; that is a join key like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import EQ
from mrql.algebra.functions.recursive_data import made, opened
from mrql.algebra.span import Span
from mrql.algebra.terms import Empty, Get, If, Let, Lit, Nth, Prim, PVar, Rec, Term, Tup, Var, one_or_tuple
from mrql.algebra.types import Type
from mrql.algebra.values.data import TAG, Data
from mrql.translate.coercion import coerce, resolve
from mrql.translate.scope import NODE, Constructor, Globals


def define(statement: syntax.DataDef, known: Globals) -> None:
    """Defines a union and its constructors.

    Raises: UserError for two constructors of one name, or one with the name `is`.
    """
    names = [constructor.name for constructor in statement.constructors]
    made = []
    for constructor in statement.constructors:
        if names.count(constructor.name) > 1:
            raise UserError(f"the constructor `{constructor.name}` is there twice", constructor.span)
        if constructor.name == TAG:
            raise UserError(f"`{constructor.name}` cannot be the name of a constructor", constructor.span)
        made.append((constructor.name, tuple(resolve(arg, known) for arg in constructor.args)))
    fields = tuple((name, _payload_type(args)) for name, args in made if args)
    union = ty.RecordType(((TAG, ty.STRING), *fields))
    data = known.data.get(statement.name)
    known.types[statement.name] = union if data is None else data
    known.unions[known.types[statement.name]] = tuple(names)
    for name, args in made:
        known.constructors[name] = Constructor(name, union, args, data)


def foresee(statements: Iterable[syntax.Statement], known: Globals) -> None:
    """Notes the recursive types of a file before its statements are translated: a type may be a part of one that is
    defined before it."""
    parts: dict[str, set[str]] = {}
    for statement in statements:
        match statement:
            case syntax.DataDef(name):
                parts[name] = _named_types(statement)
            case syntax.TypeDef(name, written):
                parts[name] = _named_types(written)
    for name in parts:
        known.data.pop(name, None)
    for statement in statements:
        if isinstance(statement, syntax.DataDef) and statement.name in _parts(statement.name, parts):
            known.data[statement.name] = ty.Basic(ty.Kind.DATA, statement.name)


def _parts(name: str, parts: Mapping[str, set[str]]) -> set[str]:
    """The types that are parts of a type, or of one of its parts."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for part in parts.get(waiting.pop(), set()) - found:
            found.add(part)
            waiting.append(part)
    return found


def _named_types(written: syntax.Node) -> set[str]:
    return {each.name for each in syntax.nodes(written) if isinstance(each, syntax.NamedType)}


def _payload_type(args: Sequence[Type]) -> Type:
    return args[0] if len(args) == 1 else ty.TupleType(tuple(args))


def construct(constructor: Constructor, args: Sequence[Term], span: Span) -> Term:
    """`C(e, …)`; several parts may be given as one tuple.

    Raises: UserError where the parts do not fit.
    """
    name, wanted = constructor.name, constructor.args
    if len(args) == 1 and len(wanted) > 1:
        payload: Term = args[0]
    elif len(args) == len(wanted):
        payload = one_or_tuple(args)
    else:
        takes = f"{len(wanted)} argument{'' if len(wanted) == 1 else 's'}"
        raise UserError(f"the constructor `{name}` takes {takes}, not {len(args)}", span)
    fields: list[tuple[str, Term]] = []
    for field, t in constructor.union.fields[1:]:
        fields.append((field, _made_of(constructor, payload, t, span) if field == name else Lit(None, t)))
    record = Rec(((TAG, Lit(name, ty.STRING)), *fields), span=span)
    return record if constructor.data is None else Prim(made(constructor.data, constructor.union), (record,), span=span)


ELEMENT = 'attributes are a bag of pairs, and children a list: `Node("a", {("k", "v")}, [CData("text")])`'


def _made_of(constructor: Constructor, payload: Term, t: Type, span: Span) -> Term:
    """The arguments of a constructor, coerced to their type.

    Raises: UserError where they do not fit; for an XML element, the hint describes the parts.
    """
    try:
        return coerce(payload, t, span, f"what `{constructor.name}` is made of")
    except UserError as error:
        hint = ELEMENT if constructor == NODE and error.hint is None else error.hint
        raise UserError(error.message, error.span, hint) from None


def record_of(value: Term, constructor: Constructor) -> Term:
    """The record of a value of a union, with its constructor and the arguments."""
    if constructor.data is None:
        return value
    return Prim(opened(constructor.data, constructor.union), (value,), span=value.span)


def is_constant(name: str, t: Type, known: Globals) -> bool:
    """Whether a name in a pattern is a constructor without parts, and not a new variable."""
    found = known.constructors.get(name)
    return found is not None and not found.args and found.type == t


# --- comparison ---------------------------------------------------------------------------------


def compared(value: Term, known: Globals) -> Term:
    """The term by which a value is compared: the value itself, unless it is a union or has one as a part."""
    if isinstance(value, Var | Get | Nth) or not _has_union(value.type, known):
        return _by_parts(value, known)
    v = PVar(known.names.fresh("v"), value.type)
    return Let(v, value, _by_parts(Var(v.name, v.type), known))


def _by_parts(value: Term, known: Globals) -> Term:
    t = value.type
    match t:
        case ty.RecordType(fields) if t in known.unions:
            tag = Get(value, TAG)
            parts = [_part(value, tag, name, own, known) for name, own in fields[1:]]
            return Tup((tag, *parts))
        case ty.TupleType(items) if _has_union(t, known):
            return Tup(tuple(_by_parts(Nth(value, i), known) for i in range(len(items))))
        case ty.RecordType(fields) if _has_union(t, known):
            return Tup(tuple(_by_parts(Get(value, name), known) for name, _ in fields))
        case _:
            return value


def _part(value: Term, tag: Term, name: str, t: Type, known: Globals) -> Term:
    made = Prim(EQ, (tag, Lit(name, ty.STRING)))
    payload = _by_parts(Get(value, name), known)
    return If(made, payload, _constant(payload.type))


def _has_union(t: Type, known: Globals) -> bool:
    match t:
        case ty.TupleType(items):
            return any(_has_union(item, known) for item in items)
        case ty.RecordType(fields):
            return t in known.unions or any(_has_union(item, known) for _, item in fields)
        case _:
            return False


def _constant(t: Type) -> Term:
    """Some value of a type without missing parts."""
    match t:
        case ty.Basic(ty.Kind.BOOL):
            return Lit(False, t)
        case ty.Basic(ty.Kind.STRING):
            return Lit("", t)
        case ty.Basic(ty.Kind.DATE):
            return Lit(date(1970, 1, 1), t)
        case ty.Basic(ty.Kind.TIMESTAMP):
            return Lit(datetime(1970, 1, 1), t)
        case ty.Basic(ty.Kind.BINARY):
            return Lit(b"", t)
        case ty.Basic(ty.Kind.FLOAT | ty.Kind.DOUBLE):
            return Lit(0.0, t)
        case ty.Basic(ty.Kind.ANY | ty.Kind.XML | ty.Kind.DATA):
            return Lit(Data("{}"), t)
        case ty.Basic():
            return Lit(0, t)
        case ty.TupleType(items):
            return Tup(tuple(map(_constant, items)))
        case ty.RecordType(fields):
            return Rec(tuple((name, _constant(item)) for name, item in fields))
        case ty.BagType() | ty.ListType():
            return Empty(t)
        case ty.Nothing():
            return Lit(None, t)
