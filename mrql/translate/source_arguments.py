"""The arguments of `source(…)` and `stream(…)`, sorted by kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.catalog import Always
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Stream
from mrql.parser.expressions import OPTIONS
from mrql.translate.other_names import OPTIONS_HERE
from mrql.translate.scope import Globals, Scope, UnknownName, nearest


@attrs.define
class Arguments:
    """The arguments of a source, sorted by kind."""

    strings: list[syntax.StringLit] = attrs.Factory(list)
    row: syntax.TypeArg | None = None
    options: list[syntax.OptionArg] = attrs.Factory(list)
    column_formats: list[syntax.OptionArg] = attrs.Factory(list)
    """The patterns of dates and timestamps that are for some columns only."""
    tags: syntax.TagsArg | None = None
    xpath: syntax.XPathArg | None = None
    deletions: syntax.StringLit | None = None
    tagged: syntax.TaggedArg | None = None
    changes: syntax.ChangesArg | None = None
    key: syntax.KeyArg | None = None
    version: syntax.VersionArg | None = None
    given: list[syntax.SourceArg] = attrs.Factory(list)
    """All arguments but the strings, in their order."""

    def other_than(self, *kinds: type[syntax.SourceArg]) -> syntax.SourceArg | None:
        """The first argument that is neither of these kinds nor a string."""
        return next((arg for arg in self.given if not isinstance(arg, kinds)), None)


SEVERAL_FILES = '`"in/{a,b}.csv"`, or one source for each, joined by `union`'


def arguments_of(source: syntax.SourceExpr, known: Globals) -> Arguments:
    """The arguments of a source.

    Raises: UserError where an argument is given twice, or a string is not known before there are any data.
    """
    sorted_arguments = Arguments()
    args = [_option_in_any_case(arg, known) for arg in source.args]
    _no_argument_twice(args)
    for given in args:
        arg = given
        if isinstance(given, syntax.Expr):
            arg = _text_of(given, source, known, is_path=not sorted_arguments.strings)
        if not isinstance(arg, syntax.StringLit):
            sorted_arguments.given.append(arg)
        match arg:
            case syntax.StringLit():
                sorted_arguments.strings.append(arg)
            case syntax.TypeArg():
                sorted_arguments.row = arg
            case syntax.OptionArg():
                of_columns = is_of_columns(arg)
                (sorted_arguments.column_formats if of_columns else sorted_arguments.options).append(arg)
            case syntax.DeletionsArg(path):
                sorted_arguments.deletions = _text(path, known, "a directory of deletions")
            case syntax.TaggedArg():
                sorted_arguments.tagged = arg
            case syntax.ChangesArg():
                sorted_arguments.changes = arg
            case syntax.KeyArg():
                sorted_arguments.key = arg
            case syntax.VersionArg():
                sorted_arguments.version = arg
            case syntax.TagsArg():
                sorted_arguments.tags = arg
            case syntax.XPathArg():
                sorted_arguments.xpath = arg
    return sorted_arguments


OF_COLUMNS = {"dateFormat": ty.DATE, "timestampFormat": ty.TIMESTAMP}
"""The options that may be for some columns only, with the type of these columns."""

_WORDS: dict[type[syntax.SourceArg], str] = {
    syntax.TypeArg: "type",
    syntax.DeletionsArg: "deletions",
    syntax.TaggedArg: "tagged",
    syntax.ChangesArg: "changes",
    syntax.KeyArg: "key",
    syntax.VersionArg: "version",
    syntax.TagsArg: "{…}",
    syntax.XPathArg: "xpath",
}
"""The words for the arguments that may be given once."""


def _no_argument_twice(args: Sequence[syntax.SourceArg]) -> None:
    """Raises: UserError at an argument that is given for the second time."""
    found: set[str] = set()
    for arg in args:
        if is_of_columns(arg):
            continue
        word = arg.name if isinstance(arg, syntax.OptionArg) else _WORDS.get(type(arg))
        if word in found:
            raise UserError(f"`{word}` is given twice", arg.span)
        found |= {word} if word is not None else set()


def is_of_columns(arg: syntax.SourceArg) -> bool:
    """Whether an argument is a pattern of dates or timestamps for the columns that it names: there may be several."""
    return isinstance(arg, syntax.OptionArg) and arg.name in OF_COLUMNS and len(arg.values) > 1


_OPTION_OF: dict[str, str] = {name.lower(): name for name in OPTIONS}
"""The options by their names in lower case: Spark takes them in any case."""


def _option_in_any_case(arg: syntax.SourceArg, known: Globals) -> syntax.SourceArg:
    """The argument; an option, if its name is that of one in any case, and the query defines nothing of that name."""
    match arg:
        case syntax.Name(name, span=span) | syntax.Call(name, span=span) if name.lower() in _OPTION_OF:
            if _is_defined(name, known):
                return arg
            values = arg.args if isinstance(arg, syntax.Call) else ()
            return syntax.OptionArg(_OPTION_OF[name.lower()], values, span)
        case _:
            return arg


def _is_defined(name: str, known: Globals) -> bool:
    """Whether the query defines something of that name."""
    return Scope(known).lookup(name) is not None or name in known.calls or name in known.imported


_WRITTEN: dict[str, str] = {
    "type": "type(<id: long, name: string>)",
    "deletions": 'deletions("removed")',
    "tagged": "tagged",
    "changes": "changes(debezium)",
    "key": "key(id)",
    "version": "version(changed)",
    "xpath": "xpath(a/b)",
    **OPTIONS,
}
"""The arguments that have names, each with an example of how it is written."""


def _text_of(arg: syntax.Expr, source: syntax.SourceExpr, known: Globals, *, is_path: bool) -> syntax.StringLit:
    """The string that an argument stands for. The error for any other one assumes an option that is misspelled or that
    has another name here."""
    try:
        return _text(arg, known)
    except UserError as error:
        match arg:
            case syntax.Name(name) | syntax.Call(name) | syntax.Binary(syntax.BinaryOp.EQUAL, syntax.Name(name)):
                if _is_defined(name, known):
                    raise
            case syntax.Field() if is_path:
                raise UserError(error.message, error.span, f'a path is in quotes: "{arg.span.text}"') from None
            case _:
                raise
        raise _no_option(name, arg, source, known, error, is_path=is_path) from None


def _no_option(
    name: str, arg: syntax.Expr, source: syntax.SourceExpr, known: Globals, error: UserError, *, is_path: bool
) -> UserError:
    """The error for an argument that is no string, as an unknown option; or `error`, if that is not about its name, or
    a name stands where the path is expected."""
    if (hint := OPTIONS_HERE.get(name.lower())) is not None:
        return UserError(f"a source has no option `{name}`", arg.span, hint)
    if (near := nearest(name, [*_WRITTEN], cutoff=0.8)) is not None:
        if near.lower() == name.lower():
            how = f"is written `{_WRITTEN[near]}`" if "(" in _WRITTEN[near] else "stands by itself, without a value"
            return UserError(f"`{near}` {how}", arg.span)
        return UserError(f"a source has no option `{arg.span.text}`", arg.span, f"it is written `{_WRITTEN[near]}`")
    is_unknown = isinstance(error, UnknownName) and error.name == name
    if not is_unknown or (is_path and isinstance(arg, syntax.Name)):
        return error
    hint = f"{_called(source, known)} takes {', '.join(_taken(source, known))}"
    return UserError(f"a source has no option `{name}`", arg.span, hint)


def _called(source: syntax.SourceExpr, known: Globals) -> str:
    """A source as messages call it, by its format and kind."""
    format = known.catalog.formats.get(source.format)
    return f"{format or f'a {source.format}'} {source.kind.value}"


def _taken(source: syntax.SourceExpr, known: Globals) -> Iterator[str]:
    """The arguments with names that a source takes, each with an example of how it is written."""
    format = known.catalog.formats.get(source.format)
    takes = frozenset() if format is None else format.takes
    in_any = {"type"} if format is None or not isinstance(format.rows, Always) else set()
    if source.kind is syntax.SourceKind.STREAM:
        in_any |= {"deletions", "key", "version"} if format is not None else {"key"}
    else:
        takes -= {"tagged", "changes"}
    return (written for name, written in _WRITTEN.items() if name in takes | in_any)


def _text(arg: syntax.Expr, known: Globals, what: str = "a path or delimiter") -> syntax.StringLit:
    """A string constant, or the value of a string that is known before there are any data: `args[0] + "/left"`."""
    if isinstance(arg, syntax.StringLit):
        return arg
    term = Scope(known).translate(arg)
    value = None if term.type != ty.STRING or any(isinstance(t, Stream) for t in subterms(term)) else evaluate(term)
    if value is None:
        several = isinstance(arg, syntax.ListExpr) and term.type == ty.ListType(ty.STRING)
        hint = f"several files are a pattern: {SEVERAL_FILES}" if several else None
        if isinstance(term.type, ty.BagType):
            hint = 'the tags of XML are texts in braces: `source(xml, "file.xml", {"tag"})`'
        raise UserError(f"{what} must be a string", arg.span, hint)
    return syntax.StringLit(value, arg.span)


def known_number(arg: syntax.Expr, known: Globals, what: str) -> int:
    """The value of a whole number that is known before there are any data.

    Raises: UserError, which calls it `what`, where it is not known or no whole number, or is negative.
    """
    term = Scope(known).translate(arg)
    is_known = term.type in (ty.INT, ty.LONG) and not any(isinstance(t, Stream) for t in subterms(term))
    value = evaluate(term) if is_known else None
    if not isinstance(value, int) or value < 0:
        raise UserError(f"{what} is a whole number from 0 on, which is known before there are any data", arg.span)
    return value


def known_text(arg: syntax.Expr, known: Globals, what: str) -> str:
    """The value of a string that is known before there are any data.

    Raises: UserError, which calls it `what`, where it is not known or no string.
    """
    return _text(arg, known, what).value
