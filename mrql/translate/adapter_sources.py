"""Streams that an adapter reads: a database, a socket, or what a module in Python makes of anything."""

from __future__ import annotations

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.translate.coercion import resolve
from mrql.translate.python_imports import must_be_allowed
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import arguments_of


@attrs.frozen
class Kind:
    """A kind of source that is no files, by its name in a query."""

    name: str
    example: str
    """The strings that it is given."""
    names_adapter: bool = False
    """Whether the query says what reads it."""


_KINDS = (
    Kind("postgresql", '"postgresql://host/db?table=t&column=id"'),
    Kind("socket", '"host:port"'),
    Kind(Format.ADAPTER.value, '"module:name", "…"', names_adapter=True),
)
ADAPTERS = {kind.name: kind for kind in _KINDS}
"""The kinds of adapters, those that come with the package and one's own."""


def adapted(source: syntax.SourceExpr, kind: Kind, name: str | None, known: Globals) -> SourceSpec:
    """The description of a stream that an adapter reads.

    Raises: UserError when an argument is missing, or one too many.
    """
    arguments = arguments_of(source, known)
    if kind.names_adapter:
        must_be_allowed("an adapter", source.span, known)
    if source.kind is not syntax.SourceKind.STREAM:
        hint = f"stream({source.format}, …); mrql run reads all of it"
        raise UserError(f"what is read with `{source.format}` is a stream", source.span, hint)
    others = (*arguments.options, arguments.tags, arguments.xpath, arguments.deletions, arguments.tagged)
    wrong = next((other for other in others if other is not None), None)
    if wrong is not None:
        raise UserError(f"`{source.format}` takes strings and a type only", wrong.span)
    texts = [text.value for text in arguments.strings]
    if not kind.names_adapter:
        texts.insert(0, kind.name)
    if len(texts) != 2:
        hint = f"stream({source.format}, {kind.example}, …)"
        raise UserError(f"`{source.format}` is told where to read from", source.span, hint)
    if source.format == "socket":
        if arguments.row is not None:
            raise UserError("the rows of a socket are strings", arguments.row.span, "leave the type out")
        row: Type = ty.STRING
    elif arguments.row is None:
        raise UserError(f"`{source.format}` needs the type of its rows", source.span, "add type(<id: long>), say")
    else:
        row = resolve(arguments.row.type, known)
    return SourceSpec(
        name=name or source.format,
        stream=True,
        format=Format.ADAPTER,
        path=texts[1],
        row=row,
        # What others read may take rows away again; what these read only grows.
        tagged=kind.names_adapter,
        adapter=texts[0],
        span=source.span,
    )
