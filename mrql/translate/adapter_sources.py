"""Streams that an adapter reads (a database, a socket, or anything by a Python module), and tables with a log."""

from __future__ import annotations

from pathlib import Path

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import ADAPTER, Connector, Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.parser.paths import path_in
from mrql.translate.coercion import resolve
from mrql.translate.python_imports import must_be_allowed
from mrql.translate.row_keys import with_key
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import Arguments, arguments_of, known_number
from mrql.translate.source_rows import found_row, with_row


def adapted(
    source: syntax.SourceExpr, connector: Connector, name: str | None, known: Globals, base: Path
) -> SourceSpec:
    """The description of a stream that an adapter reads, or of a table with a log.

    Raises: UserError when an argument is missing, or one too many.
    """
    arguments = arguments_of(source, known)
    if connector.files is not None:
        return _versioned(source, connector, connector.files, arguments, name or connector.name, known, base)
    names_adapter = connector.adapter is None
    if names_adapter:
        must_be_allowed("an adapter", source.span, known)
    if source.kind is not syntax.SourceKind.STREAM:
        hint = f"stream({source.format}, …); mrql run reads all of it"
        raise UserError(f"what is read with `{source.format}` is a stream", source.span, hint)
    _takes_only(source, arguments, "strings, a type and a key", syntax.TypeArg, syntax.KeyArg, syntax.VersionArg)
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
    elif arguments.row is None and connector.row_type is not None:
        row = None
    elif arguments.row is None:
        raise UserError(f"`{source.format}` needs the type of its rows", source.span, "add type(<id: long>), say")
    else:
        row = resolve(arguments.row.type, known)
    spec = SourceSpec(
        name=name or source.format,
        stream=True,
        format=ADAPTER,
        path=texts[1],
        row=ty.UNIT if row is None else row,
        found=row is None,
        # An adapter that a query names may delete rows; those of the package do not, except for logs of changes.
        tagged=names_adapter or connector.is_log,
        is_log=connector.is_log,
        adapter=texts[0],
        span=source.span,
    )
    if row is None:
        spec = attrs.evolve(spec, row=found_row(spec, known))
    return with_key(spec, arguments)


def _versioned(
    source: syntax.SourceExpr,
    connector: Connector,
    files: Format,
    arguments: Arguments,
    name: str,
    known: Globals,
    base: Path,
) -> SourceSpec:
    """The description of a table with a log: a stream reads its versions one after the other, a source one of them.

    Raises: UserError when an argument is missing, or one too many.
    """
    is_stream = source.kind is syntax.SourceKind.STREAM
    what = "the directory of a table, a type and version(…)"
    _takes_only(source, arguments, what, syntax.TypeArg, syntax.VersionArg)
    if len(arguments.strings) != 1:
        hint = f"{source.kind.value}({source.format}, {connector.example})"
        raise UserError(f"`{source.format}` is told the directory of a table", source.span, hint)
    if is_stream and arguments.version is not None:
        hint = f"leave it out; source({source.format}, …, version(…)) is the table as it was"
        raise UserError("a stream begins with the table as it is, and has no version", arguments.version.span, hint)
    (path,) = arguments.strings
    version = arguments.version
    spec = SourceSpec(
        name=name,
        stream=is_stream,
        format=files,
        path=str(path_in(base, path.value, path.span)),
        row=ty.UNIT,
        missing_columns=True,  # in files that are older than the column
        adapter=connector.name,
        is_log=is_stream,
        version=None if version is None else known_number(version.which, known, "a version"),
        span=source.span,
    )
    return with_row(spec, source, arguments, known)


def _takes_only(source: syntax.SourceExpr, arguments: Arguments, what: str, *kinds: type[syntax.SourceArg]) -> None:
    """Raises: UserError at an argument of another kind."""
    wrong = arguments.other_than(*kinds)
    if wrong is not None:
        raise UserError(f"`{source.format}` takes {what} only", wrong.span)
