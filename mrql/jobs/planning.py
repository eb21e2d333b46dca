"""How the expressions of a program are to be kept up to date: what the program says of it, and what a command does."""

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
    """With the deletions that a program declares, and those of files that change, where these are `rewritable`. Those
    of logs, and of tables with one, are trusted, and all of them may be `trusted`.

    Raises: UserError where files may change whose rows replace others.
    """
    files = {name for name, spec in program.sources.items() if spec.stream and spec.is_files}
    shrinking = program.shrinking | (files if rewritable else frozenset())
    for name in sorted(program.keyed) if rewritable else ():
        message = f"rows of `{name}` replace others, and those of a file cannot be taken back"
        raise UserError(message, program.sources[name].span, "leave out --rewrites apply")
    return PlanOptions(shrinking, strategy, threshold, shrinking if trusted else program.consistent, program.keyed)
