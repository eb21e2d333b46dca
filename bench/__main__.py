"""`python -m bench`: measures, checks the answers, prints the tables, and with `--write` records them."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import date
from pathlib import Path

import click

from bench import floor, groupby, joins, keys, loops, start, statistics, tpch, windows
from bench import regressions as slower
from bench.contender import alone
from bench.document import machine, replace
from bench.outcome import WrongAnswer, verdicts

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BENCHMARKS = {
    "floor": floor.run_benchmark,
    "groupby": groupby.run_benchmark,
    "joins": joins.run_benchmark,
    "keys": keys.run_benchmark,
    "loops": loops.run_benchmark,
    "start": start.run_benchmark,
    "statistics": statistics.run_benchmark,
    "tpch": tpch.run_small,
    "tpch1": tpch.run_large,
    "windows": windows.run_benchmark,
}
SETTINGS = {"tpch": tpch.SMALL, "tpch1": tpch.LARGE}
"""The settings of the benchmarks for which single queries can be chosen."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--quick", is_flag=True, help="A tenth of the data and fewer batches: whether it runs, not how fast.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="How often each is measured.")
@click.option("--write", is_flag=True, help="Put the tables into docs/benchmarks.md.")
@click.option("--query", "queries", multiple=True, help="Of tpch and tpch1 this query alone, as q08; several times.")
@click.option("--regressions", is_flag=True, help="A few rows, held against docs/benchmarks.md, in some minutes.")
def main(
    names: tuple[str, ...], quick: bool, rounds: int, write: bool, queries: tuple[str, ...], regressions: bool
) -> None:
    """Measures mrql and its rivals, in all benchmarks or in those named.

    Exits with 1 when answers differ, or with 4 when a promise is not kept, or something is slower than it was.
    """
    if quick and write:
        raise click.UsageError("--quick measures nothing that is worth keeping; leave out --write")
    if queries and (write or not names or not {*names} <= SETTINGS.keys()):
        raise click.UsageError("--query is for tpch and tpch1, and writes nothing: a table is kept as a whole")
    if unknown := {*queries} - {*tpch.names()}:
        raise click.UsageError(f"there is no query {', '.join(sorted(unknown))}: they are q01 to q22")
    if regressions and (names or quick or write or queries):
        raise click.UsageError("--regressions stands alone: it says by itself what it measures")
    load = os.getloadavg()[0]
    if load > 0.5:
        progress(f"the machine is busy (load {load:.1f}): the figures will be worse than they should be")
    if regressions:
        sys.exit(4 if _is_slower() else 0)
    kept = True
    for name in names or BENCHMARKS:
        progress(f"--- {name}")
        try:
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                if queries:
                    setting = tpch.QUICK if quick else SETTINGS[name]
                    click.echo("\n".join(tpch.run_queries(queries, setting, Path(directory), rounds, progress)))
                    continue
                outcome = BENCHMARKS[name](quick, Path(directory), rounds, progress)
        except WrongAnswer as error:
            progress(str(error))
            sys.exit(1)
        kept = kept and outcome.holds
        lines = [
            f"Medians of {rounds} {'run' if rounds == 1 else 'runs'} on {date.today():%d %B %Y}: {alone(machine)}.",
            "",
            *outcome.lines,
            "",
            "All answers after the last batch are equal. What mrql is held to:",
            "",
            *verdicts(outcome.targets),
        ]
        click.echo("\n".join([*lines, ""]))
        if write:
            replace(DOCUMENT, name, lines)
            progress(f"written to {DOCUMENT}")
    if quick:
        progress("a quick run: the promises are about the full one")
    elif not kept:
        sys.exit(4)


def _is_slower() -> bool:
    """Whether something is slower than the recorded figures; prints what was measured."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        found = slower.regressions(DOCUMENT, Path(directory), progress)
    click.echo("\n".join(slower.table(found)))
    return any(each.is_slower for each in found)


def progress(line: str) -> None:
    """Reports progress on standard error."""
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
