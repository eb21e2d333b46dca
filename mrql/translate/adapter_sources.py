"""Streams that an adapter reads: a database, a socket, or what a module in Python makes of anything."""

from __future__ import annotations

from mrql import syntax
from mrql.algebra.catalog import ADAPTER, Connector, SourceSpec
from mrql.algebra.errors import UserError
from mrql.translate.coercion import resolve
from mrql.translate.python_imports import must_be_allowed
from mrql.translate.row_keys import with_key
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import arguments_of


def adapted(source: syntax.SourceExpr, connector: Connector, name: str | None, known: Globals) -> SourceSpec:
    """The description of a stream that an adapter reads.

    Raises: UserError when an argument is missing, or one too many.
    """
    arguments = arguments_of(source, known)
    names_adapter = connector.adapter is None
    if names_adapter:
        must_be_allowed("an adapter", source.span, known)
    if source.kind is not syntax.SourceKind.STREAM:
        hint = f"stream({source.format}, …); mrql run reads all of it"
        raise UserError(f"what is read with `{source.format}` is a stream", source.span, hint)
    given = arguments
    others = (*given.options, given.tags, given.xpath, given.deletions, given.tagged, given.changes)
    wrong = next((other for other in others if other is not None), None)
    if wrong is not None:
        raise UserError(f"`{source.format}` takes strings, a type and a key only", wrong.span)
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
    spec = SourceSpec(
        name=name or source.format,
        stream=True,
        format=ADAPTER,
        path=texts[1],
        row=row,
        # What others read may take rows away again; what these read only grows, but for logs of changes.
        tagged=names_adapter or connector.is_log,
        is_log=connector.is_log,
        adapter=texts[0],
        span=source.span,
    )
    return with_key(spec, arguments)
