"""What `source(…)` and `stream(…)` are given, sorted by what it is."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Stream
from mrql.parser.expressions import OPTIONS
from mrql.translate.other_names import OPTIONS_HERE
from mrql.translate.scope import Globals, Scope, UnknownName, nearest


@attrs.define
class Arguments:
    """The arguments of a source, sorted by what they are."""

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


def arguments_of(source: syntax.SourceExpr, known: Globals) -> Arguments:
    """The arguments of a source.

    Raises: UserError where a text is not known before there are any data.
    """
    sorted_arguments = Arguments()
    args = [_option_in_any_case(arg, known) for arg in source.args]
    _no_argument_twice(args)
    for given in args:
        arg = _text_of(given, known) if isinstance(given, syntax.Expr) else given
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
"""The options that may be for some columns only, with the type that these have."""

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
"""How the arguments are written of which there is one."""


def _no_argument_twice(args: Sequence[syntax.SourceArg]) -> None:
    """Raises: UserError at the second one."""
    found: set[str] = set()
    for arg in args:
        if is_of_columns(arg):
            continue
        word = arg.name if isinstance(arg, syntax.OptionArg) else _WORDS.get(type(arg))
        if word in found:
            raise UserError(f"`{word}` is given twice", arg.span)
        found |= {word} if word is not None else set()


def is_of_columns(arg: syntax.SourceArg) -> bool:
    """Whether it is a pattern of dates or timestamps with the columns that are written by it: there may be several."""
    return isinstance(arg, syntax.OptionArg) and arg.name in OF_COLUMNS and len(arg.values) > 1


_OPTION_OF: dict[str, str] = {name.lower(): name for name in OPTIONS}
"""The options by their names in small letters: Spark takes them in any case."""


def _option_in_any_case(arg: syntax.SourceArg, known: Globals) -> syntax.SourceArg:
    """An option whose name is written in other letters, unless the query calls something so."""
    match arg:
        case syntax.Name(name, span=span) | syntax.Call(name, span=span) if name.lower() in _OPTION_OF:
            if _is_defined(name, known):
                return arg
            values = arg.args if isinstance(arg, syntax.Call) else ()
            return syntax.OptionArg(_OPTION_OF[name.lower()], values, span)
        case _:
            return arg


def _is_defined(name: str, known: Globals) -> bool:
    """Whether a query calls something so."""
    return Scope(known).lookup(name) is not None or name in known.calls or name in known.imported


def _text_of(arg: syntax.Expr, known: Globals) -> syntax.StringLit:
    """A text; what has no meaning as one is likely to be an option that is called otherwise."""
    try:
        return _text(arg, known)
    except UserError as error:
        match arg:
            case syntax.Name(name) | syntax.Call(name) | syntax.Binary(syntax.BinaryOp.EQUAL, syntax.Name(name)):
                if _is_defined(name, known):
                    raise
            case _:
                raise
        words = [*OPTIONS, *(word for word in _WORDS.values() if word.isidentifier())]
        written, hint = name, OPTIONS_HERE.get(name.lower())
        if hint is None and (near := nearest(name, words, cutoff=0.8)) is not None:
            written, hint = arg.span.text, f"it is written `{OPTIONS.get(near, near)}`"
        elif hint is None and isinstance(arg, syntax.Call) and _is_unknown_function(error):
            hint = f"there are {', '.join(words)}"
        if hint is None:
            raise
        raise UserError(f"a source has no option `{written}`", arg.span, hint) from None


def _is_unknown_function(error: UserError) -> bool:
    return isinstance(error, UnknownName) and error.what == "function"


def _text(arg: syntax.Expr, known: Globals, what: str = "a path or delimiter") -> syntax.StringLit:
    """A string that is written, or that is known before there are any data: `args[0] + "/left"`."""
    if isinstance(arg, syntax.StringLit):
        return arg
    term = Scope(known).translate(arg)
    value = None if term.type != ty.STRING or any(isinstance(t, Stream) for t in subterms(term)) else evaluate(term)
    if value is None:
        raise UserError(f"{what} must be a string", arg.span)
    return syntax.StringLit(value, arg.span)


def known_number(arg: syntax.Expr, known: Globals, what: str) -> int:
    """The value of a whole number that is known before there are any data.

    Raises: UserError, which says `what` it is, where it is not, or is negative.
    """
    term = Scope(known).translate(arg)
    is_known = term.type in (ty.INT, ty.LONG) and not any(isinstance(t, Stream) for t in subterms(term))
    value = evaluate(term) if is_known else None
    if not isinstance(value, int) or value < 0:
        raise UserError(f"{what} is a whole number from 0 on, which is known before there are any data", arg.span)
    return value


def known_text(arg: syntax.Expr, known: Globals, what: str) -> str:
    """The value of a string that is known before there are any data.

    Raises: UserError, which says `what` it is, where it is not.
    """
    return _text(arg, known, what).value
