"""The errors of this package: the user's query or data is wrong, an engine has failed, or the package has a fault.

Nothing here prints: the command line renders a `UserError` with its line and caret, and chooses the exit code
that the error carries.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra.showable import escaped, showable
from mrql.algebra.span import Span


class MrqlError(Exception):
    """The base class of the errors that this package reports to its users."""

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
        """The message with place, line, caret and hint."""
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
"""The maximal length of a line as shown; of a longer line, the part around the place is shown."""
MESSAGE_MAX_CHARACTERS = 800
"""The characters shown, half from the start and half from the end, of a message more than twice as long."""


def _cropped(message: str) -> str:
    """The message, without its middle if it is too long, since it may contain a name or a value of any length."""
    if len(message) <= 2 * MESSAGE_MAX_CHARACTERS:
        return message
    return f"{message[: MESSAGE_MAX_CHARACTERS // 2]}…{message[-MESSAGE_MAX_CHARACTERS // 2 :]}"


def _shown(line: str, column: int) -> tuple[str, int]:
    """The part of a line that is shown, and the column within that part."""
    if len(line) <= LINE_MAX_CHARACTERS:
        return line, column
    start = max(0, min(column - 1 - LINE_MAX_CHARACTERS // 4, len(line) - LINE_MAX_CHARACTERS))
    shown = line[start : start + LINE_MAX_CHARACTERS]
    before, behind = "…" if start else "", "…" if start + LINE_MAX_CHARACTERS < len(line) else ""
    return f"{before}{shown}{behind}", column - start + len(before)


class WrongRow(UserError):
    """A row of a stream is invalid, by itself or given the others. The place is that of the stream; rows and keys are
    given as text."""

    def __init__(self, stream: str, message: str, span: Span | None = None, hint: str | None = None) -> None:
        super().__init__(message, span, hint)
        self.stream = stream
        self.has_place = False
        """Whether the files with such rows have been looked up and, if found, named in the hint."""


class MissingRow(WrongRow):
    """A row is deleted from a stream more often than it occurs there; `times` is the difference."""

    def __init__(self, stream: str, row: str, times: int = 1, span: Span | None = None) -> None:
        often = "" if times == 1 else f" ({times} times)"
        super().__init__(stream, f"a row is deleted from `{stream}` that is not there{often}: {row}", span)
        self.row = row


class AmbiguousRow(WrongRow):
    """Two different rows of a stream have the same key, and nothing determines which of them is later."""

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
    """A trusted deletion has left a negative number of rows under a key of a state."""

    def __init__(self, streams: Sequence[str], state: str, key: str) -> None:
        named = " or ".join(f"`{name}`" for name in streams)
        message = f"a row is deleted from {named} that is not there: less than nothing is left under {key} in {state}"
        super().__init__(message, hint="where deletions are not trusted, they are looked up, and the row is named")


class TooFewDigits(UserError):
    """A sum has lost too many digits in an engine that does not keep sums exactly."""

    def __init__(self, span: Span | None = None) -> None:
        message = "too few digits are left of a sum from which much larger numbers were taken back"
        super().__init__(message, span, "of numbers below 10^28 there are always enough: divide what is added up")


class EvaluationError(Exception):
    """A function met a value for which it has no result; the evaluator adds the place."""

    hint: str | None = None


OF_INTS = "an int has 32 bits, and a long 64: `e as long`"
"""The hint for an overflow in a computation on ints alone."""


class IntegerOverflow(EvaluationError):
    """A value outside the range of its integer type."""

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
    """A fault of this package: for example, a pass has violated its contract. `where` names the pass or module."""

    exit_code = 70

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"internal error in {where}: {message}")
        self.where = where
