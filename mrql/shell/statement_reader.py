"""Where an input ends, and its position in the text of the session."""

from __future__ import annotations

import re

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source
from mrql.parser.errors import Unfinished
from mrql.parser.parser import parse_expression_at, parse_program

COMMAND = re.compile(r"\s*:(\w*)\s*")
"""The colon and the name of a command; its argument begins after them."""

TAKES_EXPRESSION = ("type", "explain")
"""The commands that are given an expression, which may go on over several lines."""


def is_finished(text: str) -> bool:
    """Whether an input is finished at the end of a line: the parser says whether more must follow.

    A text that is complete is finished when a `;` or an empty line ends it, as it could go on all the same. One that
    is wrong is finished at once, so that its error is shown.

    >>> is_finished("select x"), is_finished("select x from x in S"), is_finished("select x from x in S;")
    (False, False, True)
    >>> is_finished("select x from x in S\\n"), is_finished("select from x"), is_finished(":help")
    (True, True, True)
    """
    command = COMMAND.match(text)
    try:
        if command is None:
            nothing = not parse_program(text).statements
            return nothing or not text.rpartition("\n")[2].strip() or _ends_with_semicolon(text)
        if command[1] in TAKES_EXPRESSION and text[command.end() :].strip():
            parse_expression_at(Source("", without_semicolon(text)), command.end())
    except Unfinished:
        return False
    except UserError:
        return True
    return True


def _ends_with_semicolon(text: str) -> bool:
    """Whether a text that is right ends with `;`, comments aside: only then may a further statement follow."""
    try:
        parse_program(f"{text}\nfollowing")
    except UserError:
        return False
    return True


def without_semicolon(text: str) -> str:
    """A text without the `;` that may end it."""
    return re.sub(r";\s*\Z", "", text)


@attrs.define
class Transcript:
    """All inputs so far. Each is parsed as the end of this text, so that each position in the session is unique.

    An error of an expression may be in a definition from an earlier input; it is shown with the line of that.
    """

    name: str
    text: str = ""

    def add(self, text: str) -> tuple[Source, int]:
        """The whole text with an input at its end, and where the input begins."""
        begin = len(self.text)
        self.text += text if text.endswith("\n") else f"{text}\n"
        return Source(self.name, self.text), begin
