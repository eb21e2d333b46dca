"""`source(…)` and `stream(…)`: where the rows lie and of which type they are."""

from __future__ import annotations

import re
from pathlib import Path

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.parser.paths import path_in
from mrql.translate.adapter_sources import ADAPTERS, adapted
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import Arguments, arguments_of
from mrql.translate.source_rows import with_article, with_row

FORMATS: dict[str, Format] = {"line": Format.CSV, **{format.value: format for format in Format}}


def declare(source: syntax.SourceExpr, name: str | None, known: Globals, base: Path) -> SourceSpec:
    """The description of a source; its name is the one it is bound to, or else that of its directory or file.

    Raises: UserError when an argument is missing, or of a kind or format that cannot be read yet.
    """
    if source.format in ADAPTERS:
        return adapted(source, ADAPTERS[source.format], name, known)
    if source.format not in FORMATS:
        named = ", ".join(dict.fromkeys((*FORMATS, *ADAPTERS)))
        raise UserError(f"unknown format `{source.format}`", source.span, f"formats that are read: {named}")
    format = FORMATS[source.format]
    arguments = arguments_of(source, known)
    if not arguments.strings:
        raise UserError(
            f"`{source.format}` needs a path", source.span, f'{source.kind.value}({source.format}, "path", …)'
        )
    path, *rest = arguments.strings
    if len(rest) > (1 if format is Format.CSV else 0):
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
    _check_deletions(spec, arguments)
    _check_format(spec, source, arguments)
    return with_row(spec, source, arguments, known)


def xpath_of(source: syntax.SourceExpr) -> str | None:
    """The path that leads from a row to what is wanted of it."""
    return next((arg.path for arg in source.args if isinstance(arg, syntax.XPathArg)), None)


def _check_format(spec: SourceSpec, source: syntax.SourceExpr, arguments: Arguments) -> None:
    """What only some formats have."""
    if spec.format is Format.XML:
        if arguments.tags is None:
            hint = f'{source.kind.value}(xml, "path", {{"tag"}})'
            raise UserError("an xml source needs the tags of the elements that are its rows", source.span, hint)
        bad = next((tag for tag in arguments.tags.tags if not _TAG.fullmatch(tag)), None)
        if bad is not None:
            raise UserError(f'"{bad}" is not the tag of an element', arguments.tags.span)
    elif arguments.tags is not None or arguments.xpath is not None:
        wrong = arguments.tags or arguments.xpath
        assert wrong is not None
        what = "tags" if wrong is arguments.tags else "xpath"
        raise UserError(f"{with_article(spec.format)} source has no {what}", wrong.span, "they are for xml")
    if spec.format in (Format.XML, Format.TEXT) and arguments.row is not None:
        rows = "XML elements" if spec.format is Format.XML else "strings"
        raise UserError(
            f"the rows of {with_article(spec.format)} source are {rows}", arguments.row.span, "leave the type out"
        )
    if spec.format is not Format.CSV and arguments.options:
        option = arguments.options[0]
        raise UserError(
            f"{with_article(spec.format)} source has no option `{option.name}`", option.span, "it is for csv"
        )


_TAG = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?")


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


def _name_from(path: str) -> str:
    """A readable name for a source that has none: its last directory or file."""
    stem = re.sub(r"\W", "_", Path(path.rstrip("/")).name.split(".")[0].replace("*", ""))
    return stem if stem and not stem[0].isdigit() else f"s_{stem}"
