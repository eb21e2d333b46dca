"""What the commands say on a terminal."""

from __future__ import annotations

import click

from mrql.algebra.showable import escaped


def say(text: str, *, err: bool = False) -> None:
    """Prints lines. Names of files and fields in them cannot move the cursor, ring, or turn a line round."""
    click.echo(escaped(text, "\n\t"), err=err)
