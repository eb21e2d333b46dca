"""`source(…)` and `stream(…)`: where the rows lie and of which type they are."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluate import evaluate
from mrql.algebra.files import parquet_type
from mrql.algebra.sources import Column, Format, SourceSpec
from mrql.algebra.span import Span
from mrql.algebra.terms import Stream
from mrql.algebra.traversal import subterms
from mrql.algebra.types import Type
from mrql.scope import Globals, Scope
from mrql.translate import translate
from mrql.typing import not_yet, resolve

FORMATS: dict[str, Format] = {"line": Format.CSV, "csv": Format.CSV, "json": Format.JSON, "parquet": Format.PARQUET}


@attrs.define
class Arguments:
    """The arguments of a source, sorted by what they are."""

    strings: list[syntax.StringLit] = attrs.Factory(list)
    row: syntax.TypeArg | None = None
    header: bool = False
    deletions: syntax.StringLit | None = None
    tagged: syntax.TaggedArg | None = None


def declare(source: syntax.SourceExpr, name: str | None, known: Globals, base: Path) -> SourceSpec:
    """The description of a source; its name is the one it is bound to, or else that of its directory or file.

    Raises: UserError when an argument is missing, or of a kind or format that cannot be read yet.
    """
    if source.format not in FORMATS:
        raise not_yet(f"the format `{source.format}`", source.span, f"formats that can be read: {', '.join(FORMATS)}")
    format = FORMATS[source.format]
    arguments = _arguments(source, known)
    if not arguments.strings:
        raise UserError(
            f"`{source.format}` needs a path", source.span, f'{source.kind.value}({source.format}, "path", …)'
        )
    path, *rest = arguments.strings
    if len(rest) > (1 if format is Format.CSV else 0):
        raise UserError("one argument too many", rest[-1].span)
    resolved = str(base / path.value)
    spec = SourceSpec(
        name=name or _name_from(path.value),
        stream=source.kind is syntax.SourceKind.STREAM,
        format=format,
        path=resolved,
        row=ty.UNIT,
        delimiter=rest[0].value if rest else ",",
        header=arguments.header,
        deletions=str(base / arguments.deletions.value) if arguments.deletions else None,
        tagged=arguments.tagged is not None,
        span=source.span,
    )
    _check_deletions(spec, arguments)
    return _with_row(spec, source, arguments, known)


def _check_deletions(spec: SourceSpec, arguments: Arguments) -> None:
    written = arguments.deletions or arguments.tagged
    if written is None:
        return
    if not spec.stream:
        raise UserError("nothing is taken away from a static source", written.span, "stream(…) makes it a stream")
    if arguments.tagged is not None and spec.format is not Format.CSV:
        raise UserError("the rows of a csv stream can be tagged; others have a directory of deletions", written.span)
    if arguments.tagged is not None and arguments.deletions is not None:
        raise UserError("a stream is tagged or has a directory of deletions, not both", arguments.tagged.span)


def _arguments(source: syntax.SourceExpr, known: Globals) -> Arguments:
    sorted_arguments = Arguments()
    for given in source.args:
        arg = _text(given, known) if isinstance(given, syntax.Expr) else given
        match arg:
            case syntax.StringLit():
                sorted_arguments.strings.append(arg)
            case syntax.TypeArg():
                sorted_arguments.row = arg
            case syntax.OptionArg("header"):
                sorted_arguments.header = True
            case syntax.OptionArg(name):
                raise UserError(f"unknown option `{name}` of a source", arg.span, "known options: header")
            case syntax.DeletionsArg(path):
                sorted_arguments.deletions = _text(path, known, "a directory of deletions")
            case syntax.TaggedArg():
                sorted_arguments.tagged = arg
            case syntax.TagsArg() | syntax.XPathArg():
                raise not_yet("XML", arg.span)
    return sorted_arguments


def _text(arg: syntax.Expr, known: Globals, what: str = "a path or delimiter") -> syntax.StringLit:
    """A string that is written, or that is known before there are any data: `args[0] + "/left"`."""
    if isinstance(arg, syntax.StringLit):
        return arg
    term = translate(arg, Scope(known))
    value = None if term.type != ty.STRING or any(isinstance(t, Stream) for t in subterms(term)) else evaluate(term)
    if value is None:
        raise UserError(f"{what} must be a string", arg.span)
    return syntax.StringLit(value, arg.span)


def known_text(arg: syntax.Expr, known: Globals, what: str) -> str:
    """The value of a string that is known before there are any data.

    Raises: UserError, which says `what` it is, where it is not.
    """
    return _text(arg, known, what).value


def _with_row(spec: SourceSpec, source: syntax.SourceExpr, arguments: Arguments, known: Globals) -> SourceSpec:
    match spec.format, arguments.row:
        case Format.CSV, None:
            raise UserError("a csv source needs the type of its rows", source.span, "add type((long, string)), say")
        case Format.CSV, row:
            assert row is not None
            columns, row_type = _csv_row(row.type, known)
            if len(spec.delimiter) != 1:
                raise UserError("a delimiter is one character", source.span)
            return attrs.evolve(spec, columns=columns, row=row_type)
        case Format.JSON, None:
            raise UserError("a json source needs the type of its rows", source.span, "add type(<A: long>), say")
        case Format.PARQUET, None:
            return attrs.evolve(spec, row=_parquet_row(spec))
        case _, row:
            assert row is not None
            t = resolve(row.type, known)
            if not isinstance(t, ty.RecordType):
                raise UserError(f"rows of {spec.format.value} are records, not {t}", row.span)
            if any(isinstance(part, ty.TupleType) for part in ty.walk(t)):
                raise UserError(f"a {spec.format.value} file holds records and collections, no tuples", row.span)
            return attrs.evolve(spec, row=t)


def _csv_row(written: syntax.TypeExpr, known: Globals) -> tuple[tuple[Column, ...], Type]:
    """The columns of a CSV row, and the row's type without the columns of type `any`."""
    match written:
        case syntax.TupleType(items):
            columns = tuple(Column(f"_{i + 1}", _column(item, known)) for i, item in enumerate(items))
            return columns, ty.TupleType(tuple(c.type for c in columns if c.type is not None))
        case syntax.RecordType(fields):
            columns = tuple(Column(name, _column(item, known)) for name, item in fields)
            return columns, ty.RecordType(tuple((c.name, c.type) for c in columns if c.type is not None))
        case syntax.NamedType(name) if name in known.types:
            return _known_row(known.types[name], written.span)
        case _:
            t = _column(written, known)
            if t is None:
                raise UserError("all columns are left out", written.span)
            return (Column("_1", t),), t


