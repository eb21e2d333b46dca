"""The command line.

    mrql run FILE [ARG…]        evaluate every expression of a file once
    mrql stream FILE [ARG…]     keep the streaming query of a file up to date
    mrql explain FILE [ARG…]    every step from the text to the stages
    mrql check FILE [ARG…]      parse and type only
    mrql shell [ARG…]           answer statements as they are typed
    mrql verify FILE [ARG…]     replay the query's own data in random batches, and compare with the batch answer
    mrql checkpoint …           show, verify or compact what a stream has kept in a directory

Exit codes: 0 done, 1 the query or its data is wrong, 2 bad usage, 3 Spark, Java or a database server is missing or
failed, or a file cannot be written, 130 it was interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import UserError
from mrql.algebra.terms import STEPS
from mrql.algebra.types import Type
from mrql.cli.checkpoint import checkpoint as checkpoint_commands
from mrql.cli.exit_codes import reports_errors
from mrql.cli.options import (
    LOOP,
    MEMORY,
    PARTITIONS,
    loop_options,
    malformed_options,
    memory_settings,
    opened,
    report_kept,
)
from mrql.cli.output_option import places
from mrql.jobs.batch import ReferenceRunner, Runner, SparkRunner, sources_of
from mrql.jobs.loading import compile_over_files
from mrql.monitoring.watch import Operation, operation_options
from mrql.output.tables import SHOWN_ROWS, Printer, json_line, print_table, type_name
from mrql.parser.includes import text_of
from mrql.rewrite.analysis.infer_merge import stream_names
from mrql.rewrite.normalize.drop_traces import is_trace
from mrql.rewrite.pipeline import rewrite
from mrql.rewrite.plan.loop_strategy import Way
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.sinks.places import Place
from mrql.runtime.sources.formats.formats import answer_formats
from mrql.translate.program import Program, Query
from mrql.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mrql.jobs.stream import Planned
    from mrql.verify.engines import Start

R = TypeVar("R")


@attrs.frozen
class Common:
    """The options that all commands share."""

    data: Path
    engine: str
    format: str
    master: str | None
    conf: dict[str, str]
    max_steps: int
    memory: str | None = None
    may_import: bool = False
    """Whether a query file may name code in Python."""

    @property
    def as_json(self) -> bool:
        return self.format == "json"

    def session(self) -> SparkSession:
        from mrql.runtime.spark.session.session import local_session

        return local_session(self.master, self.settings)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that are asked for."""
        return {**memory_settings(self.memory), **self.conf}


def common_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds the common options, and hands them to the command as one argument."""

    @click.option(
        "--data", type=click.Path(file_okay=False, path_type=Path), help="Base of relative paths in the query."
    )
    @click.option("--engine", type=click.Choice(["spark", "reference"]), default="spark", show_default=True)
    @click.option("--format", "output_format", type=click.Choice(["table", "json"]), default="table", show_default=True)
    @click.option("--master", help="Spark master; a local one by default.")
    @click.option(
        "--max-steps",
        type=click.IntRange(min=1),
        default=STEPS,
        show_default=True,
        help="How many steps a loop without a limit may take.",
    )
    @MEMORY
    @click.option(
        "--allow-import",
        "may_import",
        is_flag=True,
        help="Run the code in Python that the query names: trust it first.",
    )
    @click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; may be given more than once.")
    @functools.wraps(command)
    def wrapped(
        data: Path | None,
        engine: str,
        output_format: str,
        master: str | None,
        conf: tuple[str, ...],
        max_steps: int,
        memory: str | None,
        may_import: bool,
        **rest: Any,
    ) -> R:
        settings = dict(_setting(pair) for pair in conf)
        common = Common(data or Path(), engine, output_format, master, settings, max_steps, memory, may_import)
        return command(common=common, **rest)

    return wrapped


def _setting(pair: str) -> tuple[str, str]:
    key, separator, value = pair.partition("=")
    if not separator or not key:
        raise click.BadParameter(f"{pair!r} is not of the form K=V", param_hint="--conf")
    return key, value


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Queries over nested data, written once and kept up to date on Spark."""


main.add_command(checkpoint_commands)

FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
ARGS = click.argument("args", nargs=-1)


def load(
    file: Path, base: Path, args: tuple[str, ...] = (), max_steps: int = STEPS, *, may_import: bool = True
) -> Program:
    """The typed program of a file, and of the arguments that it is run with."""
    return compile_over_files(text_of(file), str(file), base, args, max_steps, may_import=may_import)


