"""`mrql stream FILE`: the streaming query of a file kept up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mrql.algebra.analysis.traversal import subterms
from mrql.cli.common import ARGS, FILE, STRICT, Common, common_options
from mrql.cli.exit_codes import INTERRUPTED, reports_errors
from mrql.cli.options import PARTITIONS, REWRITES, TRUSTED, FiniteRange, MadeDirectory, loop_options, malformed_options
from mrql.cli.output_option import places
from mrql.cli.query_files import planned
from mrql.jobs.stream import CutOff, run_stream
from mrql.jobs.stream_job import StreamJob
from mrql.monitoring.watch import Operation, operation_options
from mrql.output.activity import Activity
from mrql.output.terminal import say
from mrql.rewrite.normalize.drop_traces import is_trace
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.checkpoint.restore import found_rows, found_versions
from mrql.runtime.sinks.places import Place
from mrql.runtime.sources.formats.formats import answer_formats
from mrql.runtime.streaming.stream_loop import Emit, Options


@click.command()
@FILE
@ARGS
@click.option(
    "--output",
    "outputs",
    multiple=True,
    callback=places,
    metavar="DIR|postgresql://…|delta://…",
    help="A directory for each batch goes here, or a table is kept; may be given more than once.",
)
@click.option(
    "--output-format",
    "files_format",
    type=click.Choice([*answer_formats()]),
    default="json",
    show_default=True,
    help="What the files of a directory are.",
)
@click.option("--once", is_flag=True, help="Take what is there, then stop.")
@click.option(
    "--interval",
    type=FiniteRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Seconds to wait before looking for new data again.",
)
@click.option(
    "--max-files", type=click.IntRange(min=1), help="At most so many files a batch, over all streams, oldest first."
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="About so many rows a batch of a stream that is not a directory.",
)
@REWRITES
@TRUSTED
@click.option(
    "--emit",
    type=click.Choice(["snapshot", "changes"]),
    default="snapshot",
    show_default=True,
    help="Whether each batch gives the whole answer, or the rows that came and went.",
)
@click.option(
    "--checkpoint",
    type=MadeDirectory(),
    help="Keep the state here, and go on from it when started again.",
)
@PARTITIONS
@STRICT
@loop_options
@malformed_options
@operation_options
@common_options
@reports_errors
def stream(
    file: Path,
    args: tuple[str, ...],
    outputs: tuple[Place, ...],
    files_format: str,
    once: bool,
    interval: float,
    max_files: int | None,
    max_rows: int,
    rewrites: str,
    trusted: bool,
    emit: str,
    checkpoint: Path | None,
    partitions: int | None,
    strict: bool,
    strategy: LoopStrategy,
    threshold: Threshold | None,
    quarantine: Path | None,
    operation: Operation,
    common: Common,
) -> None:
    """Keep the streaming query of a file up to date as files arrive."""
    rewritable = rewrites == "apply"
    typed = planned(
        file,
        common.data,
        args,
        common.max_steps,
        strategy,
        threshold,
        rewritable=rewritable,
        trusted=trusted,
        strict=strict,
        may_import=common.may_import,
        versions=found_versions(checkpoint),
    )
    rows = found_rows(checkpoint)
    program, query, plan = typed(rows)
    for other in program.queries:
        if other is not query:
            say(f"{other.span}: this reads no stream, and is not evaluated here: mrql run does", err=True)
    for traced in filter(is_trace, subterms(query.term)):
        say(f"{traced.span}: a query that is kept up to date prints no traces", err=True)
    options = Options(once, interval, max_files, max_rows, Emit(emit), rewrites == "keep-removed")
    shown = Activity.on_terminal(plain=operation.log_level is not None)
    job = StreamJob(
        program,
        query,
        plan,
        common.engine,
        lambda: shown.started(common.session),
        options,
        typed,
        rows,
        outputs=outputs,
        output_format=answer_formats()[files_format],
        as_json=common.as_json,
        quarantine=quarantine,
        checkpoint=checkpoint,
        operation=operation,
        rewritable=rewritable,
        partitions=partitions,
    )
    try:
        with shown.during("first batch"):
            run_stream(job, begun=shown.end)
    except CutOff:
        sys.exit(INTERRUPTED)
