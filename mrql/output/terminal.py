"""What the commands say on a terminal."""

from __future__ import annotations

import json
from typing import Any

import click

from mrql.algebra.showable import escaped, numbered


def say(text: str, *, err: bool = False) -> None:
    """Prints lines. Names of files and fields in them cannot move the cursor, ring, or turn a line round."""
    click.echo(escaped(text, "\n\t"), err=err)


def say_document(document: Any) -> None:
    """Prints a document in JSON, over several lines."""
    say(numbered(json.dumps(document, ensure_ascii=False, indent=2), "\n"))
