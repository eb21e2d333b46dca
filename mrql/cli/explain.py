"""`mrql explain FILE`: what is kept of a query, what a batch costs, and how its plan was derived."""

from __future__ import annotations

from pathlib import Path

import click

from mrql.algebra.errors import UserError
from mrql.cli.common import ARGS, FILE, STRICT, Common, query_options
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import REWRITES, TRUSTED, loop_options
from mrql.cli.query_files import load, must_be_incremental
from mrql.explain import (
    explain_graph,
    explain_json,
    explain_passes,
    explain_summary,
    explain_trace,
    passes_document,
)
from mrql.jobs.planning import plan_options
from mrql.output.tables import type_name
from mrql.output.terminal import page_width, say, say_document
from mrql.rewrite.pipeline import plan_query
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.threshold import Threshold


@click.command()
@FILE
@ARGS
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document.")
@click.option(
    "--graph",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the stages into an SVG file, those of the last expression of the file.",
)
@click.option("--derivation", is_flag=True, help="Show every step from the text to the stages.")
@click.option("--passes", is_flag=True, help="Show every pass that ran, its condition and what it changed.")
@REWRITES
@STRICT
@TRUSTED
@loop_options
@query_options
@reports_errors
def explain(
    file: Path,
    args: tuple[str, ...],
    as_json: bool,
    graph: Path | None,
    derivation: bool,
    passes: bool,
    rewrites: str,
    strict: bool,
    strategy: LoopStrategy,
    threshold: Threshold | None,
    trusted: bool,
    common: Common,
) -> None:
    """Show what is kept of a query, and what a batch costs."""
    if derivation and passes:
        raise click.UsageError("--derivation and --passes are two pages: ask for one of them")
    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    options = plan_options(program, strategy, threshold, rewritable=rewrites == "apply", trusted=trusted)
    traces = [(q, plan_query(q.term, options)) for q in program.queries]
    if strict:
        must_be_incremental(*(trace.plan for _, trace in traces))
    if not traces and graph is not None:
        raise UserError(f"{file} has nothing of which there could be a graph: only definitions, if anything")
    if not traces and not (as_json or common.as_json):
        say(f"{file} has nothing to explain: only definitions, if anything", err=True)
        return
    if graph is not None:
        graph.write_text(explain_graph(traces[-1][1]), encoding="utf-8")
        say(f"wrote {graph}", err=True)
    if as_json or common.as_json:
        described = (lambda trace: {"passes": passes_document(trace)}) if passes else explain_json
        documents = [{"line": q.span.line, "type": type_name(q.type), **described(t)} for q, t in traces]
        say_document(documents)
        return
    for query, trace in traces:
        say(f"── {query.span.source.name}:{query.span.line}: {type_name(query.type)}\n")
        say((explain_passes if passes else explain_trace if derivation else explain_summary)(trace, page_width()))
