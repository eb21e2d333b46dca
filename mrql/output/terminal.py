"""Output of the commands to a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import click

from mrql.algebra.showable import escaped, numbered

PAGE_MAX_COLUMNS = 100


def page_width() -> int:
    """The width of a page of text: that of the terminal, if there is one, up to a readable maximum."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_MAX_COLUMNS
    return min(columns, PAGE_MAX_COLUMNS)


def say(text: str, *, err: bool = False) -> None:
    """Prints lines, escaped: names of files and fields in them cannot move the cursor, ring, or reverse a line."""
    click.echo(escaped(text, "\n\t"), err=err)


def say_document(document: Any) -> None:
    """Prints a document in JSON, over several lines."""
    say(numbered(json.dumps(document, ensure_ascii=False, indent=2), "\n"))
