"""The program of a query file, and the plans of its expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.errors import UserError
from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.explain import require_incremental
from mrql.jobs.loading import compile_over_files, versions_of
from mrql.jobs.planning import plan_options
from mrql.parser.includes import text_of
from mrql.rewrite.pipeline import plan_query
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.checkpoint.restore import FoundRows
from mrql.translate.program import CompiledExpression, Program

if TYPE_CHECKING:
    from mrql.jobs.stream_job import Planned


def load(
    file: Path, base: Path, args: tuple[str, ...] = (), max_steps: int = LOOP_MAX_STEPS, *, may_import: bool = True
) -> Program:
    """The typed program of a file, for the given arguments."""
    return compile_over_files(text_of(file), str(file), base, args, max_steps, may_import=may_import)


def planned(
    file: Path,
    base: Path,
    args: tuple[str, ...] = (),
    max_steps: int = LOOP_MAX_STEPS,
    strategy: LoopStrategy = LoopStrategy.AUTO,
    threshold: Threshold | None = None,
    *,
    rewritable: bool = False,
    trusted: bool = False,
    strict: bool = False,
    may_import: bool = True,
    versions: Mapping[str, int] | None = None,
) -> Callable[[FoundRows], Planned]:
    """A function from the inferred types of rows to the program of a file, its streaming query and its plan. The file
    is read once. `versions` has the known versions of static tables with a log; others are fixed by the first call."""
    text, known = text_of(file), dict(versions or {})

    def typed(rows: FoundRows) -> Planned:
        program = compile_over_files(
            text, str(file), base, args, max_steps, may_import=may_import, rows=rows, versions=known
        )
        known.update(versions_of(program))
        query = streaming_query(program, file)
        plan = plan_of(program, query, strategy, threshold, rewritable=rewritable, trusted=trusted)
        if strict:
            must_be_incremental(plan)
        return program, query, plan

    return typed


def streaming_queries(program: Program, file: Path) -> list[CompiledExpression]:
    """The expressions of a program that read a stream.

    Raises: UserError if there is none.
    """
    streaming = [q for q in program.queries if stream_names(q.term)]
    if not streaming:
        raise UserError(f"{file} has no expression that reads a stream", hint='stream(csv, "directory", …) makes one')
    return streaming


def streaming_query(program: Program, file: Path) -> CompiledExpression:
    """The one expression of a program that reads a stream.

    Raises: UserError if there is none, or a second one.
    """
    streaming = streaming_queries(program, file)
    if len(streaming) > 1:
        hint = "one answer may have both: `(first, second)`, or `<A: first, B: second>`"
        raise UserError("a second expression reads a stream; one is kept up to date at a time", streaming[1].span, hint)
    return streaming[0]


def plan_of(
    program: Program,
    query: CompiledExpression,
    strategy: LoopStrategy,
    threshold: Threshold | None = None,
    *,
    rewritable: bool = False,
    trusted: bool = False,
) -> Plan:
    """The plan of a query of a program, with the `plan_options` of that."""
    options = plan_options(program, strategy, threshold, rewritable=rewritable, trusted=trusted)
    return plan_query(query.term, options).plan


def must_be_incremental(*plans: Plan) -> None:
    """Raises: UserError for a plan with a part that each batch computes again from a whole state."""
    for plan in plans:
        require_incremental(plan)
