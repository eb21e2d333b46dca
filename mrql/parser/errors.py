"""The error messages for a text that cannot be parsed."""

from __future__ import annotations

import difflib
import re
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.parser.lexer import IN_BACKQUOTES, NAMES_NO_FIELD, begins_an_item
from mrql.parser.sql_hints import IF, WHOLE, comment_hint, generator_hint, head_hint, sql_hint

# The terminals of the grammar, as messages spell them. Those that are left out begin an expression, a pattern, a type
# or a statement, or continue an expression, and are never listed one by one.
SPELLING = {
    "_FROM": "`from`",
    "_WHERE": "`where`",
    "_GROUP": "`group by`",
    "_HAVING": "`having`",
    "_ORDER": "`order by`",
    "_BY": "`by`",
    "DIRECTION": "`asc`, `desc`",
    "_LIMIT": "`limit`",
    "_THEN": "`then`",
    "_ELSE": "`else`",
    "_STEP": "`step`",
    "_LET_IN": "`in`",
    "_GENERATOR_IN": "`in`",
    "_ASSIGN": "`:=`",
    "_AS": "`as`",
    "_BAR": "`|`",
    "_COLON": "`:`",
    "_COMMA": "`,`",
    "_RPAR": "`)`",
    "_RBRACKET": "`]`",
    "_RBRACE": "`}`",
    "_RECORD_END": "`>`",
    "_SEMI": "`;`",
    "_LBRACE": "`{`",
    "_LPAR": "`(`",
    "_DOT": "`.`",
    "EQ": "`=`",
    "STRING": "a string",
    "INT": "a whole number",
    "NAME": "a name",
}
CONTINUES = {"_DOT", "_LPAR", "_AS", "EQ"}
# What an unfinished construct waits for. If several constructs are unfinished, the innermost one keeps the others from
# going on; but an `if` without an `else` is more likely a forgotten `else` than a part of something unfinished.
AWAITED = {
    "_THEN": "`then` after the condition",
    "_ELSE": "`else`, which every `if` needs",
    "_STEP": "`step` after the first value of the repeat",
    "_LET_IN": "`in` after the bindings of the let",
    "_GENERATOR_IN": "`in` after the pattern",
    "_BY": "`by`",
}
BRACKETS = {"_LPAR": "(", "_LBRACE": "{", "_LBRACKET": "[", "_RECORD_START": "<"}
CLOSING = {"_RPAR", "_RBRACE", "_RBRACKET", "_RECORD_END"}
HINTS = {
    "==": "equality is written `=`",
    "&&": "write `and`",
    "!": "write `not`",
    ":=": "`x = e;` names an expression; `store x := e;` evaluates it once",
    "->": "the body of a function follows a `.`: `\\x. e`",
    "=>": "the body of a function follows a `.`: `\\x. e`",
    "#": "comments begin with `//`",
    **dict.fromkeys("“”„‘’‚«»", 'a text is in straight quotes: "…"'),
    **dict.fromkeys("–−", "a minus is written `-`"),
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `<>`",
    "descending": "write `desc`",
    "ascending": "write `asc`",
    "limit": "`limit` follows the keys of an `order by`, or the step of a `repeat`",
    "having": "`having` follows the keys of a `group by`",
}


class Unfinished(UserError):
    """The text ends too early: more input may complete it."""


def explain(error: UnexpectedToken | UnexpectedCharacters, source: Source, begin: int, end: int) -> UserError:
    """The error for a text between two offsets of a source that the parser could not read."""
    if isinstance(error, UnexpectedToken):
        return _explain_token(error, source, begin, end)
    return _explain_character(source, begin + (error.pos_in_stream or 0))


def _explain_character(source: Source, at: int) -> UserError:
    """The error for a character that begins no token."""
    span = Span(source, at, at + 1)
    char = source.text[at]
    if char in "\"'":
        return Unfinished("unterminated string", span, f"it needs a closing {char}")
    hint = next((hint for sign, hint in HINTS.items() if source.text.startswith(sign, at)), None)
    hint = hint or sql_hint(source.text[:at], source.text[at:])
    return UserError(f"unexpected character `{char}`", span, hint)


