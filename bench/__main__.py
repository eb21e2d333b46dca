"""`python -m bench`: measures, checks the answers, prints the table, and with `--write` keeps it."""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import date
from pathlib import Path

import click

from bench.contender import alone
from bench.data import FULL, QUICK
from bench.groupby import WrongAnswer, failed, measure, targets
from bench.table import machine, replace, table, verdicts

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the data and fewer batches: whether it runs, not how fast.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="How often each is measured.")
@click.option("--write", is_flag=True, help="Put the table into docs/benchmarks.md.")
def main(quick: bool, rounds: int, write: bool) -> None:
    """Measures mrql and its rivals; exits with 1 when answers differ, or with 4 when a promise is not kept."""
    if quick and write:
        raise click.UsageError("--quick measures nothing that is worth keeping; leave out --write")
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    if load > 0.5:
        progress(f"the machine is busy (load {load:.1f}): the figures will be worse than they should be")
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            results = measure(scale, Path(directory), rounds, progress)
    except WrongAnswer as error:
        progress(str(error))
        sys.exit(1)
    found = list(targets(results, scale))
    lines = [
        f"Medians of {rounds} {'run' if rounds == 1 else 'runs'} on {date.today():%d %B %Y}: {alone(machine)}.",
        "",
        *table(results, scale),
        "",
        "All answers after the last batch are equal. What mrql is held to:",
        "",
        *verdicts(found),
    ]
    click.echo("\n".join(lines))
    if write:
        replace(DOCUMENT, "groupby", lines)
        progress(f"written to {DOCUMENT}")
    if quick:
        progress("a quick run: the promises are about the full one")
    elif failed(found):
        sys.exit(4)


def progress(line: str) -> None:
    """Says what is going on, on standard error."""
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