def _known_row(t: Type, span: Span) -> tuple[tuple[Column, ...], Type]:
    match t:
        case ty.TupleType(items):
            named = tuple((f"_{i + 1}", item) for i, item in enumerate(items))
        case ty.RecordType(fields):
            named = fields
        case other:
            named = (("_1", other),)
    for _, item in named:
        _must_be_atomic(item, span)
    return tuple(Column(name, item) for name, item in named), t


def _column(written: syntax.TypeExpr, known: Globals) -> Type | None:
    if isinstance(written, syntax.NamedType) and written.name == "any":
        return None
    t = resolve(written, known)
    _must_be_atomic(t, written.span)
    return t


def _must_be_atomic(t: Type, span: Span) -> None:
    if not isinstance(t, ty.Basic):
        raise UserError(f"a column of a csv file holds an atomic value, not {t}", span)


def _parquet_row(spec: SourceSpec) -> Type:
    try:
        return parquet_type(spec)
    except UserError as error:
        raise UserError(error.message, spec.span, error.hint) from None


def _name_from(path: str) -> str:
    """A readable name for a source that has none: its last directory or file."""
    stem = re.sub(r"\W", "_", Path(path.rstrip("/")).name.split(".")[0].replace("*", ""))
    return stem if stem and not stem[0].isdigit() else f"s_{stem}"
