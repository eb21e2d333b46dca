"""The places of answers given by `--output`."""

from __future__ import annotations

import click

from mrql.algebra.showable import showable
from mrql.cli.options import MadeDirectory
from mrql.runtime.sinks.directory import DirectoryPlace
from mrql.runtime.sinks.places import Place, place_at


def places(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Place, ...]:
    """The places that a command line names.

    Raises: click.BadParameter if a value names no place, or two values name the same.
    """
    found: dict[str, Place] = {}
    for value in values:
        place = _place(ctx, param, value)
        if place.known_by in found:
            raise click.BadParameter(f"{showable(value)} is named twice", ctx, param)
        found[place.known_by] = place
    return tuple(found.values())


def _place(ctx: click.Context, param: click.Parameter, value: str) -> Place:
    try:
        place = place_at(value)
    except ValueError as error:
        raise click.BadParameter(showable(str(error)), ctx, param) from None
    return place or DirectoryPlace(MadeDirectory().convert(value, param, ctx))