def _explain_token(error: UnexpectedToken, source: Source, begin: int, end: int) -> UserError:
    """The error for a token that the grammar does not accept at its place, or for the end of the text."""
    state: Any = error.state
    token = error.token
    open_tokens = [value for value in state.value_stack if isinstance(value, Token)]
    if open_tokens and open_tokens[-1] is state.value_stack[-1] and open_tokens[-1].type == "FIELD_NAME":
        name = open_tokens[-1]
        place = Span(source, begin + (name.start_pos or 0), begin + (name.start_pos or 0) + 1)
        return UserError(NAMES_NO_FIELD, place, IN_BACKQUOTES)
    expected = _expectation(accepted_by(state), open_tokens)
    if token.type == "$END":
        stop = len(source.text[:end].rstrip())
        whole, kind = ("query", Unfinished) if end == len(source.text) else ("expression", UserError)
        text = source.text[begin:stop]
        hint = comment_hint(text) or sql_hint(text, "") or _construct_hint(source, stop, state, open_tokens)
        hint = hint or _unclosed(source, begin, open_tokens)
        return kind(f"unexpected end of the {whole}: expected {expected}", Span(source, stop, stop), hint)
    at = begin + (token.start_pos or 0)
    unterminated = _unterminated(source, at)
    if unterminated:
        return unterminated
    span = Span(source, at, begin + (token.end_pos or 0))
    hint = _hint(source, begin, at, token, state, open_tokens)
    return UserError(f"expected {expected}, found {_shown(token)}", span, hint)


def accepted_by(state: Any) -> set[str]:
    """The terminals with which the parser could continue.

    These are not all the keys of its table: one may be there only because of a reduction that leads to a dead end.
    """
    if state.position == state.parse_conf.end_state:
        return {"$END"}
    states = state.parse_conf.states
    return {t for t in states[state.position] if t.isupper() and _leads_on(states, list(state.state_stack), t)}


def _leads_on(states: Any, stack: list[Any], terminal: str) -> bool:
    while terminal in states[stack[-1]]:
        action, target = states[stack[-1]][terminal]
        if action.name == "Shift":
            return True
        if target.expansion:
            del stack[-len(target.expansion) :]
        stack.append(states[stack[-1]][target.origin.name][1])
        # The end of the text is accepted without being shifted.
        if terminal == "$END" and "$END" not in states[stack[-1]]:
            return True
    return False


def _expectation(accepted: set[str], open_tokens: list[Token]) -> str:
    """What could follow, in words."""
    if "_TYPE_DEF" in accepted:
        return "a statement"
    if "_SELECT" in accepted:
        return "an expression"
    if "_BANG" in accepted:
        return "a type"
    if {"STAR", "NAME"} <= accepted and "OPERATOR" not in accepted:
        return _after_sign(open_tokens, accepted) or "a pattern"
    for terminal, awaited in AWAITED.items():
        if terminal in accepted:
            return awaited
    opened = [token.type for token in open_tokens]
    if "_FROM" in accepted and _innermost(opened, {"_SELECT", "DISTINCT"}, {"_STORE", "_DUMP", "_IMPORT"}):
        return "`from` after the head of the select"
    if "_LBRACE" in accepted and opened and opened[-1] == "_CASE":
        return "`{` and the branches of the case"
    if accepted == {"NAME"}:
        return "a field name" if opened and opened[-1] in {"_RECORD_START", "_COMMA", "_DOT", "_AT"} else "a name"
    # After an expression, what only continues it goes without saying; elsewhere, only `as` and `(` do.
    unsaid = CONTINUES if "OPERATOR" in accepted else {"_AS", "_LPAR"}
    words = [SPELLING[t] for t in SPELLING if t in accepted and t not in unsaid]
    return _listed(words or ["the end of the query" if "$END" in accepted else SPELLING["_LPAR"]])


def _after_sign(open_tokens: list[Token], accepted: set[str]) -> str | None:
    if "_AT" in accepted:
        return "a field name"
    return "the name of an attribute" if open_tokens and open_tokens[-1].type == "_AT" else None


def _innermost(opened: list[str], wanted: set[str], others: set[str]) -> bool:
    return next((token in wanted for token in reversed(opened) if token in wanted | others), False)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(token: Token) -> str:
    text = token.split("\n")[0]
    return f"`{text if len(text) <= 30 else text[:30] + '…'}`"


def _unterminated(source: Source, at: int) -> UserError | None:
    """The error for a comment or an XML literal without an end, whose first characters are read as other tokens."""
    for start in (at, at - 1):
        if start >= 0 and source.text.startswith("/*", start):
            return Unfinished("unterminated comment", Span(source, start, start + 2), "it needs a closing */")
    if source.text[at] == "|" and re.search(r"\[xml\Z", source.text[:at], re.IGNORECASE):
        return Unfinished("unterminated XML literal", Span(source, at - 4, at + 1), "it needs a closing |]")
    return None


