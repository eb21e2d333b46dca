"""`mrql verify FILE`: replays the data of a query in random batches, and compares with the batch answer."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.showable import numbered
from mrql.algebra.values.values import Value
from mrql.cli.common import ARGS, FILE, Common, common_options
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import LOOP, TRUSTED
from mrql.cli.query_files import load, streaming_queries
from mrql.jobs.batch import sources_of
from mrql.output.tables import type_name
from mrql.output.terminal import say
from mrql.rewrite.normalize.drop_traces import drop_traces
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.engine.row_format import json_text
from mrql.runtime.sources.catalog import must_not_be_handed_over
from mrql.runtime.sources.files import read_arrived, read_source
from mrql.runtime.sources.wrong_rows import naming_files
from mrql.runtime.streaming.stream_loop import must_exist
from mrql.translate.program import CompiledExpression
from mrql.verify import verifier
from mrql.verify.engines import ReferenceIncremental, Start, on_spark
from mrql.verify.report import document, render, rows_used
from mrql.verify.verifier import Sampler, Verified, VerifyOptions, scenarios


@click.command()
@FILE
@ARGS
@click.option("--seed", type=click.IntRange(min=0), help="Makes the histories what they are; random when not given.")
@click.option("--histories", type=click.IntRange(min=1), default=4, show_default=True, help="How many histories.")
@click.option("--batches", type=click.IntRange(min=1), default=6, show_default=True, help="How many batches in each.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=30, show_default=True, help="At most so many rows of each source."
)
@LOOP
@TRUSTED
@common_options
@reports_errors
def verify(
    file: Path,
    args: tuple[str, ...],
    seed: int | None,
    histories: int,
    batches: int,
    rows: int,
    strategy: LoopStrategy,
    trusted: bool,
    common: Common,
) -> None:
    """Replay the data of a query file in random batches, with deletions, and compare with the batch answer.

    Every expression that reads a stream is verified, with the deletions that the file declares and with deletions from
    all of its streams.
    """
    if strategy is LoopStrategy.DIFFUSE:
        raise click.UsageError(
            "a loop that is carried over is no more exact than its residual says: nothing to compare"
        )
    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    queries = streaming_queries(program, file)
    read = [spec for query in queries for spec in sources_of(program, query.term).values()]
    must_not_be_handed_over(read)
    must_exist(read)
    effort = VerifyOptions(
        secrets.randbelow(2**32) if seed is None else seed, histories, batches, rows, strategy=strategy
    )
    trusting = frozenset(program.sources) if trusted else program.consistent
    if not common.as_json:
        say(f"seed {effort.seed}")
    right = True
    for query in queries:
        start = _incremental(query, common)
        specs = sources_of(program, query.term)
        right &= verify_expression(query, specs, trusting, effort, start, as_json=common.as_json)
    if not right:
        sys.exit(1)


def _incremental(query: CompiledExpression, common: Common) -> Start:
    return ReferenceIncremental if common.engine == "reference" else on_spark(common.session(), query.span.source)


def verify_expression(
    query: CompiledExpression,
    specs: Mapping[str, SourceSpec],
    trusted: frozenset[str],
    effort: VerifyOptions,
    start: Start,
    *,
    as_json: bool,
) -> bool:
    """Verifies an expression over the data of its sources, in each scenario until one fails; returns whether none does.
    Deletions of `trusted` streams are not looked up.

    Raises: UserError when a row is malformed, or the query has no value for the data.
    """
    with naming_files(specs):
        sampler = Sampler({name: _rows(spec) for name, spec in specs.items()}, effort.rows)
    keyed = {name: spec.key for name, spec in specs.items() if spec.key is not None}
    if not as_json:
        say(f"{query.span.source.name}:{query.span.line}: {type_name(query.type)}")
        say("\n".join(rows_used(sampler)))
    found: list[Verified] = []
    term = drop_traces(query.term)
    shrinking = frozenset(name for name, spec in specs.items() if spec.shrinks)
    for scenario in scenarios(term, shrinking, keyed, trusted):
        found.append(verifier.verify(term, sampler, scenario, effort, start, _progress))
        if not as_json:
            say("\n".join(render(found[-1], query.type)))
        if found[-1].counterexample is not None:
            break
    if as_json:
        say(numbered(json_text(_document(query, sampler, effort, found))))
    return found[-1].counterexample is None


def _rows(spec: SourceSpec) -> list[Value]:
    """The rows for the histories: for a source with a key, all rows that were inserted, also those replaced since."""
    return [*read_source(spec)] if spec.key is None else [*read_arrived(spec)]


def _progress(line: str) -> None:
    say(line, err=True)


def _document(
    query: CompiledExpression, sampler: Sampler, effort: VerifyOptions, found: list[Verified]
) -> dict[str, object]:
    rows = {name: {"used": sampler.wanted[name], "of": len(rows)} for name, rows in sampler.data.items()}
    head = {"line": query.span.line, "type": type_name(query.type), "seed": effort.seed, "rows": rows}
    return {**head, "verified": list(map(document, found))}
