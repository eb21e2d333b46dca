"""Programs over files: where a program gives no type for the rows of a source, it is inferred from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.algebra.types import Type
from mrql.runtime.checkpoint.places import place_of
from mrql.runtime.checkpoint.restore import FoundRows, known_row
from mrql.runtime.sources.catalog import CATALOG
from mrql.runtime.sources.files import row_type
from mrql.runtime.sources.source import open_table
from mrql.translate.compile_program import compile_program
from mrql.translate.program import Program


def compile_over_files(
    text: str,
    name: str = "<query>",
    base: Path | None = None,
    args: Sequence[str] = (),
    max_steps: int = LOOP_MAX_STEPS,
    *,
    may_import: bool = True,
    rows: FoundRows | None = None,
    versions: Mapping[str, int] | None = None,
) -> Program:
    """Compiles a program as `compile_program` does. `rows` may have the types of streams without one, and `versions`
    those of static tables with a log, by place (`place_of`), which are otherwise read at their newest version.

    Raises: UserError at the first thing that is wrong.
    """

    def row_of(spec: SourceSpec) -> Type:
        known = known_row(rows or {}, spec) if spec.found else None
        return row_type(_as_it_was(spec, versions or {})) if known is None else known

    program = compile_program(
        text,
        name,
        base=base,
        args=args,
        max_steps=max_steps,
        may_import=may_import,
        row_of=row_of,
        catalog=CATALOG,
    )
    sources = {name: _at_a_version(spec, versions or {}) for name, spec in program.sources.items()}
    return attrs.evolve(program, sources=sources)


def versions_of(program: Program) -> dict[str, int]:
    """The versions of the static tables with a log, by place, where the program does not give the version."""
    found = (spec for spec in program.sources.values() if spec.version_found)
    return {place_of(spec): spec.version for spec in found if spec.version is not None}


def _as_it_was(spec: SourceSpec, known: Mapping[str, int]) -> SourceSpec:
    """A source; a static table with a log gets its known version, if there is one, which determines its columns."""
    if not spec.versioned or spec.stream or spec.version is not None:
        return spec
    return attrs.evolve(spec, version=known.get(place_of(spec)), version_found=True)


def _at_a_version(spec: SourceSpec, known: Mapping[str, int]) -> SourceSpec:
    """A source; a static table with a log gets its known or newest version, so that later writes do not change it."""
    spec = _as_it_was(spec, known)
    if not spec.version_found or spec.version is not None:
        return spec
    return attrs.evolve(spec, version=open_table(spec).newest())
