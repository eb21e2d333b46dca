"""Places that `--output` names: a directory, or a table of PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

import click

from mrql.algebra.showable import showable
from mrql.jobs.places import Place
from mrql.runtime.postgresql.address import is_address, parse_address


def places(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Place, ...]:
    """The places that a command line names.

    Raises: click.BadParameter where a text names none.
    """
    return tuple(_place(ctx, param, value) for value in values)


def _place(ctx: click.Context, param: click.Parameter, value: str) -> Place:
    if is_address(value):
        try:
            return parse_address(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    if re.match(r"\w+://", value):
        raise click.BadParameter(f"{showable(value)} is neither a directory nor postgresql://…", ctx, param)
    place: Path = click.Path(file_okay=False, path_type=Path).convert(value, param, ctx)
    return place
