"""`mrql shell`: statements answered as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrql.cli.common import ARGS, Common, common_options
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import TRUSTED, malformed_options, opened
from mrql.jobs.batch import BatchJob, ReferenceBatchJob
from mrql.output.activity import Activity
from mrql.output.tables import SHOWN_ROWS
from mrql.shell.interruptible import InterruptibleBatchJob
from mrql.shell.session import Session
from mrql.shell.start import start
from mrql.translate.program import Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command()
@ARGS
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=SHOWN_ROWS,
    show_default=True,
    help="At most so many rows of an answer on a terminal; 0 shows all.",
)
@TRUSTED
@malformed_options
@common_options
@reports_errors
def shell(args: tuple[str, ...], rows: int, trusted: bool, quarantine: Path | None, common: Common) -> None:
    """Answer statements as they are typed, or as they arrive on standard input."""

    def new_job(program: Program) -> BatchJob:
        reference = common.engine == "reference"
        return ReferenceBatchJob(program, kept) if reference else InterruptibleBatchJob(program, start_spark, kept)

    def start_spark() -> SparkSession:
        with Activity.on_terminal().during("starting Spark"):
            return common.session()

    kept = opened(quarantine)
    session = Session(
        common.data,
        args,
        common.max_steps,
        new_job=new_job,
        quarantine=kept,
        may_import=common.may_import,
        trusted=trusted,
    )
    start(session, common.engine, common.as_json, rows or None)