def planned(
    file: Path,
    base: Path,
    args: tuple[str, ...] = (),
    max_steps: int = STEPS,
    way: Way = Way.AUTO,
    threshold: Threshold | None = None,
    *,
    rewritable: bool = False,
    strict: bool = False,
    may_import: bool = True,
) -> Callable[[Mapping[str, Type]], Planned]:
    """What makes the streaming query of a file, as it is now, and its plan, with the types of rows that were found."""
    text = text_of(file)

    def typed(rows: Mapping[str, Type]) -> Planned:
        program = compile_over_files(text, str(file), base, args, max_steps, may_import=may_import, rows=rows)
        query = streaming_query(program, file)
        plan = plan_of(program, query, way, threshold, rewritable=rewritable)
        if strict:
            must_be_incremental(plan)
        return program, query, plan

    return typed


# --- check and explain --------------------------------------------------------------------------


STRICT = click.option("--strict", is_flag=True, help="Refuse a query with a part that each batch computes again.")


@main.command()
@FILE
@ARGS
@STRICT
@loop_options
@common_options
@reports_errors
def check(
    file: Path, args: tuple[str, ...], strict: bool, way: Way, threshold: Threshold | None, common: Common
) -> None:
    """Parse and type a query file, and say what its expressions are."""
    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    # Otherwise it does not matter here how a query is kept up to date.
    if strict or way is not Way.AUTO:
        plans = [plan_of(program, query, way, threshold) for query in program.queries]
        must_be_incremental(*(plans if strict else ()))
    for query in program.queries:
        if common.as_json:
            click.echo(json.dumps({"line": query.span.line, "type": type_name(query.type)}))
        else:
            click.echo(f"{query.span.source.name}:{query.span.line}: {type_name(query.type)}")
    if not program.queries and not common.as_json:
        click.echo(f"{file}: definitions only")


@main.command()
@FILE
@ARGS
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON document.")
@click.option("--graph", type=click.Path(dir_okay=False, path_type=Path), help="Draw the stages into an SVG file.")
@STRICT
@loop_options
@common_options
@reports_errors
def explain(
    file: Path,
    args: tuple[str, ...],
    as_json: bool,
    graph: Path | None,
    strict: bool,
    way: Way,
    threshold: Threshold | None,
    common: Common,
) -> None:
    """Show every step from a query's text to the stages that keep it up to date."""
    from mrql.explain import explain_graph, explain_json, explain_trace

    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    shrinking = program.shrinking
    traces = [(q, rewrite(q.term, shrinking=shrinking, way=way, threshold=threshold)) for q in program.queries]
    if strict:
        must_be_incremental(*(trace.plan for _, trace in traces))
    if graph is not None:
        graph.write_text(explain_graph(traces[-1][1]), encoding="utf-8")
        click.echo(f"wrote {graph}", err=True)
    if as_json or common.as_json:
        documents = [{"line": q.span.line, "type": type_name(q.type), **explain_json(t)} for q, t in traces]
        click.echo(json.dumps(documents, ensure_ascii=False, indent=2))
        return
    for query, trace in traces:
        click.echo(f"── {query.span.source.name}:{query.span.line}: {type_name(query.type)}\n")
        click.echo(explain_trace(trace))


# --- run ----------------------------------------------------------------------------------------


@main.command()
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
    with contextlib.closing(_runner(program, common, kept)) as runner:
        for query in program.queries:
            if query.target is not None:
                runner.write(query)
            elif common.as_json:
                click.echo(json_line(query.span.line, query.type, runner.answer(query)))
            else:
                print_table(runner.answer(query), query.type, console, limit=None)
    report_kept(kept, "run")


def _runner(program: Program, common: Common, quarantine: Quarantine | None) -> Runner:
    if common.engine == "reference":
        return ReferenceRunner(program, quarantine)
    return SparkRunner(program, common.session, quarantine)


# --- stream -------------------------------------------------------------------------------------


