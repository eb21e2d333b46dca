"""Programs over files: where a program gives no type of the rows of a source, it is found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.terms import STEPS
from mrql.algebra.types import Type
from mrql.runtime.sources.catalog import CATALOG
from mrql.runtime.sources.files import row_type
from mrql.translate.compile_program import compile_program
from mrql.translate.program import Program


def compile_over_files(
    text: str,
    name: str = "<query>",
    base: Path | None = None,
    args: Sequence[str] = (),
    max_steps: int = STEPS,
    *,
    may_import: bool = True,
    rows: Mapping[str, Type] | None = None,
) -> Program:
    """Compiles a program as `compile_program` does. Of a stream of JSON without a type, the type of the `rows` may be
    known by its absolute path.

    Raises: UserError at the first thing that is wrong.
    """

    def row_of(spec: SourceSpec) -> Type:
        known = (rows or {}).get(str(Path(spec.path).absolute())) if spec.found else None
        return row_type(spec) if known is None else known

    return compile_program(
        text,
        name,
        base=base,
        args=args,
        max_steps=max_steps,
        may_import=may_import,
        row_of=row_of,
        catalog=CATALOG,
    )
