"""Paths as a query writes them."""

from __future__ import annotations

from pathlib import Path

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span


def path_in(base: Path, text: str, span: Span) -> Path:
    """A path, relative to a directory.

    Raises: UserError where no file can be called so.
    """
    if "\0" in text:
        raise UserError("no path has the character \\u0000 in it", span)
    return base / text
