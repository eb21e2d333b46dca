"""`mrql check FILE`: parse and type only."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mrql.cli.common import ARGS, FILE, STRICT, Common, query_options
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import TRUSTED, loop_options
from mrql.cli.query_files import load, must_be_incremental, plan_of
from mrql.output.tables import type_name
from mrql.output.terminal import say
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.threshold import Threshold


@click.command()
@FILE
@ARGS
@STRICT
@TRUSTED
@loop_options
@query_options
@reports_errors
def check(
    file: Path,
    args: tuple[str, ...],
    strict: bool,
    trusted: bool,
    strategy: LoopStrategy,
    threshold: Threshold | None,
    common: Common,
) -> None:
    """Parse and type a query file, and say what its expressions are."""
    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    # Otherwise the plan of a query does not matter here.
    if strict or strategy is not LoopStrategy.AUTO:
        plans = [plan_of(program, query, strategy, threshold, trusted=trusted) for query in program.queries]
        must_be_incremental(*(plans if strict else ()))
    for query in program.queries:
        if common.as_json:
            say(json.dumps({"line": query.span.line, "type": type_name(query.type)}))
        else:
            say(f"{query.span.source.name}:{query.span.line}: {type_name(query.type)}")
    if not program.queries and not common.as_json:
        say(f"{file}: definitions only")
