"""Sources that a program hands over: `stream(spark, "name")`, and `source(table, "catalog.name")` of its session."""

from __future__ import annotations

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import HandedOver, SourceSpec
from mrql.algebra.errors import UserError
from mrql.translate.coercion import resolve
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import arguments_of
from mrql.translate.source_rows import found_row


def handed_over(source: syntax.SourceExpr, kind: HandedOver, known: Globals) -> SourceSpec:
    """The description of a source that a program hands over by name. The type of its rows is written, or known to the
    program.

    Raises: UserError where it is the other kind of source, has no name, or has arguments that are for files.
    """
    arguments = arguments_of(source, known)
    example = f"{kind.called}({source.format}, {kind.example}, …)"
    if (source.kind is syntax.SourceKind.STREAM) is not kind.stream:
        what = "a stream" if kind.stream else "a static source"
        raise UserError(f"what is read with `{source.format}` is {what}", source.span, example)
    wrong = arguments.other_than(syntax.TypeArg)
    if isinstance(wrong, syntax.KeyArg | syntax.VersionArg | syntax.ChangesArg):
        hint = 'a program says it of its view: `query.view(spark, keys={"orders": "id"})`'
        raise UserError(f"`{source.format}` takes one name, and a type", wrong.span, hint)
    if wrong is not None or len(arguments.strings) != 1:
        span = source.span if wrong is None else wrong.span
        raise UserError(f"`{source.format}` takes one name, and a type", span, example)
    name = arguments.strings[0]
    if kind.stream and not name.value.isidentifier():
        raise UserError(f'"{name.value}" cannot be the name of an argument in Python', name.span, example)
    spec = SourceSpec(
        name=name.value if kind.stream else name.value.rpartition(".")[2],
        stream=kind.stream,
        format=kind.format,
        path=name.value,
        row=ty.UNIT,
        # Only the program knows whether a view is for insertions only.
        tagged=kind.stream,
        span=source.span,
    )
    row = found_row(spec, known) if arguments.row is None else resolve(arguments.row.type, known)
    return attrs.evolve(spec, row=row)