def _unclosed(source: Source, begin: int, open_tokens: list[Token]) -> str | None:
    for token in reversed(open_tokens):
        if token.type in BRACKETS:
            line = source.line_of(begin + (token.start_pos or 0))
            return f"the `{BRACKETS[token.type]}` on line {line} is not closed"
    return None


def _construct_hint(source: Source, at: int, state: Any, open_tokens: list[Token]) -> str | None:
    """The hint for the unfinished construct in which the parser cannot continue."""
    accepted, before, here = accepted_by(state), source.text[:at], source.text[at:]
    opened = [token.type for token in open_tokens]
    if "_GENERATOR_IN" in accepted:
        selects = [i for i, kind in enumerate(opened) if kind == "_SELECT"]
        return generator_hint(before, here, bool(selects) and bool(BRACKETS.keys() & set(opened[: selects[-1]])))
    if "_FROM" in accepted and _innermost(opened, {"_SELECT", "DISTINCT"}, {"_STORE", "_DUMP", "_IMPORT"}):
        return head_hint(here)
    if "_THEN" in accepted and here[:1] != "":
        return IF
    brackets = [kind for kind in opened if kind in BRACKETS]
    if "_COLON" in accepted and brackets[-1:] == ["_RECORD_START"]:
        return _field_hint(open_tokens[-1], here)
    return None


def _field_hint(name: Token, here: str) -> str | None:
    """The hint for a field of a record whose name is not followed by a `:`."""
    match here[:1]:
        case "." | "," | ">":
            return "a field has a name: `<A: x.A, B: x.B>`"
        case "(" | "[" | "+" | "-" | "*" | "/" | "#":
            return "a field has a name: `<A: x.A, N: count(x)>`"
        case "=":
            return f"a field is written with a `:`: `<{name}: …>`"
        case _:
            return None


def _begins_an_item(open_tokens: list[Token]) -> bool:
    """Whether an item of a select begins after these tokens."""
    *others, last = [token.type for token in open_tokens]
    within = next((kind for kind in reversed(others) if kind in {"_SELECT", "_FROM", *BRACKETS}), "")
    return begins_an_item(last, within)


BEGINNINGS = (
    "select",
    "repeat",
    "include",
    "import",
    "function",
    "macro",
    "aggregation",
    "store",
    "dump",
    "case",
    "let",
)
"""Words that a statement or an expression begins with."""


def _first_word(before: str) -> str | None:
    """The keyword that the name at the end of a text is likely a misspelling of, if an expression or a statement begins
    with that name."""
    name = re.search(r"(?:\A|[;(\[{=,])\s*([a-z]+)\s+\Z", before, re.IGNORECASE)
    close = difflib.get_close_matches(name[1].lower(), BEGINNINGS, n=1, cutoff=0.75) if name else []
    return close[0] if close and name and close[0] != name[1].lower() else None


def _hint(source: Source, begin: int, at: int, token: Token, state: Any, open_tokens: list[Token]) -> str | None:
    """The hint for an unexpected token: the most certain one that applies."""
    before = state.value_stack[-1] if state.value_stack else None
    if isinstance(before, Token):
        if before.type == "_RECORD_END":
            return "inside a record, put a comparison with `>` in round brackets"
        if before.type == "STRING" and "\n" in before:
            return f"the string that begins on line {source.line_of(begin + (before.start_pos or 0))} has several lines"
        if token == "*" and _begins_an_item(open_tokens):
            return WHOLE
    hint = sql_hint(source.text[begin:at], source.text[at:]) or _construct_hint(source, at, state, open_tokens)
    if hint is not None:
        return hint
    for sign in (source.text[at : at + 2], source.text[max(at - 1, 0) : at + 1], token.lower()):
        if sign in HINTS:
            return HINTS[sign]
    accepted = accepted_by(state)
    known = {word for terminal in accepted for word in re.findall(r"`(\w+)", SPELLING.get(terminal, ""))}
    close = difflib.get_close_matches(token.lower(), known, n=1, cutoff=0.7) if token.isalpha() else []
    if close:
        return f"did you mean `{close[0]}`?"
    if (word := _first_word(source.text[begin:at])) is not None:
        return f"did you mean `{word}`?"
    if accepted & CLOSING and token.type not in {"NAME", "INT", "DECIMAL", "STRING", "CONSTANT"}:
        return _unclosed(source, begin, open_tokens)
    if "_SEMI" in accepted and not source.text[source.line_starts[source.line_of(at) - 1] : at].strip():
        return "a statement ends with `;`"
    return None
