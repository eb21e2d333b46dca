"""From the text of a query file to its program: the entry point of the language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mrql.algebra.catalog import Catalog
from mrql.algebra.errors import UserError
from mrql.algebra.stack import deep
from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.algebra.types import Type
from mrql.parser.parser import parse_program, parse_type
from mrql.translate.coercion import resolve
from mrql.translate.program import Program
from mrql.translate.scope import NOTHING, RowOf, unknown_row
from mrql.translate.statements import ProgramTranslator


@deep
def compile_program(
    text: str,
    name: str = "<query>",
    streams: Mapping[str, Type] | None = None,
    base: Path | None = None,
    args: Sequence[str] = (),
    max_steps: int = LOOP_MAX_STEPS,
    may_import: bool = True,
    row_of: RowOf = unknown_row,
    catalog: Catalog = NOTHING,
) -> Program:
    """Parses and types a program.

    `streams` are names that stand for streams of the given (bag) types; relative paths of sources are relative to
    `base`; `args` are the strings that the program sees as `args`; a loop without a limit may take `max_steps` steps.
    Without `may_import` it is an error to name Python code: an import, a parser, an adapter. `catalog` has the formats
    and kinds of sources, and `row_of` finds the type of the rows of a source for which the program gives none;
    `compile_over_files` of `mrql.jobs.loading` passes both.

    Raises: UserError at the first error.
    """
    try:
        tree = parse_program(text, name)
        translator = ProgramTranslator(
            streams or {}, base or Path(), args, max_steps, may_import=may_import, row_of=row_of, catalog=catalog
        )
        return translator.program(tree)
    except RecursionError:
        raise UserError(f"{name} is nested too deeply") from None


def compile_type(text: str, name: str = "<type>") -> Type:
    """The type that a text denotes, without any definitions.

    Raises: UserError where it denotes none.
    """
    return resolve(parse_type(text, name), ProgramTranslator({}, Path(), (), LOOP_MAX_STEPS).globals)
