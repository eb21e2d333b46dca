"""The type of the rows of a source, and their columns."""

from __future__ import annotations

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Always, Column, Columns, Records, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.translate.coercion import resolve
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import Arguments


def with_row(spec: SourceSpec, source: syntax.SourceExpr, arguments: Arguments, known: Globals) -> SourceSpec:
    """The description of a source with the type of its rows: that of its format, the one that is given, or the one that
    is found in its files.

    Raises: UserError where there is none, or rows of the format cannot have it.
    """
    if isinstance(spec.format.rows, Columns):
        _must_be_columns(spec, source.span)
    match spec.format.rows, arguments.row:
        case Always(t), _:
            return attrs.evolve(spec, row=t)
        case rows, None:
            of_all_files = isinstance(rows, Records) and rows.typed and not spec.versioned
            spec = attrs.evolve(spec, found=spec.stream, of_all_files=of_all_files)
            found = found_row(spec, known)
            fields = found.fields if isinstance(rows, Columns) and isinstance(found, ty.RecordType) else ()
            return attrs.evolve(spec, row=found, columns=tuple(Column(name, t) for name, t in fields))
        case Columns(), row:
            columns, row_type = _columns_of(row.type, spec, known)
            if spec.header and not isinstance(row_type, ty.RecordType):
                raise UserError("a header has names, and so must the columns", row.span, "type(<id: long>), say")
            return attrs.evolve(spec, columns=columns, row=row_type)
        case Records(typed), row:
            is_any = not typed and arguments.changes is None and arguments.key is None
            given = _given_record(spec, row, known, typed=typed, is_any=is_any)
            if spec.no_new_columns and not isinstance(given, ty.RecordType):
                raise UserError(f"rows of type {given} have no columns that could be new", row.span)
            return attrs.evolve(spec, row=given)


def must_be_delimiter(delimiter: str, quote: str, span: Span | None = None) -> None:
    """Raises: UserError where a text cannot be the delimiter of fields."""
    if len(delimiter) != 1:
        raise UserError("a delimiter is one character", span)
    if delimiter in "\r\n":
        raise UserError("a delimiter is no line end, which stands between records", span)
    if delimiter == quote:
        raise UserError(f"a delimiter is not the quote, {quote}, which stands around fields", span)


def _must_be_columns(spec: SourceSpec, span: Span) -> None:
    """Raises: UserError where the delimiter is invalid, or an option on columns needs a header."""
    must_be_delimiter(spec.delimiter, spec.texts.quote, span)
    if spec.missing_columns and not spec.header:
        raise UserError("only a header says that columns are missing", span, "add header")
    if spec.no_new_columns and not spec.header:
        hint = "add header, or leave it out: without one, a record has as many fields as there are columns"
        raise UserError("only a header says that columns are new", span, hint)


def _given_record(spec: SourceSpec, row: syntax.TypeArg, known: Globals, *, typed: bool, is_any: bool) -> Type:
    """The given type of the rows of a format of records; with `is_any` they may be any JSON value."""
    t = resolve(row.type, known)
    if is_any and ty.is_json(t):
        return t
    if not isinstance(t, ty.RecordType):
        raise UserError(f"rows of {spec.format.name} are records, not {t}", row.span)
    if not ty.is_json(_without_maps(t) if typed else t):
        what = "XML" if ty.XML in ty.walk(t) else "tuples"
        raise UserError(f"{spec.format} file holds records and collections, no {what}", row.span)
    if typed and ty.ANY in ty.walk(t):
        raise UserError(f"the columns of {spec.format} file have types of their own", row.span)
    return t


def _without_maps(t: Type) -> Type:
    """The type with bags of records in place of bags of pairs, which files have as maps."""
    match t:
        case ty.BagType(ty.TupleType((key, value))):
            return ty.BagType(ty.RecordType((("key", _without_maps(key)), ("value", _without_maps(value)))))
        case ty.BagType(item):
            return ty.BagType(_without_maps(item))
        case ty.ListType(item):
            return ty.ListType(_without_maps(item))
        case ty.RecordType(fields):
            return ty.RecordType(tuple((name, _without_maps(item)) for name, item in fields))
        case _:
            return t


def _columns_of(written: syntax.TypeExpr, spec: SourceSpec, known: Globals) -> tuple[tuple[Column, ...], Type]:
    """The columns of a row, and the row's type without the columns of type `any`."""
    t = resolve(written, known)
    match t:
        case ty.TupleType(items):
            parts = tuple((f"_{i + 1}", item) for i, item in enumerate(items))
        case ty.RecordType(fields):
            parts = fields
        case _:
            parts = (("_1", t),)
    places = _places(written, len(parts))
    columns = tuple(
        Column(name, _type_of_column(item, spec, place)) for (name, item), place in zip(parts, places, strict=True)
    )
    read = tuple((column.name, column.type) for column in columns if column.type is not None)
    match t:
        case ty.TupleType():
            return columns, ty.TupleType(tuple(item for _, item in read))
        case ty.RecordType():
            left_out = tuple((column.name, str(ty.ANY)) for column in columns if column.type is None)
            return columns, ty.RecordType(read, left_out=left_out)
        case _ if not read:
            raise UserError("all columns are left out", written.span)
        case _:
            return columns, t


def _places(written: syntax.TypeExpr, columns: int) -> tuple[Span, ...]:
    """Where the type of each column is written; the place of the whole type, where that is a name."""
    match written:
        case syntax.TupleType(items):
            return tuple(item.span for item in items)
        case syntax.RecordType(fields):
            return tuple(item.span for _, item in fields)
        case _:
            return (written.span,) * columns


def _type_of_column(t: Type, spec: SourceSpec, place: Span) -> Type | None:
    """The type of a column; None for one that is left out."""
    if t == ty.ANY:
        return None
    if not isinstance(t, ty.Basic) or t == ty.XML:
        raise UserError(f"a column of {spec.format} file holds an atomic value, not {t}", place)
    return t


def found_row(spec: SourceSpec, known: Globals) -> Type:
    """The type of the rows of a source for which none is given.

    Raises: UserError, at the source, where none can be found.
    """
    try:
        return known.row_of(spec)
    except UserError as error:
        raise UserError(error.message, spec.span, error.hint) from None
