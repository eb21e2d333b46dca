"""What commands have in common: what becomes of malformed rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mrql.algebra.malformed import Quarantine
from mrql.runtime.durable import Files

R = TypeVar("R")


def malformed_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the options for malformed rows, and hands over the directory that they are kept in, or None."""

    @click.option(
        "--malformed",
        type=click.Choice(["fail", "quarantine"]),
        default="fail",
        show_default=True,
        help="Stop at the first malformed row, or keep them aside and go on.",
    )
    @click.option(
        "--quarantine", type=click.Path(file_okay=False, path_type=Path), help="An empty directory for malformed rows."
    )
    @functools.wraps(command)
    def wrapped(malformed: str, quarantine: Path | None, **rest: Any) -> R:
        if malformed == "quarantine" and quarantine is None:
            raise click.UsageError("--malformed quarantine needs --quarantine DIR, for the rows that are kept aside")
        if malformed == "fail" and quarantine is not None:
            raise click.UsageError("--quarantine DIR is for --malformed quarantine")
        return command(quarantine=quarantine, **rest)

    return wrapped


def opened(directory: Path | None) -> Quarantine | None:
    """The quarantine in a directory, if malformed rows are to be kept.

    Raises: UserError where something is in the directory.
    """
    return None if directory is None else Quarantine.new(directory)


def report_kept(quarantine: Quarantine | None, name: str) -> None:
    """Writes the malformed rows that were found into a directory of this name, and says so, if there are any."""
    kept = None if quarantine is None else quarantine.keep(name, Files().write)
    if kept is not None:
        click.echo(kept, err=True)
