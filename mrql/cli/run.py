"""`mrql run FILE`: every expression evaluated once."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from mrql.cli.common import ARGS, FILE, Common, common_options
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import malformed_options, opened
from mrql.cli.query_files import load
from mrql.jobs.batch import BatchJob, ReferenceBatchJob, SparkBatchJob
from mrql.jobs.kept_aside import keep_aside
from mrql.output.activity import Activity
from mrql.output.tables import Printer, json_line, print_table
from mrql.output.terminal import say
from mrql.runtime.files.quarantine import Quarantine
from mrql.translate.program import Program


@click.command()
@FILE
@ARGS
@malformed_options
@common_options
@reports_errors
def run(file: Path, args: tuple[str, ...], quarantine: Path | None, common: Common) -> None:
    """Evaluate every expression of a query file once."""
    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    kept = opened(quarantine)
    console = Printer()
    shown = Activity.on_terminal()
    with contextlib.closing(_job(program, common, kept, shown)) as job:
        for query in program.queries:
            with shown.during(f"computing line {query.span.line}"):
                if query.target is not None:
                    job.write(query)
                    continue
                answer = job.answer(query)
            if common.as_json:
                say(json_line(query.span.line, query.type, answer))
            else:
                print_table(answer, query.type, console, limit=None)
    if not program.queries:
        say(f"{file} has nothing to evaluate: only definitions, if anything", err=True)
    if (said := keep_aside(kept, "run")) is not None:
        say(said, err=True)


def _job(program: Program, common: Common, quarantine: Quarantine | None, shown: Activity) -> BatchJob:
    if common.engine == "reference":
        return ReferenceBatchJob(program, quarantine)
    return SparkBatchJob(program, lambda: shown.started(common.session), quarantine)
