"""A filter between lexer and grammar: which `>` ends a record, which `in` a `let`, and which words are reserved."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from mrql.algebra.showable import named

CLOSES = {
    "_RPAR": "_LPAR",
    "_RBRACE": "_LBRACE",
    "_RBRACKET": "_LBRACKET",
    "_THEN": "_IF",
    "_ELSE": "_THEN",
    "_FROM": "_SELECT",
}
OPENS = {"_LPAR", "_LBRACE", "_LBRACKET", "_RECORD_START", "_IF", "_THEN", "_LET", "_SELECT"}
WORDS = {"_IF", "_THEN", "_LET", "_SELECT"}

# Words that never name a value. The contextual lexer recognizes only the keywords that the grammar accepts at a place,
# and takes any other word for a name; then the error of `select from x in X` would be reported at its `x`.
RESERVED = {
    "and": "OPERATOR",
    "as": "_AS",
    "case": "_CASE",
    "else": "_ELSE",
    "except": "SET_OPERATOR",
    "from": "_FROM",
    "having": "_HAVING",
    "if": "_IF",
    "in": "IN",
    "incr": "_INCR",
    "intersect": "SET_OPERATOR",
    "let": "_LET",
    "mod": "OPERATOR",
    "not": "PREFIX",
    "or": "OPERATOR",
    "repeat": "_REPEAT",
    "select": "_SELECT",
    "then": "_THEN",
    "union": "SET_OPERATOR",
    "where": "_WHERE",
}


QUERY_MAX_TOKENS = 50_000
"""The largest number of tokens in a text."""


IN_A_FILE = "many or large values belong in a file of data, which a `source` reads"
NAMES_NO_FIELD = "a name in backquotes is that of a field"
IN_BACKQUOTES = "`p.`a b``, `<`a b`: 1>`, `select `a b`: e`; other names are words: `unit_price`"
NO_COMMENT = "comments begin with `//`; the minus of a minus has a blank before it: `- -x`"


class RefusedToken(Exception):
    """A text is refused at a token, whatever the grammar says."""

    def __init__(self, message: str, token: Token, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.token = token
        self.hint = hint


class BracketFilter(PostLex):
    """Tracks the open brackets, and decides which `>` ends a record, which `in` a `let`, and which words are reserved.

    `if … then`, `then … else` and `select … from` count as brackets, too: no construct around them ends inside them.
    """

    # A type contains no comparison, but a `GT` in it may be the end of its record.
    always_accept = ("GT",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        opened: list[str] = []
        previous, end, dashes = "", None, None
        for number, token in enumerate(stream):
            if number >= QUERY_MAX_TOKENS:
                raise RefusedToken(f"a query of more than {QUERY_MAX_TOKENS:,} words and signs", token, IN_A_FILE)
            if dashes is not None and dashes.end_pos != token.start_pos:
                raise RefusedToken("`--` begins no comment", dashes, NO_COMMENT)
            dashes = token if token.type == previous == "MINUS" and token.start_pos == end else None
            innermost = opened[-1] if opened else ""
            if token.type == "GT" and innermost == "_RECORD_START":
                token.type = "_RECORD_END"
                opened.pop()
            elif token.type == "IN" and innermost == "_LET":
                token.type = "_LET_IN"
                opened.pop()
            elif token.type == "NAME" and token.startswith("`"):
                token = _freed(token, previous, innermost)
            elif token.type == "NAME" and not _names_a_field(previous, innermost):
                token.type = RESERVED.get(token.lower(), "NAME")
            if token.type in CLOSES:
                _close(opened, CLOSES[token.type])
            if token.type in OPENS:
                opened.append(token.type)
            previous, end = token.type, token.end_pos
            yield token


def _close(opened: list[str], bracket: str) -> None:
    # The parser reports brackets that do not match; all that matters here is to stay in step until then.
    while bracket not in WORDS and opened and opened[-1] in WORDS:
        opened.pop()
    if opened and opened[-1] == bracket:
        opened.pop()


def _freed(token: Token, previous: str, innermost: str) -> Token:
    """A name in backquotes, without them. At the beginning of an item of a select it is a `FIELD_NAME`, as it names a
    field only if a `:` follows.

    Raises: RefusedToken where it cannot name a field, or is not valid text.
    """
    try:
        name = named(token[1:-1])
    except UnicodeDecodeError:
        raise RefusedToken("the name holds half a surrogate pair", token, IN_BACKQUOTES) from None
    if begins_an_item(previous, innermost):
        return token.update(type="FIELD_NAME", value=name)
    if not _names_a_field(previous, innermost):
        raise RefusedToken(NAMES_NO_FIELD, token, IN_BACKQUOTES)
    return token.update(value=name)


def _names_a_field(previous: str, innermost: str) -> bool:
    return previous in {"_DOT", "_AT", "_RECORD_START"} or (previous == "_COMMA" and innermost == "_RECORD_START")


def begins_an_item(previous: str, innermost: str) -> bool:
    """Whether an item of a select begins after the token `previous`, given the innermost open bracket."""
    return previous in {"_SELECT", "DISTINCT"} or (previous == "_COMMA" and innermost == "_SELECT")
