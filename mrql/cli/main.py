"""The command line.

    mrql run FILE [ARG…]        evaluate every expression of a file once
    mrql stream FILE [ARG…]     keep the streaming query of a file up to date
    mrql explain FILE [ARG…]    what is kept of a query, and what a batch costs
    mrql check FILE [ARG…]      parse and type only
    mrql infer FILE…            the type of the rows of files
    mrql shell [ARG…]           answer statements as they are typed
    mrql verify FILE [ARG…]     replay the query's own data in random batches, and compare with the batch answer
    mrql checkpoint …           show, verify, compact or give up what a stream has kept in a directory

Exit codes: 0 done, 1 the query or its data is wrong, 2 bad usage, 3 Spark, Java or a database server is missing or
failed, a port is taken, or a file cannot be written, 70 a fault of mrql itself, 130 it was interrupted.
"""

from __future__ import annotations

import importlib

import click

from mrql.cli.text_streams import speak_utf8
from mrql.version import __version__

COMMANDS = ("check", "checkpoint", "explain", "infer", "run", "shell", "stream", "verify")
"""The commands; each is the object of its name in the module of its name."""


class Commands(click.Group):
    """Loads a command when it is called, so that `check` does not load what only a stream or a terminal needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        # For an unknown name, click suggests the nearest one among the loaded commands: all are loaded.
        for wanted in [name] if name in COMMANDS else COMMANDS:
            self.add_command(getattr(importlib.import_module(f"mrql.cli.{wanted}"), wanted), wanted)
        return super().get_command(ctx, name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Queries over nested data, written once and kept up to date on Spark."""
    speak_utf8()
