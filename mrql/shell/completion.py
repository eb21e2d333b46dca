"""The completions of a word: keywords where the grammar accepts them, names, functions, and fields after a `.`.

The fields are those of the type of the expression before the dot. Names that a `from`, a `let`, a `group by` or
parameters bind are known where their binding is written, before or after the cursor, and has no errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.showable import written_name
from mrql.algebra.stack import deep
from mrql.algebra.terms import IllTyped, Term, Var, element_type
from mrql.algebra.types import Type
from mrql.output.tables import type_name
from mrql.parser.expressions import OPTIONS
from mrql.shell.cursor_context import CursorContext, place_at
from mrql.shell.definitions import Definitions
from mrql.shell.interpreter import COMMANDS
from mrql.shell.statement_reader import COMMAND, TAKES_EXPRESSION
from mrql.translate.coercion import BASIC, resolve
from mrql.translate.json_values import as_collection
from mrql.translate.library import BUILT_IN
from mrql.translate.patterns import Match, match_pattern
from mrql.translate.scope import Globals, Scope

KEYWORDS: dict[str, tuple[str, ...]] = {
    "CONSTANT": ("true", "false", "null"),
    "DIRECTION": ("asc", "desc"),
    "DISTINCT": ("distinct",),
    "IN": ("in",),
    "OPERATOR": ("and", "or", "mod", "not in"),
    "PREFIX": ("not", "exists"),
    "QUANTIFIER": ("some", "all"),
    "SET_OPERATOR": ("union", "intersect", "except"),
    "SOURCE": ("source", "stream"),
    "XPATH": ("xpath",),
    "_AGGREGATION": ("aggregation",),
    "_AS": ("as",),
    "_BY": ("by",),
    "_CASE": ("case",),
    "_DATA": ("data",),
    "_DELETIONS": ("deletions",),
    "_DUMP": ("dump",),
    "_ELSE": ("else",),
    "_FROM": ("from",),
    "_FUNCTION": ("function",),
    "_GENERATOR_IN": ("in",),
    "_GROUP": ("group by",),
    "_HAVING": ("having",),
    "_IF": ("if",),
    "_IMPORT": ("import",),
    "_INCLUDE": ("include",),
    "_INCR": ("incr",),
    "_LET": ("let",),
    "_LET_IN": ("in",),
    "_LIMIT": ("limit",),
    "_MACRO": ("macro",),
    "_ORDER": ("order by",),
    "_PARSER": ("parser",),
    "_REPEAT": ("repeat",),
    "_SELECT": ("select",),
    "_STEP": ("step",),
    "_STORE": ("store",),
    "_THEN": ("then",),
    "_TYPE_ARGUMENT": ("type", *OPTIONS, "tagged", "changes", "key", "version"),
    "_TYPE_DEF": ("type",),
    "_WHERE": ("where",),
}
"""The keywords of each terminal of the grammar."""


@attrs.frozen
class Candidate:
    """A possible completion, and its type, or its kind in a word."""

    text: str
    about: str


@attrs.frozen
class Completed:
    """The candidates for the word that begins at `start`."""

    start: int
    candidates: tuple[Candidate, ...]


def completed(text: str, cursor: int, known: Definitions) -> Completed:
    """The completions of the word before the cursor, the nearest first."""
    command = COMMAND.match(text)
    if command is None:
        return _in_text(text, cursor, 0, "program", known)
    if cursor <= command.end(1):
        return _matching(command.start(1), text[command.start(1) : cursor], _commands())
    if command[1] in TAKES_EXPRESSION:
        return _in_text(text, cursor, command.end(), "expr", known)
    if command[1] == "help":
        return _matching(command.end(), text[command.end() : cursor], _library())
    return Completed(cursor, ())


def _in_text(text: str, cursor: int, begin: int, start: str, known: Definitions) -> Completed:
    place = place_at(text[begin:], cursor - begin, start)
    if place is None:
        return Completed(cursor, ())
    with known.unchanged():
        return _matching(begin + place.start, place.word, deep(_candidates)(place, known.globals))


def _matching(start: int, word: str, candidates: Iterable[Candidate]) -> Completed:
    """The candidates that begin with a word, each once."""
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        if candidate.text.startswith(word):
            found.setdefault(candidate.text, candidate)
    return Completed(start, tuple(found.values()))


def _commands() -> Iterator[Candidate]:
    yield from (Candidate(name, command.meaning) for name, command in COMMANDS.items())


def _library() -> Iterator[Candidate]:
    yield from (Candidate(name, "function") for name in sorted({*BUILT_IN, "trace"}))


def _candidates(place: CursorContext, known: Globals) -> list[Candidate]:
    accepted = place.accepted
    if place.names_a_field:
        return list(_fields(place, known))
    if place.signs == ("SOURCE", "_LPAR"):
        return [Candidate(name, "format") for name in known.catalog.names]
    found: list[Candidate] = []
    if "_BANG" in accepted:
        found += _types(known)
    elif "_SELECT" in accepted:
        found += _bound(place, known)
        found += _defined(known)
        found += _library() if place.word else ()
    elif {"STAR", "NAME"} <= accepted:  # a pattern
        found += (Candidate(name, "constructor") for name in known.constructors)
    keywords = (word for terminal, words in KEYWORDS.items() if terminal in accepted for word in words)
    return found + [Candidate(word, "keyword") for word in keywords]


def _types(known: Globals) -> Iterator[Candidate]:
    yield from (Candidate(name, type_name(t)) for name, t in known.types.items())
    yield from (Candidate(name, "type") for name in (*BASIC, "bag", "list"))


def _defined(known: Globals) -> Iterator[Candidate]:
    yield from (Candidate(name, type_name(term.type)) for name, term in known.values.items())
    kinds = {
        "function": [*known.functions, *known.closures],
        "macro": known.macros,
        "aggregation": known.aggregations,
        "constructor": known.constructors,
    }
    for kind, names in kinds.items():
        yield from (Candidate(name, kind) for name in names)


# --- what is bound at the place -----------------------------------------------------------------


def _bound(place: CursorContext, known: Globals) -> Iterator[Candidate]:
    variables = _scope(place, known).variables
    for name, value in reversed(list(variables.items())):
        yield Candidate(name, type_name(value.type) if isinstance(value, Term) else "variable")


def _fields(place: CursorContext, known: Globals) -> Iterator[Candidate]:
    expr = place.projected()
    if expr is None:
        return
    try:
        t = _scope(place, known).translate(expr).type
    except (UserError, IllTyped):
        return
    record = t.item if isinstance(t, ty.BagType) else t
    if isinstance(record, ty.RecordType):
        yield from (Candidate(written_name(name), type_name(item)) for name, item in record.fields)


def _scope(place: CursorContext, known: Globals) -> Scope:
    scope = Scope(known)
    for level in place.levels():
        outer = scope
        grouped = False
        for rule, node in level:
            if rule == "key" and not grouped:
                grouped, scope = True, _lifted(scope, outer)
            try:
                scope = _with(rule, node, scope)
            except (UserError, IllTyped):  # its expression has errors, or is not written yet
                continue
    return scope


def _lifted(scope: Scope, outer: Scope) -> Scope:
    """After `group by`, the variables of a level are bags of what they were."""
    own = {
        name: Var(name, ty.BagType(value.type))
        for name, value in scope.variables.items()
        if isinstance(value, Term) and value is not outer.variables.get(name)
    }
    return scope.bind(own)


def _with(rule: str, node: Any, scope: Scope) -> Scope:
    """The scope, with the names that a binder binds."""
    match rule, node:
        case "generator", syntax.Generator(pattern, source):
            return _matched(pattern, element_type(as_collection(scope.translate(source))), scope)
        case "key", syntax.GroupKey(pattern, expr) if pattern is not None:
            return _matched(pattern, scope.translate(expr).type, scope)
        case "binding", (pattern, expr):
            return _matched(pattern, scope.translate(expr).type, scope)
        case "function_parameter" | "lambda_parameter", (pattern, written) if written is not None:
            return _matched(pattern, resolve(written, scope.globals), scope)
        case _:
            return scope


def _matched(pattern: syntax.Pattern, t: Type, scope: Scope) -> Scope:
    match = Match()
    match_pattern(pattern, t, scope.globals, match)
    return scope.bind(match.bindings)