@main.command()
@FILE
@ARGS
@click.option(
    "--output",
    "outputs",
    multiple=True,
    callback=places,
    metavar="DIR|postgresql://…",
    help="A directory for each batch goes here, or a table is kept current; may be given more than once.",
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
    "--interval", type=click.FloatRange(min=0.01), default=1.0, show_default=True, help="Seconds between looks."
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
@click.option(
    "--rewrites",
    type=click.Choice(["error", "apply"]),
    default="error",
    show_default=True,
    help="What becomes of a file that was read and has changed or gone: apply takes its old rows back.",
)
@click.option("--emit", type=click.Choice(["snapshot", "changes"]), default="snapshot", show_default=True)
@click.option(
    "--checkpoint",
    type=click.Path(file_okay=False, path_type=Path),
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
    emit: str,
    checkpoint: Path | None,
    partitions: int | None,
    strict: bool,
    way: Way,
    threshold: Threshold | None,
    quarantine: Path | None,
    operation: Operation,
    common: Common,
) -> None:
    """Keep the streaming query of a file up to date as files arrive."""
    from mrql.jobs.stream import Running
    from mrql.runtime.checkpoint.restore import found_rows
    from mrql.runtime.streaming.stream_loop import Emit, Options

    rewritable = rewrites == "apply"
    typed = planned(
        file,
        common.data,
        args,
        common.max_steps,
        way,
        threshold,
        rewritable=rewritable,
        strict=strict,
        may_import=common.may_import,
    )
    rows = found_rows(checkpoint)
    program, query, plan = typed(rows)
    for traced in filter(is_trace, subterms(query.term)):
        click.echo(f"{traced.span}: a query that is kept up to date prints no traces", err=True)
    options = Options(once, interval, max_files, max_rows, Emit(emit))
    Running(
        program,
        query,
        plan,
        common.engine,
        common.session,
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
    ).run()


def streaming_queries(program: Program, file: Path) -> list[Query]:
    """The expressions of a program that read a stream; there must be one."""
    streaming = [q for q in program.queries if stream_names(q.term)]
    if not streaming:
        raise UserError(f"{file} has no expression that reads a stream", hint='stream(csv, "directory", …) makes one')
    return streaming


def streaming_query(program: Program, file: Path) -> Query:
    """The one expression of a program that reads a stream."""
    streaming = streaming_queries(program, file)
    if len(streaming) > 1:
        raise UserError("a second expression reads a stream; one is kept up to date at a time", streaming[1].span)
    return streaming[0]


def plan_of(
    program: Program, query: Query, way: Way, threshold: Threshold | None = None, *, rewritable: bool = False
) -> Plan:
    """How a query is kept up to date, with the deletions that its program declares, and those of files that change."""
    files = {name for name, spec in program.sources.items() if spec.stream and spec.adapter is None}
    shrinking = program.shrinking | (files if rewritable else frozenset())
    return rewrite(query.term, shrinking=shrinking, way=way, threshold=threshold).plan


def must_be_incremental(*plans: Plan) -> None:
    """Refuses plans with a part that each batch computes again from a whole state."""
    from mrql.explain import require_incremental

    for plan in plans:
        require_incremental(plan)


# --- shell --------------------------------------------------------------------------------------


@main.command()
@ARGS
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=SHOWN_ROWS,
    show_default=True,
    help="At most so many rows of an answer on a terminal; 0 shows all.",
)
@malformed_options
@common_options
@reports_errors
def shell(args: tuple[str, ...], rows: int, quarantine: Path | None, common: Common) -> None:
    """Answer statements as they are typed, or as they arrive on standard input."""
    from mrql.shell.session import Session
    from mrql.shell.start import start

    def runner(program: Program) -> Runner:
        from mrql.shell.interruptible import InterruptibleRunner

        reference = common.engine == "reference"
        return ReferenceRunner(program, kept) if reference else InterruptibleRunner(program, common.session, kept)

    kept = opened(quarantine)
    session = Session(common.data, args, common.max_steps, runner=runner, quarantine=kept, may_import=common.may_import)
    start(session, common.engine, common.as_json, rows or None)


# --- verify -------------------------------------------------------------------------------------


@main.command()
@FILE
@ARGS
@click.option("--seed", type=click.IntRange(min=0), help="Makes the histories what they are; random when not given.")
@click.option("--histories", type=click.IntRange(min=1), default=4, show_default=True, help="How many histories.")
@click.option("--batches", type=click.IntRange(min=1), default=6, show_default=True, help="How many batches in each.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=30, show_default=True, help="At most so many rows of each source."
)
@LOOP
@common_options
@reports_errors
def verify(
    file: Path,
    args: tuple[str, ...],
    seed: int | None,
    histories: int,
    batches: int,
    rows: int,
    way: Way,
    common: Common,
) -> None:
    """Replay the data of a query file in random batches, with deletions, and compare with the batch answer.

    Every expression that reads a stream is verified, with the deletions that the file declares and with deletions from
    all of its streams.
    """
    if way is Way.DIFFUSE:
        raise click.UsageError(
            "a loop that is carried over is no more exact than its residual says: nothing to compare"
        )
    from mrql.cli.verify import verify_expression
    from mrql.runtime.streaming.stream_loop import must_exist
    from mrql.verify.verifier import Effort

    program = load(file, common.data, args, common.max_steps, may_import=common.may_import)
    queries = streaming_queries(program, file)
    must_exist(spec for query in queries for spec in sources_of(program, query.term).values())
    effort = Effort(secrets.randbelow(2**32) if seed is None else seed, histories, batches, rows, way=way)
    if not common.as_json:
        click.echo(f"seed {effort.seed}")
    right = True
    for query in queries:
        start = _incremental(query, common)
        right &= verify_expression(query, sources_of(program, query.term), effort, start, as_json=common.as_json)
    if not right:
        sys.exit(1)


def _incremental(query: Query, common: Common) -> Start:
    from mrql.verify.engines import ReferenceIncremental, on_spark

    return ReferenceIncremental if common.engine == "reference" else on_spark(common.session(), query.span.source)
