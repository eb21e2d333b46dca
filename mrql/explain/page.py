"""A page of text: lines of limited width, with headings, terms and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from mrql.algebra.notation.printer import pretty
from mrql.algebra.terms import Term

STEP = 2

PAGE_MIN_COLUMNS = 60
"""The smallest width of a page, however narrow the terminal is."""


class Page:
    """Lines of text, of at most `width` columns where possible."""

    def __init__(self, width: int) -> None:
        self.width = max(width, PAGE_MIN_COLUMNS)
        self.lines: list[str] = []

    def gap(self) -> None:
        """Adds an empty line, unless the last line is empty."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def heading(self, text: str) -> None:
        self.gap()
        self.lines += [text, "─" * min(len(text), self.width)]

    def line(self, text: str, level: int = 1) -> None:
        self.prose(text, level, hanging=STEP)

    def prose(self, text: str, level: int = 1, *, hanging: int = 0) -> None:
        """Text broken between words; the lines after the first are indented by `hanging` more."""
        indent = " " * (STEP * level)
        self.lines += textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent + " " * hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def code(self, text: str, level: int = 1) -> None:
        """A line of a program, broken only when it does not fit."""
        indent = " " * (STEP * level)
        if len(indent + text) <= self.width:
            self.lines.append(f"{indent}{text}".rstrip())
        else:
            own = indent + text[: len(text) - len(text.lstrip())]
            self.lines += textwrap.wrap(
                text.strip(),
                self.width,
                initial_indent=own,
                subsequent_indent=own + " " * 2 * STEP,
                break_long_words=False,
                break_on_hyphens=False,
            )

    def term(self, label: str, term: Term, level: int = 1) -> None:
        """A term below its label, or on the same line if it fits there."""
        short = pretty(term, width=10**6, types=False)
        if STEP * level + len(label) + 1 + len(short) <= self.width:
            self.lines.append(f"{' ' * (STEP * level)}{label} {short}")
            return
        self.lines.append(f"{' ' * (STEP * level)}{label}")
        self.lines += pretty(term, self.width, STEP * (level + 1), types=False).split("\n")

    def table(self, rows: Iterable[tuple[str, ...]], level: int = 2) -> None:
        """Rows with aligned cells; a row that is too wide for that has its last cell on lines of its own."""
        rows = list(rows)
        narrow = [row for row in rows if len("  ".join(row[:-1])) <= self.width // 2]
        widths = [max(len(row[i]) for row in narrow) for i in range(len(rows[0]) - 1)] if narrow else []
        for row in rows:
            if row in narrow:
                start = "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), ""])
                self.cell(start, row[-1], level)
            else:
                self.line("  ".join(row[:-1]), level)
                self.prose(row[-1], level + 2)

    def cell(self, start: str, text: str, level: int) -> None:
        """Text after the `start` of its first line, broken between words."""
        indent = " " * (STEP * level)
        room = self.width - len(indent) - len(start)
        wrapped = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        self.lines.append(f"{indent}{start}{wrapped[0]}".rstrip())
        self.lines += [f"{indent}{' ' * len(start)}{more}" for more in wrapped[1:]]

    def text(self) -> str:
        return "\n".join(self.lines).rstrip() + "\n"
