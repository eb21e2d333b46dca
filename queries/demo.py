"""A continuous join, compared with an evaluation from scratch: `make demo`.

Writes two streams of random pairs, keeps the join-groupBy query of `join_groupby.mrql` up to date over them, two files
at a time, and then compares the last answer with that of `mrql run` over all the data.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from math import isclose
from pathlib import Path

import click
from generate import generate

QUERY = Path(__file__).parent / "join_groupby.mrql"
SHOWN = 5

Row = tuple[int, float]


def mrql(*args: str | Path) -> list[str]:
    """Runs the command `mrql` and returns the lines of its output; its standard error is that of this process."""
    command = [sys.executable, "-m", "mrql", *map(str, args)]
    click.secho(f"$ mrql {' '.join(command[3:])}", bold=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return done.stdout.splitlines()


def last_answer(output: Path) -> list[Row]:
    """The answer after the last batch."""
    last = max(output.glob("batch-*"))
    lines = [
        line for part in sorted(last.glob("part-*.json")) for line in part.read_text(encoding="utf-8").splitlines()
    ]
    return sorted((row["_1"], row["_2"]) for row in map(json.loads, lines))


def from_scratch(lines: Iterable[str]) -> list[Row]:
    """The answer in the output of `mrql run`: one line for the one expression of the query."""
    (answer,) = (json.loads(line)["value"] for line in lines)
    return sorted((key, average) for key, average in answer)


def same(row: Row, other: Row) -> bool:
    """Whether two rows are equal, but for the rounding of the average."""
    return row[0] == other[0] and isclose(row[1], other[1], rel_tol=1e-9)


def differences(streamed: list[Row], expected: list[Row]) -> list[str]:
    """The differences between two answers, both sorted, as bags."""
    found = [
        f"{row} after the last batch, {other} from scratch"
        for row, other in zip(streamed, expected, strict=False)
        if not same(row, other)
    ]
    if len(streamed) != len(expected):
        found.append(f"{len(streamed)} rows after the last batch, {len(expected)} from scratch")
    return found


def demonstrate(directory: Path) -> bool:
    """Runs the demonstration in a directory, and returns whether the answers are equal."""
    data, output = directory / "data", directory / "answers"
    files = generate("join_groupby", data, files=6, rows=5_000, seed=1)
    click.echo(f"{len(files)} files in {data}, {len(files) // 2} of each stream\n")
    click.echo(QUERY.read_text(encoding="utf-8"))

    mrql("stream", QUERY, "--data", data, "--once", "--max-files", "2", "--output", output)
    streamed = last_answer(output)
    click.echo(f"\n{len(streamed):,} rows in the answer after the last batch; the first of them:")
    for key, average in streamed[:SHOWN]:
        click.echo(f"  ({key}, {average})")

    click.echo("\nThe same from scratch, over all the data at once:")
    expected = from_scratch(mrql("run", QUERY, "--data", data, "--format", "json"))
    found = differences(streamed, expected)
    for difference in found[:SHOWN]:
        click.echo(f"  {difference}")
    if found or not streamed:
        click.secho("\nThe answers DIFFER.", fg="red", bold=True)
        return False
    click.secho(f"\nThe answers are EQUAL: {len(expected):,} rows each.", fg="green", bold=True)
    return True


@click.command()
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
def main(directory: Path | None) -> None:
    """Runs the demonstration in an empty DIRECTORY, or in a temporary one."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="mrql-demo-") as temporary:
            equal = demonstrate(Path(temporary))
    elif directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{directory} is not empty")
    else:
        equal = demonstrate(directory)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
