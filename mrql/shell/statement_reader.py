"""Where an input ends, and where it stands in the text of the session."""

from __future__ import annotations

import re

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source
from mrql.parser.errors import Unfinished
from mrql.parser.parser import parse_expression_at, parse_program

COMMAND = re.compile(r"\s*:(\w*)\s*")
"""The colon and the name of a command; what it is given begins behind it."""

TAKES_EXPRESSION = ("type", "explain")
"""The commands that are given an expression, which may go on over several lines."""


def is_finished(text: str) -> bool:
    """Whether an input is to be taken as it is, when a line of it has ended: the parser says whether more must come.

    A text that is complete is taken when a `;` or an empty line ends it, as it could go on all the same. One that is
    wrong is taken at once, and its error shown.

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
    """All that has been typed. An input is read as the end of it, so that each place in the session is one of its own.

    An error of an expression may stand in a definition that was made long before; it is shown with the line of then.
    """

    name: str
    text: str = ""

    def add(self, text: str) -> tuple[Source, int]:
        """The whole text with an input at its end, and where the input begins."""
        begin = len(self.text)
        self.text += text if text.endswith("\n") else f"{text}\n"
        return Source(self.name, self.text), begin
