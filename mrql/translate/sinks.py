"""`dump "path" from e` and `store "path" from e`: where an answer is written, and how.

`dump` writes JSON, one row per line, which `source(json, …)` reads back; `store` writes CSV, with commas between the
values of a row, which `source(csv, …)` reads back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mrql import syntax
from mrql.algebra.catalog import SinkSpec, SourceSpec, item_type
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.algebra.values.file_names import begin_of_address
from mrql.parser.paths import path_in
from mrql.translate.scope import Globals
from mrql.translate.source_arguments import known_text


def target_of(statement: syntax.Dump, t: Type, known: Globals, base: Path) -> SinkSpec:
    """The target to which a statement writes an answer of type `t`.

    Raises: UserError where the path is no string that is known before there are any data, or is an address, or the
        format cannot hold a row.
    """
    path = known_text(statement.path, known, "the path of a file to write")
    if begin_of_address(path) is not None:
        hint = "`mrql stream --output` takes addresses; a directory of such a name begins with ./"
        raise UserError("an answer is written to a directory here, and not to an address", statement.path.span, hint)
    format = known.catalog.formats["json" if statement.text else "csv"]
    target = SinkSpec(path_in(base, path, statement.path.span), format, t, statement.span)
    if not format.can_hold(row := item_type(t)):
        message = f"a row of {format} file holds atomic values, and this one is of type {row}"
        raise UserError(message, statement.expr.span, "`dump` writes values of all types, as JSON")
    return target


def must_not_be_read(target: SinkSpec, sources: Iterable[SourceSpec]) -> None:
    """Checks that an answer does not take the place of data that it is made from.

    Raises: UserError where a source lies in the directory of the target, or below it.
    """
    place = target.path.resolve()
    for spec in sources:
        for part, _ in spec.directories:
            read = Path(part.path.split("*")[0]).resolve()
            if place in (read, *read.parents):
                raise UserError(f"the answer would take the place of {part.path}, which it is made from", target.span)
