"""`source(…)` and `stream(…)`: where the rows are, and their type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Always, SourceSpec, TextOptions
from mrql.algebra.errors import UserError
from mrql.parser.expressions import OPTIONS
from mrql.parser.paths import path_in
from mrql.translate.adapter_sources import adapted
from mrql.translate.envelopes import with_changes
from mrql.translate.handed_over import handed_over
from mrql.translate.other_names import FORMATS_HERE
from mrql.translate.row_keys import with_key
from mrql.translate.scope import Globals, did_you_mean
from mrql.translate.source_arguments import SEVERAL_FILES, Arguments, arguments_of
from mrql.translate.source_options import column_formats, must_have_times, options_of, sample_of, text_options
from mrql.translate.source_rows import with_row


def declare(source: syntax.SourceExpr, name: str | None, known: Globals, base: Path) -> SourceSpec:
    """The description of a source; its name is the one it is bound to, or else that of its directory or file.

    Raises: UserError when the format is unknown, or an argument is missing or does not fit it.
    """
    catalog = known.catalog
    if source.format in catalog.connectors:
        return adapted(source, catalog.connectors[source.format], name, known, base)
    if source.format in catalog.handed_over:
        return handed_over(source, catalog.handed_over[source.format], known)
    if source.format not in catalog.formats:
        known_here = f"formats that are read: {', '.join(catalog.names)}"
        hint = FORMATS_HERE.get(source.format.lower()) or did_you_mean(source.format, catalog.names) or known_here
        raise UserError(f"unknown format `{source.format}`", source.span, hint)
    format = catalog.formats[source.format]
    arguments = arguments_of(source, known)
    if not arguments.strings:
        raise UserError(
            f"`{source.format}` needs a path", source.span, f'{source.kind.value}({source.format}, "path", …)'
        )
    if arguments.version is not None and arguments.key is None and source.kind is not syntax.SourceKind.STREAM:
        raise UserError(f"{format} source has no versions", arguments.version.span, "they are for tables with a log")
    path, *rest = arguments.strings
    if len(rest) > int("delimiter" in format.takes):
        raise UserError("one argument too many", rest[-1].span)
    delimiter = rest[0].value if rest else ","
    options = options_of(arguments, format, known)
    formats = column_formats(arguments, format, known)
    texts = attrs.evolve(
        _text_options(arguments, options, delimiter),
        date_formats=formats.get("dateFormat", ()),
        timestamp_formats=formats.get("timestampFormat", ()),
    )
    resolved = str(path_in(base, path.value, path.span))
    gone = arguments.deletions
    spec = SourceSpec(
        name=name or _name_from(path.value),
        stream=source.kind is syntax.SourceKind.STREAM,
        format=format,
        path=resolved,
        row=ty.UNIT,
        delimiter=delimiter,
        header="header" in options,
        missing_columns="allowMissingColumns" in options,
        no_new_columns="failOnNewColumns" in options,
        multiline="multiline" in options,
        truncate_timestamps="truncateTimestamps" in options,
        sample=_sample(arguments, options),
        texts=texts,
        surplus=format.surplus,
        tags=tuple(dict.fromkeys(arguments.tags.tags)) if arguments.tags else (),
        deletions=None if gone is None else str(path_in(base, gone.value, gone.span)),
        tagged=arguments.tagged is not None,
        span=source.span,
    )
    _check_deletions(spec, arguments, known)
    _check_format(spec, source, arguments, known)
    spec = with_changes(with_row(spec, source, arguments, known), arguments, catalog)
    must_have_times(arguments, spec, known)
    return with_key(spec, arguments)


def xpath_of(source: syntax.SourceExpr) -> syntax.XPathArg | None:
    """The argument with the path from a row to the parts to read, if there is one."""
    return next((arg for arg in source.args if isinstance(arg, syntax.XPathArg)), None)


def _check_format(spec: SourceSpec, source: syntax.SourceExpr, arguments: Arguments, known: Globals) -> None:
    """Raises: UserError at an argument that the format does not take, or where one that it needs is missing."""
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
            hint = f"they are for {known.catalog.names_taking(what)}"
            more = f"; several files are a pattern: {SEVERAL_FILES}" if what == "tags" else ""
            raise UserError(f"{spec.format} source has no {what}", wrong.span, hint + more)
    if isinstance(spec.format.rows, Always) and arguments.row is not None:
        what = spec.format.rows.called
        raise UserError(f"the rows of {spec.format} source are {what}", arguments.row.span, "leave the type out")
    if arguments.changes is not None and "changes" not in takes:
        message = f"changes in an envelope are read of {known.catalog.names_taking('changes')}"
        raise UserError(message, arguments.changes.span, "a DataFrame of a change feed is taken by a view in Python")


def _text_options(arguments: Arguments, options: Mapping[str, Sequence[str]], delimiter: str) -> TextOptions:
    """Raises: UserError at the first option that is invalid, by itself or with the given quote."""
    quotes = {name: options[name] for name in ("quote",) if name in options}
    for option in sorted(arguments.options, key=lambda option: option.name not in quotes):
        try:
            text_options({**quotes, option.name: options[option.name]}, delimiter)
        except UserError as error:
            raise UserError(error.message, option.span, error.hint or OPTIONS[option.name]) from None
    return text_options(options, delimiter)


def _sample(arguments: Arguments, options: Mapping[str, Sequence[str]]) -> int | None:
    """The number of rows in which their type is found, if it is given.

    Raises: UserError where a type is given, or the number is 0.
    """
    option = next((option for option in arguments.options if option.name == "sample"), None)
    if option is not None and arguments.row is not None:
        raise UserError("`sample` says how a type is found, and one is given", option.span, "leave one of them out")
    try:
        return sample_of(options)
    except UserError as error:
        raise UserError(error.message, None if option is None else option.span, error.hint) from None


_TAG = re.compile(r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?")


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
    if spec.deletions is not None and Path(spec.deletions).resolve() == Path(spec.path).resolve():
        raise UserError(f"{spec.path} would be read twice, as what comes and as what goes", written.span)
    for sign, called in ((spec.texts.comment, "comment"), (spec.texts.quote, "quote")):
        if arguments.tagged is not None and sign in ("+", "-"):
            raise UserError(f"the tag {sign} is no {called}", arguments.tagged.span)


def _name_from(path: str) -> str:
    """A readable name for a source that has none: its last directory or file."""
    stem = re.sub(r"\W", "_", Path(path.rstrip("/")).name.split(".")[0].replace("*", ""))
    return stem if stem and not stem[0].isdigit() else f"s_{stem}"
