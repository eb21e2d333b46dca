"""The options of a source: words, some of them with values, that have the names of Spark's readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, Records, SourceSpec, TextOptions
from mrql.algebra.errors import UserError
from mrql.algebra.functions.number_locales import number_locale
from mrql.algebra.functions.time_reading import field_pattern
from mrql.algebra.types import Type
from mrql.algebra.values.xml_elements import BLANKS
from mrql.parser.expressions import OPTIONS
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import OF_COLUMNS, Arguments, known_number, known_text

ANY_NUMBER = {"nullValue"}
"""The options that take one or more strings; the others whose example has a value take one."""
NUMBERS = {"sample"}
"""The options that take a number."""


def options_of(arguments: Arguments, format: Format, known: Globals) -> Mapping[str, tuple[str, ...]]:
    """The options of a source, each with its values as strings.

    Raises: UserError at an option that the format does not take, and at one with the wrong number of values.
    """
    found = {}
    for option in arguments.options:
        _must_be_taken(option, format, known)
        _must_be_as_many(option)
        found[option.name] = tuple(_given(option.name, value, known) for value in option.values)
    return found


Formats: TypeAlias = tuple[tuple[str, str], ...]
"""Columns, each with the pattern of its values."""


def column_formats(arguments: Arguments, format: Format, known: Globals) -> Mapping[str, Formats]:
    """The patterns that are for some columns, by the names of the options.

    Raises: UserError where a pattern is invalid, or a column has two.
    """
    found: dict[str, Formats] = {}
    for option in arguments.column_formats:
        _must_be_taken(option, format, known)
        pattern, *columns = (known_text(value, known, f"what `{option.name}` is given") for value in option.values)
        try:
            _pattern((pattern,), OF_COLUMNS[option.name])
        except UserError as error:
            raise UserError(error.message, option.span, OPTIONS[option.name]) from None
        of_option = found.get(option.name, ())
        twice = next((name for name in columns if name in dict(of_option) or columns.count(name) > 1), None)
        if twice is not None:
            raise UserError(f"`{option.name}` is given twice for the column `{twice}`", option.span)
        found[option.name] = (*of_option, *((name, pattern) for name in columns))
    return {name: tuple(sorted(formats)) for name, formats in found.items()}


def must_have_times(arguments: Arguments, spec: SourceSpec, known: Globals) -> None:
    """Raises: UserError where a pattern names a column that is not of its type, a date or a timestamp, and where it is
    for all of a source of records that has none, as files do not say which of their strings are some."""
    types = {column.name: column.type for column in spec.columns}
    if isinstance(spec.format.rows, Records):
        types = dict(spec.row.fields) if isinstance(spec.row, ty.RecordType) else {}
        _must_be_in_rows(arguments, spec.row)
    for option in arguments.column_formats:
        if spec.changes is not None:
            hint = f"`{option.name}` with the pattern alone is for all"
            raise UserError("columns of changes have no patterns of their own", option.span, hint)
        wanted = OF_COLUMNS[option.name]
        for name in (known_text(value, known, "the name of a column") for value in option.values[1:]):
            if types.get(name) == wanted:
                continue
            found = "is of type " + str(types[name] or ty.ANY) if name in types else "is not there"
            fitting = ", ".join(f"`{other}`" for other, t in types.items() if t == wanted) or "none"
            message = f"`{option.name}` is for columns of type {wanted}, and `{name}` {found}"
            raise UserError(message, option.span, f"of that type: {fitting}")


def _must_be_in_rows(arguments: Arguments, row: Type) -> None:
    """Raises: UserError where a pattern is for all values of a type, and the rows have none of it."""
    for option in arguments.options:
        wanted = OF_COLUMNS.get(option.name)
        if wanted is not None and wanted not in ty.walk(row):
            hint = f"`type(<at: {wanted}>)`, say: without a type, texts are strings"
            raise UserError(
                f"`{option.name}` is for values of type {wanted}, and the rows have none", option.span, hint
            )


def _given(name: str, value: syntax.Expr, known: Globals) -> str:
    """A value of an option, as a string.

    Raises: UserError where it is not known before there are any data.
    """
    what = f"what `{name}` is given"
    return str(known_number(value, known, what)) if name in NUMBERS else known_text(value, known, what)


def _must_be_taken(option: syntax.OptionArg, format: Format, known: Globals) -> None:
    if option.name not in format.takes:
        hint = f"it is for {known.catalog.names_taking(option.name)}"
        raise UserError(f"{format} source has no option `{option.name}`", option.span, hint)


def sample_of(options: Mapping[str, Sequence[str]]) -> int | None:
    """The number of rows in which their type is found, if it is given.

    Raises: UserError, without a place, where it is 0.
    """
    number = int(options["sample"][0]) if "sample" in options else None
    if number == 0:
        raise UserError("a type is found in one row at least", hint=OPTIONS["sample"])
    return number


def _must_be_as_many(option: syntax.OptionArg) -> None:
    example, texts = OPTIONS[option.name], option.values
    takes_texts = "(" in example
    if texts and not takes_texts:
        raise UserError(f"`{option.name}` takes nothing", option.span, example)
    if takes_texts and (not texts or (len(texts) > 1 and option.name not in ANY_NUMBER)):
        one = "one number" if option.name in NUMBERS else "one text"
        many = "at least one text" if option.name in ANY_NUMBER else one
        raise UserError(f"`{option.name}` takes {many}", option.span, example)


def text_options(options: Mapping[str, Sequence[str]], delimiter: str) -> TextOptions:
    """How values are written as texts, by the options of a source.

    Raises: UserError, without a place, where the value of an option is invalid.
    """
    quote = _quote(options.get("quote"), delimiter)
    return TextOptions(
        quote=quote,
        escape=_escape(options.get("escape"), quote, delimiter),
        null_values=_null_values(options.get("nullValue", ()), quote, delimiter),
        comment=_comment(options.get("comment"), quote, delimiter),
        date_format=_pattern(options.get("dateFormat"), ty.DATE),
        timestamp_format=_pattern(options.get("timestampFormat"), ty.TIMESTAMP),
        locale=_locale(options.get("locale")),
    )


def _is_sign(text: str, *others: str) -> bool:
    """Whether a text is one printable character of ASCII, no blank, and none of some others."""
    return len(text) == 1 and "!" <= text <= "~" and text not in others


def _quote(texts: Sequence[str] | None, delimiter: str) -> str:
    if texts is None:
        return TextOptions().quote
    (text,) = texts
    if text and not _is_sign(text, delimiter):
        hint = 'quote("") where quotes are part of the text'
        raise UserError("a quote is one sign of ASCII, which is no blank and no delimiter", hint=hint)
    return text


def _escape(texts: Sequence[str] | None, quote: str, delimiter: str) -> str | None:
    """The character that escapes a quote; None where a quote is written twice."""
    if texts is None:
        return None
    (text,) = texts
    if not _is_sign(text, delimiter):
        raise UserError("what escapes a quote is one sign of ASCII, which is no blank and no delimiter")
    if not quote:
        raise UserError("where there are no quotes, nothing escapes them", hint='`quote("")` says that there are none')
    return None if text == quote else text


def _null_values(texts: Sequence[str], quote: str, delimiter: str) -> tuple[str, ...]:
    """The null values, sorted, as their order has no meaning; an empty one is dropped, as empty fields are missing."""
    for text in texts:
        if quote and quote in text:
            raise UserError(f"a null value has no `{quote}` in it: what is in quotes is a text")
        if text.strip(BLANKS) != text:
            raise UserError("a null value has no blanks around it: those around a field are no part of it")
        if (delimiter and delimiter in text) or "\n" in text or "\r" in text:
            raise UserError("a null value is in one field: it has no delimiter and no line end in it")
    return tuple(sorted({*texts} - {""}))


def _pattern(texts: Sequence[str] | None, t: Type) -> str | None:
    if texts is None:
        return None
    (text,) = texts
    try:
        field_pattern(text, t)
    except ValueError as error:
        raise UserError(str(error)) from None
    return text


def _locale(texts: Sequence[str] | None) -> str | None:
    if texts is None:
        return None
    (tag,) = texts
    try:
        number_locale(tag)
    except ValueError as error:
        raise UserError(f"nothing is known of numbers in the locale `{tag}`", hint=str(error)) from None
    return tag


def _comment(texts: Sequence[str] | None, quote: str, delimiter: str) -> str | None:
    if texts is None:
        return None
    (text,) = texts
    if not _is_sign(text, quote, delimiter):
        raise UserError("a comment begins with one sign of ASCII, which is no quote, no blank and no delimiter")
    return text
