"""`source(…)` and `stream(…)`: where the rows lie and of which type they are."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.catalog import ADAPTER, Always, Column, Columns, Connector, Records, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.span import Span
from mrql.algebra.terms import Stream
from mrql.algebra.types import Type
from mrql.parser.paths import path_in
from mrql.syntax import nodes as syntax
from mrql.translate.coercion import no_duplicates, resolve
from mrql.translate.expression import translate
from mrql.translate.python_imports import must_be_allowed
from mrql.translate.scope import Globals, Scope


@attrs.define
class Arguments:
    """The arguments of a source, sorted by what they are."""

    strings: list[syntax.StringLit] = attrs.Factory(list)
    row: syntax.TypeArg | None = None
    options: list[syntax.OptionArg] = attrs.Factory(list)
    tags: syntax.TagsArg | None = None
    xpath: syntax.XPathArg | None = None
    deletions: syntax.StringLit | None = None
    tagged: syntax.TaggedArg | None = None


def declare(source: syntax.SourceExpr, name: str | None, known: Globals, base: Path) -> SourceSpec:
    """The description of a source; its name is the one it is bound to, or else that of its directory or file.

    Raises: UserError when an argument is missing, or of a kind or format that cannot be read yet.
    """
    catalog = known.catalog
    if source.format in catalog.connectors:
        return _adapted(source, catalog.connectors[source.format], name, known)
    if source.format not in catalog.formats:
        named = ", ".join(catalog.names)
        raise UserError(f"unknown format `{source.format}`", source.span, f"formats that are read: {named}")
    format = catalog.formats[source.format]
    arguments = _arguments(source, known)
    if not arguments.strings:
        raise UserError(
            f"`{source.format}` needs a path", source.span, f'{source.kind.value}({source.format}, "path", …)'
        )
    path, *rest = arguments.strings
    if len(rest) > int("delimiter" in format.takes):
        raise UserError("one argument too many", rest[-1].span)
    resolved = str(path_in(base, path.value, path.span))
    gone = arguments.deletions
    spec = SourceSpec(
        name=name or _name_from(path.value),
        stream=source.kind is syntax.SourceKind.STREAM,
        format=format,
        path=resolved,
        row=ty.UNIT,
        delimiter=rest[0].value if rest else ",",
        header=any(option.name == "header" for option in arguments.options),
        missing_columns=any(option.name == "allowMissingColumns" for option in arguments.options),
        multiline=any(option.name == "multiline" for option in arguments.options),
        tags=tuple(dict.fromkeys(arguments.tags.tags)) if arguments.tags else (),
        deletions=None if gone is None else str(path_in(base, gone.value, gone.span)),
        tagged=arguments.tagged is not None,
        span=source.span,
    )
    _check_deletions(spec, arguments, known)
    _check_format(spec, source, arguments, known)
    return _with_row(spec, source, arguments, known)


def _adapted(source: syntax.SourceExpr, connector: Connector, name: str | None, known: Globals) -> SourceSpec:
    """The description of a stream that an adapter reads.

    Raises: UserError when an argument is missing, or one too many.
    """
    arguments = _arguments(source, known)
    names_adapter = connector.adapter is None
    if names_adapter:
        must_be_allowed("an adapter", source.span, known)
    if source.kind is not syntax.SourceKind.STREAM:
        hint = f"stream({source.format}, …); mrql run reads all of it"
        raise UserError(f"what is read with `{source.format}` is a stream", source.span, hint)
    others = (*arguments.options, arguments.tags, arguments.xpath, arguments.deletions, arguments.tagged)
    wrong = next((other for other in others if other is not None), None)
    if wrong is not None:
        raise UserError(f"`{source.format}` takes strings and a type only", wrong.span)
    texts = [text.value for text in arguments.strings]
    if not names_adapter:
        texts.insert(0, connector.name)
    if len(texts) != 2:
        hint = f"stream({source.format}, {connector.example}, …)"
        raise UserError(f"`{source.format}` is told where to read from", source.span, hint)
    if connector.row is not None:
        if arguments.row is not None:
            what = connector.row.called
            raise UserError(f"the rows of a {source.format} are {what}", arguments.row.span, "leave the type out")
        row = connector.row.type
    elif arguments.row is None:
        raise UserError(f"`{source.format}` needs the type of its rows", source.span, "add type(<id: long>), say")
    else:
        row = resolve(arguments.row.type, known)
    return SourceSpec(
        name=name or source.format,
        stream=True,
        format=ADAPTER,
        path=texts[1],
        row=row,
        # What others read may take rows away again; what these read only grows.
        tagged=names_adapter,
        adapter=texts[0],
        span=source.span,
    )


def xpath_of(source: syntax.SourceExpr) -> str | None:
    """The path that leads from a row to what is wanted of it."""
    return next((arg.path for arg in source.args if isinstance(arg, syntax.XPathArg)), None)


def _check_format(spec: SourceSpec, source: syntax.SourceExpr, arguments: Arguments, known: Globals) -> None:
    """What only some formats have."""
    takes = spec.format.takes
    if "tags" in takes:
        if arguments.tags is None:
            hint = f'{source.kind.value}({spec.format.name}, "path", {{"tag"}})'
            raise UserError(f"{spec.format} source needs the tags of the elements that are its rows", source.span, hint)
        bad = next((tag for tag in arguments.tags.tags if not _TAG.fullmatch(tag)), None)
        if bad is not None:
            raise UserError(f'"{bad}" is not the tag of an element', arguments.tags.span)
    for what, wrong in (("tags", arguments.tags), ("xpath", arguments.xpath)):
        if wrong is not None and what not in takes:
            raise UserError(f"{spec.format} source has no {what}", wrong.span, f"they are for {_taking(what, known)}")
    if isinstance(spec.format.rows, Always) and arguments.row is not None:
        what = spec.format.rows.called
        raise UserError(f"the rows of {spec.format} source are {what}", arguments.row.span, "leave the type out")
    for option in arguments.options:
        if option.name not in takes:
            hint = f"it is for {_taking(option.name, known)}"
            raise UserError(f"{spec.format} source has no option `{option.name}`", option.span, hint)


_TAG = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?")


def _taking(argument: str, known: Globals) -> str:
    """The formats that take an argument."""
    return " and ".join(format.name for format in known.catalog.taking(argument))


def _check_deletions(spec: SourceSpec, arguments: Arguments, known: Globals) -> None:
    written = arguments.deletions or arguments.tagged
    if written is None:
        return
    if not spec.stream:
        raise UserError("nothing is taken away from a static source", written.span, "stream(…) makes it a stream")
    if arguments.tagged is not None and "tagged" not in spec.format.takes:
        those = " and ".join(map(str, known.catalog.taking("tagged")))
        raise UserError(f"the rows of {those} stream can be tagged; others have a directory of deletions", written.span)
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
            case syntax.OptionArg():
                sorted_arguments.options.append(arg)
            case syntax.DeletionsArg(path):
                sorted_arguments.deletions = _text(path, known, "a directory of deletions")
            case syntax.TaggedArg():
                sorted_arguments.tagged = arg
            case syntax.TagsArg():
                sorted_arguments.tags = arg
            case syntax.XPathArg():
                sorted_arguments.xpath = arg
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
    match spec.format.rows, arguments.row:
        case Columns(), None:
            hint = "add type((long, string)), say"
            raise UserError(f"{spec.format} source needs the type of its rows", source.span, hint)
        case Columns(), row:
            assert row is not None
            columns, row_type = _columns_of(row.type, spec, known)
            if len(spec.delimiter) != 1:
                raise UserError("a delimiter is one character", source.span)
            if spec.header and not isinstance(row_type, ty.RecordType):
                raise UserError("a header has names, and so must the columns", row.span, "type(<id: long>), say")
            if spec.missing_columns and not spec.header:
                raise UserError("only a header says that columns are missing", source.span, "add header")
            return attrs.evolve(spec, columns=columns, row=row_type)
        case Always(t), _:
            return attrs.evolve(spec, row=t)
        case Records(typed), None:
            spec = attrs.evolve(spec, found=spec.stream and not typed)
            return attrs.evolve(spec, row=_found_row(spec, known))
        case Records(typed), row:
            assert row is not None
            return attrs.evolve(spec, row=_given_record(spec, row, known, typed=typed))


def _given_record(spec: SourceSpec, row: syntax.TypeArg, known: Globals, *, typed: bool) -> Type:
    """The type of rows that are records, and may be anything where the files do not say of which types they are."""
    t = resolve(row.type, known)
    if t == ty.ANY and not typed:
        return t
    if not isinstance(t, ty.RecordType):
        raise UserError(f"rows of {spec.format.name} are records, not {t}", row.span)
    if not ty.is_json(t):
        what = "XML" if ty.XML in ty.walk(t) else "tuples"
        raise UserError(f"{spec.format} file holds records and collections, no {what}", row.span)
    if typed and ty.ANY in ty.walk(t):
        raise UserError(f"the columns of {spec.format} file have types of their own", row.span)
    return t


def _columns_of(written: syntax.TypeExpr, spec: SourceSpec, known: Globals) -> tuple[tuple[Column, ...], Type]:
    """The columns of a row, and the row's type without the columns of type `any`."""
    match written:
        case syntax.TupleType(items):
            columns = tuple(Column(f"_{i + 1}", _column(item, spec, known)) for i, item in enumerate(items))
            return columns, ty.TupleType(tuple(c.type for c in columns if c.type is not None))
        case syntax.RecordType(fields):
            no_duplicates([name for name, _ in fields], written.span)
            columns = tuple(Column(name, _column(item, spec, known)) for name, item in fields)
            return columns, ty.RecordType(tuple((c.name, c.type) for c in columns if c.type is not None))
        case syntax.NamedType(name) if name in known.types:
            return _known_row(known.types[name], spec, written.span)
        case _:
            t = _column(written, spec, known)
            if t is None:
                raise UserError("all columns are left out", written.span)
            return (Column("_1", t),), t


