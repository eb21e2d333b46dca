"""Places in a query's text.

A `Span` knows the text it is a part of, so that whoever raises an error far from the parser (a rewrite, the
evaluator, Spark) can still say where in the file it happened. Spans never take part in equality.
"""

from __future__ import annotations

import bisect
import re
import textwrap

import attrs

from mrql.algebra.showable import without_passwords


@attrs.frozen
class Source:
    """A named text: a query file, a string given to `mrql.compile`, a data file.

    An `included` one is a file of that name, included in another source.
    """

    name: str
    text: str = attrs.field(repr=False)
    included: bool = attrs.field(default=False, repr=False, kw_only=True)
    line_starts: tuple[int, ...] = attrs.field(init=False, repr=False, eq=False)

    @line_starts.default
    def _find_line_starts(self) -> tuple[int, ...]:
        return (0, *(found.end() for found in re.finditer("\n", self.text)))

    @property
    def shown(self) -> str:
        """The text without passwords, each of which may span lines; all else keeps its position."""
        return without_passwords(self.text)

    def line_of(self, offset: int) -> int:
        """The 1-based number of the line that holds `offset`."""
        return bisect.bisect_right(self.line_starts, offset)

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its line break, as it is shown."""
        lines = self.shown.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""


@attrs.frozen
class Span:
    """The half-open range `[start, end)` of characters of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """The 1-based line of the first character."""
        return self.source.line_of(self.start)

    @property
    def column(self) -> int:
        """The 1-based column of the first character."""
        return self.start - self.source.line_starts[self.line - 1] + 1

    @property
    def text(self) -> str:
        return self.source.shown[self.start : self.end]

    @property
    def aligned(self) -> str:
        """The text with its lines aligned as in the source, less the indentation that they share."""
        return textwrap.dedent(" " * (self.column - 1) + self.text)

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"
