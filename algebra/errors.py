"""What can go wrong, in two kinds: the user's query or data is wrong, or we are.

Nothing here prints: the command line renders a `UserError` with its line and caret, and chooses the exit code
that the error carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra.showable import escaped, showable
from mrql.algebra.span import Span


class MrqlError(Exception):
    """The root of all errors that this package raises on purpose."""

    exit_code = 1


class UserError(MrqlError):
    """The query or its data is wrong.

    `message` is one sentence without a place; `span` is the place, when there is one; `hint` says what would be right.
    """

    def __init__(self, message: str, span: Span | None = None, hint: str | None = None) -> None:
        self.message = showable(message)
        super().__init__(self.message)
        self.span = span
        self.hint = None if hint is None else showable(hint)

    def render(self) -> str:
        """The message as a person reads it: place, line, caret, hint."""
        if self.span is None:
            return f"error: {_cropped(self.message)}" + (f"\n  hint: {self.hint}" if self.hint else "")
        line, column = _shown(self.span.source.line_text(self.span.line), self.span.column)
        # A span over several lines is underlined to the end of its first one.
        width = max(1, min(self.span.end - self.span.start, len(line) - column + 1))
        gutter = str(self.span.line)
        pad = " " * len(gutter)
        before = column - 1
        shown, marked = escaped(line[:before], "\t"), escaped(line[before : before + width], "\t")
        caret = "".join("\t" if c == "\t" else " " for c in shown) + "^" * max(1, len(marked))
        line = shown + marked + escaped(line[before + width :], "\t")
        rendered = f"{showable(str(self.span))}: error: {_cropped(self.message)}\n {gutter} | {line}\n {pad} | {caret}"
        return rendered + (f"\n {pad} = hint: {self.hint}" if self.hint else "")

    def __str__(self) -> str:
        return self.render()


LINE_MAX_CHARACTERS = 160
"""How much of a line is shown: of a longer one what is around the place."""
MESSAGE_MAX_CHARACTERS = 800
"""How long a message may be, but for the middle of it."""


def _cropped(message: str) -> str:
    """A message in which a name or a value of any length may be."""
    if len(message) <= 2 * MESSAGE_MAX_CHARACTERS:
        return message
    return f"{message[: MESSAGE_MAX_CHARACTERS // 2]}…{message[-MESSAGE_MAX_CHARACTERS // 2 :]}"


def _shown(line: str, column: int) -> tuple[str, int]:
    """A line as it is shown, and where the column is in that."""
    if len(line) <= LINE_MAX_CHARACTERS:
        return line, column
    start = max(0, min(column - 1 - LINE_MAX_CHARACTERS // 4, len(line) - LINE_MAX_CHARACTERS))
    shown = line[start : start + LINE_MAX_CHARACTERS]
    before, behind = "…" if start else "", "…" if start + LINE_MAX_CHARACTERS < len(line) else ""
    return f"{before}{shown}{behind}", column - start + len(before)


class WrongRow(UserError):
    """A row of a stream cannot be what it is, beside the others. Its place is that of the stream; rows and keys are
    given as texts."""

    def __init__(self, stream: str, message: str, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message, span, hint)
        self.stream = stream
        self.has_place = False
        """Whether the hint says in which files such rows are, as far as they were found."""


class MissingRow(WrongRow):
    """A row is deleted from a stream more often than it is there; `times` says how much more often."""

    def __init__(self, stream: str, row: str, times: int = 1, span: Span | None = None) -> None:
        often = "" if times == 1 else f" ({times} times)"
        super().__init__(stream, f"a row is deleted from `{stream}` that is not there{often}: {row}", span)
        self.row = row


class AmbiguousRow(WrongRow):
    """Two rows of a stream have one key, and nothing says which of them is later."""

    def __init__(self, stream: str, key: str, version: str, *, versioned: bool, span: Span | None = None) -> None:
        if versioned:
            what = f"two different rows of `{stream}` have the key {key} and the version {version}"
            super().__init__(stream, what, span, "each change of a row needs a version of its own")
        else:
            what = f"two different rows of `{stream}` in one batch have the key {key}"
            super().__init__(stream, what, span, "a version, a field that grows with each change, says which is later")
        self.key, self.version = key, version


class MissingVersion(WrongRow):
    """A row of a stream has no version."""

    def __init__(self, stream: str, key: str, field: str, span: Span | None = None) -> None:
        super().__init__(stream, f"a row of `{stream}` with the key {key} has no version: `{field}` is missing", span)
        self.key = key


class WrongDeletion(UserError):
    """A deletion that was trusted has left less than nothing under a key of a state."""

    def __init__(self, streams: Sequence[str], state: str, key: str) -> None:
        named = " or ".join(f"`{name}`" for name in streams)
        message = f"a row is deleted from {named} that is not there: less than nothing is left under {key} in {state}"
        super().__init__(message, hint="where deletions are not trusted, they are looked up, and the row is named")


class TooFewDigits(UserError):
    """An engine that does not keep sums exactly knows one not well enough any more."""

    def __init__(self, span: Span | None = None) -> None:
        message = "too few digits are left of a sum from which much larger numbers were taken back"
        super().__init__(message, span, "of numbers below 10^24 there are always enough: divide what is added up")


class EvaluationError(Exception):
    """A function met a value for which it has no result; the evaluator adds the place."""

    hint: str | None = None


OF_INTS = "an int has 32 bits, and a long 64: `e as long`"
"""The hint for an overflow of what is computed of ints alone."""


class IntegerOverflow(EvaluationError):
    """A value that its type of integers does not hold."""

    def __init__(self) -> None:
        super().__init__("integer overflow")


class EngineError(MrqlError):
    """Spark, Java or a database server is missing or failed, through no fault of the query."""

    exit_code = 3

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = showable(message)
        super().__init__(self.message)
        self.hint = None if hint is None else showable(hint)

    def render(self) -> str:
        return f"error: {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")

    def __str__(self) -> str:
        return self.render()


class InternalError(MrqlError):
    """A pass broke its own promise: a fault of this package, with the pass and the term at which it showed."""

    exit_code = 70

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"internal error in {where}: {message}")
        self.where = where