def _known_row(t: Type, spec: SourceSpec, span: Span) -> tuple[tuple[Column, ...], Type]:
    match t:
        case ty.TupleType(items):
            named = tuple((f"_{i + 1}", item) for i, item in enumerate(items))
        case ty.RecordType(fields):
            named = fields
        case other:
            named = (("_1", other),)
    for _, item in named:
        _must_be_atomic(item, spec, span)
    return tuple(Column(name, item) for name, item in named), t


def _column(written: syntax.TypeExpr, spec: SourceSpec, known: Globals) -> Type | None:
    if isinstance(written, syntax.NamedType) and written.name == "any":
        return None
    t = resolve(written, known)
    _must_be_atomic(t, spec, written.span)
    return t


def _must_be_atomic(t: Type, spec: SourceSpec, span: Span) -> None:
    if not isinstance(t, ty.Basic) or t in (ty.ANY, ty.XML):
        raise UserError(f"a column of {spec.format} file holds an atomic value, not {t}", span)


def _found_row(spec: SourceSpec, known: Globals) -> Type:
    """The type of the rows of a source that has none given."""
    try:
        return known.row_of(spec)
    except UserError as error:
        raise UserError(error.message, spec.span, error.hint) from None


def _name_from(path: str) -> str:
    """A readable name for a source that has none: its last directory or file."""
    stem = re.sub(r"\W", "_", Path(path.rstrip("/")).name.split(".")[0].replace("*", ""))
    return stem if stem and not stem[0].isdigit() else f"s_{stem}"
