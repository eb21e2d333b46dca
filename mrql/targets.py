"""`dump "path" from e` and `store "path" from e`: where an answer is written, and how.

`dump` writes JSON, a row a line, which `source(json, …)` reads back; `store` writes text, the values of a row separated
by commas, which `source(csv, …)` reads back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.paths import path_in
from mrql.scope import Globals
from mrql.sources import known_text


@attrs.frozen
class Target:
    """A directory that the rows of an answer of a type are written to."""

    path: Path
    format: Format
    type: Type
    span: Span = attrs.field(eq=False, repr=False)

    @property
    def row(self) -> Type:
        """The type of a row."""
        return self.type.item if isinstance(self.type, ty.BagType | ty.ListType) else self.type


def target_of(statement: syntax.Dump, t: Type, known: Globals, base: Path) -> Target:
    """Where a statement writes an answer of a type.

    Raises: UserError where the path is no text that is known beforehand, or a row has no form in the file.
    """
    path = known_text(statement.path, known, "the path of a file to write")
    target = Target(
        path_in(base, path, statement.path.span), Format.JSON if statement.text else Format.CSV, t, statement.span
    )
    if target.format is Format.CSV and not is_flat(target.row):
        message = f"a row of a csv file holds atomic values, and this one is of type {target.row}"
        raise UserError(message, statement.expr.span, "`dump` writes values of all types, as JSON")
    return target


def must_not_be_read(target: Target, sources: Iterable[SourceSpec]) -> None:
    """What an answer takes the place of must not be what it is made from.

    Raises: UserError where a source lies there, or below it.
    """
    place = target.path.resolve()
    for spec in sources:
        for part, _ in spec.directories if spec.adapter is None else ():
            read = Path(part.path.split("*")[0]).resolve()
            if place in (read, *read.parents):
                raise UserError(f"the answer would take the place of {part.path}, which it is made from", target.span)


def is_flat(row: Type) -> bool:
    """Whether a row of a csv file can hold the values of a type."""
    match row:
        case ty.TupleType(items) if items:
            return all(map(_is_atomic, items))
        case ty.RecordType(fields) if fields:
            return all(_is_atomic(part) for _, part in fields)
        case _:
            return _is_atomic(row)


def _is_atomic(t: Type) -> bool:
    return isinstance(t, ty.Basic) and ty.is_ordered(t)
