"""The options by which expressions are kept up to date, from what the program and the command say."""

from __future__ import annotations

from mrql.algebra.errors import UserError
from mrql.rewrite.pipeline import PlanOptions
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.threshold import Threshold
from mrql.translate.program import Program


def plan_options(
    program: Program,
    strategy: LoopStrategy = LoopStrategy.AUTO,
    threshold: Threshold | None = None,
    *,
    rewritable: bool = False,
    trusted: bool = False,
) -> PlanOptions:
    """The options for the deletions that a program declares, and for those of files that change if files are
    `rewritable`. Deletions of logs, and of tables with one, are trusted; with `trusted`, all are.

    Raises: UserError where files may change whose rows replace others.
    """
    files = {name for name, spec in program.sources.items() if spec.stream and spec.is_files}
    shrinking = program.shrinking | (files if rewritable else frozenset())
    for name in sorted(program.keyed) if rewritable else ():
        message = f"rows of `{name}` replace others, and those of a file cannot be taken back"
        raise UserError(message, program.sources[name].span, "leave out --rewrites apply")
    return PlanOptions(shrinking, strategy, threshold, shrinking if trusted else program.consistent, program.keyed)
