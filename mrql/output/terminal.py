"""What the commands say on a terminal."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import click

from mrql.algebra.showable import escaped, numbered

PAGE_MAX_COLUMNS = 100


def page_width() -> int:
    """The columns of a page of text: those of the terminal, if it is one, but no more than are read well."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_MAX_COLUMNS
    return min(columns, PAGE_MAX_COLUMNS)


def say(text: str, *, err: bool = False) -> None:
    """Prints lines. Names of files and fields in them cannot move the cursor, ring, or turn a line round."""
    click.echo(escaped(text, "\n\t"), err=err)


def say_document(document: Any) -> None:
    """Prints a document in JSON, over several lines."""
    say(numbered(json.dumps(document, ensure_ascii=False, indent=2), "\n"))
