"""`include "file"`: a statement that is replaced by the statements of another file.

A path is relative to the file that it is written in; where there is no such file, it may name one that comes with mrql
(`mrql/library`). A file is included once, however often it is named; a file that includes itself, directly or through
others, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.parser.parser import parse_program
from mrql.parser.paths import path_in

LIBRARY = Path(__file__).parent.parent / "library"
"""Files of macros that come with mrql."""


class Includes:
    """The files of a program: those that are being read, and those that have been."""

    def __init__(self) -> None:
        self.open: list[Path] = []
        self.done: set[Path] = set()

    def begin(self, source: Source) -> None:
        """Starts with the text of the program itself, which need not be a file."""
        self.open = [Path(source.name).resolve()]

    @contextmanager
    def statements(self, statement: syntax.Include) -> Iterator[tuple[syntax.Statement, ...]]:
        """The statements of an included file, none if it has been included already. It is `open` while they are used.

        Raises: UserError where the file is missing, is no text, or includes itself.
        """
        path = path_in(Path(statement.span.source.name).parent, statement.path, statement.span)
        if not path.exists() and statement.path in _library():
            path = LIBRARY / statement.path
        file = path.resolve()
        if file in self.open:
            way = " → ".join(found.name for found in (*self.open[self.open.index(file) :], file))
            raise UserError(f"{path} includes itself: {way}", statement.span)
        if file in self.done:
            yield ()
            return
        hint = f"a path is relative to the file that it is written in; mrql has {', '.join(_library())}"
        tree = parse_program(text_of(path, statement.span, hint), str(path), included=True)
        self.open.append(file)
        yield tree.statements
        self.open.pop()
        self.done.add(file)


def is_of_library(source: Source) -> bool:
    """Whether a source is a file that comes with mrql."""
    return LIBRARY in Path(source.name).parents


@cache
def _library() -> list[str]:
    return sorted(file.name for file in LIBRARY.glob("*.mrql"))


def text_of(path: Path, span: Span | None = None, hint: str | None = None) -> str:
    """The text of a query file, without a byte order mark.

    Raises: UserError where it cannot be read, with the hint, or is not in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8", span) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", span, hint) from None
