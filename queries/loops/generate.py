"""Data for the queries in this directory: initial rows, and then batches of changes to them.

    python -m queries.loops.generate rmat DIR --nodes 1000 --edges 10000 --batches 10 --changes 100
    mrql stream queries/loops/pagerank.mrql --data DIR --once --max-files 1 --output OUT

A batch is one file of a tagged stream: `+` and an inserted row, or `-` and a deleted row. Deleted rows are chosen from
those that are present, and may be inserted again later; no row is present twice. The same seed gives the same files.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

Row = tuple[float, ...]
"""The numbers in a line; those with a fraction are floats."""


@dataclass(frozen=True)
class Batch:
    """The rows that are inserted, and those that are deleted."""

    inserted: list[Row]
    deleted: list[Row]


@dataclass(frozen=True)
class Size:
    """The number of initial rows, the number of batches that follow, and the number of changes in each.

    The share `deleted` of the changes of a batch are deletions, the others insertions.
    """

    initial: int
    batches: int = 0
    changes: int = 0
    deleted: float = 0.0


# --- rows ---------------------------------------------------------------------------------------

Rows = Callable[[random.Random], Iterator[Row]]
"""An endless supply of rows; a row may be in it more than once."""

QUADRANTS = (0.30, 0.25, 0.25, 0.20)
"""The probability that an edge lies in each quarter of the adjacency matrix: a, b, c, d of [MRQL] §13."""
LEVELS = 4
"""The number of times that one random choice divides the matrix into quarters."""


def rmat(nodes: int, quadrants: tuple[float, float, float, float] = QUADRANTS) -> Rows:
    """Edges of an R-MAT graph, each chosen quarter by quarter in the adjacency matrix: a few nodes have many edges.

    *Source*: [MRQL] §13; Chakrabarti, Zhan and Faloutsos, *R-MAT: A Recursive Model for Graph Mining*, SDM 2004.
    """
    cells, weights = [(0, 0)], [1.0]
    for _ in range(LEVELS):
        cells = [(2 * a + i, 2 * b + j) for a, b in cells for i in (0, 1) for j in (0, 1)]
        weights = [weight * quadrant for weight in weights for quadrant in quadrants]
    cumulated = list(itertools.accumulate(weights))
    choices = -(-max(nodes - 1, 1).bit_length() // LEVELS)
    # The last choice may divide too finely; this is undone by a shift.
    too_fine = choices * LEVELS - max(nodes - 1, 1).bit_length()

    def rows(rng: random.Random) -> Iterator[Row]:
        while True:
            a = b = 0
            for i, j in rng.choices(cells, cum_weights=cumulated, k=choices):
                a, b = (a << LEVELS) + i, (b << LEVELS) + j
            a, b = a >> too_fine, b >> too_fine
            if a < nodes and b < nodes:
                yield a, b

    return rows


def with_lengths(edges: Rows, most: int) -> Rows:
    """Edges with a length, which is always the same for the same edge."""

    def rows(rng: random.Random) -> Iterator[Row]:
        salt = rng.random()
        for a, b in edges(rng):
            yield a, b, float(random.Random(f"{salt} {a} {b}").randint(1, most))

    return rows


SQUARES = tuple((x, y) for x in (2.0, 6.0) for y in (2.0, 6.0))


def points(rng: random.Random) -> Iterator[Row]:
    """Points in four squares: X and Y lie between 2 and 4 or between 6 and 8 ([MRQL] §13)."""
    while True:
        x, y = rng.choice(SQUARES)
        yield round(x + 2 * rng.random(), 6), round(y + 2 * rng.random(), 6)


CHAIN = 10


def chains(nodes: int) -> Rows:
    """Chains of ten nodes each; about three in ten chains lead on to a random node."""

    def rows(rng: random.Random) -> Iterator[Row]:
        edges = [(node, node + 1) for node in range(nodes - 1) if node % CHAIN != CHAIN - 1]
        ends = [node for node in range(CHAIN - 1, nodes, CHAIN) if rng.random() < 0.3]
        edges += [(node, rng.randrange(nodes)) for node in ends]
        rng.shuffle(edges)
        return itertools.cycle(edges)

    return rows


def dependencies(packages: int) -> Rows:
    """Packages, each of which depends on up to two packages before it; most lead to hundreds of others."""

    def rows(rng: random.Random) -> Iterator[Row]:
        edges = sorted({(package, rng.randrange(package)) for package in range(1, packages) for _ in range(2)})
        rng.shuffle(edges)
        return itertools.cycle(edges)

    return rows


BOOKS = 10


def ratings(readers: int) -> Rows:
    """Ratings of ten books by readers. There are two kinds of books, and each reader likes one of them."""

    def rows(rng: random.Random) -> Iterator[Row]:
        said = [
            (float(_stars(rng, reader % 2 == book % 2)), reader, book)
            for reader in range(readers)
            for book in range(BOOKS)
        ]
        return itertools.cycle(said)

    return rows


def _stars(rng: random.Random, likes: bool) -> int:
    return rng.randint(4, 5) if likes else rng.randint(1, 2)


def elements(height: int, width: int) -> Rows:
    """The elements of a full matrix, small whole numbers, with their row and column."""

    def rows(rng: random.Random) -> Iterator[Row]:
        return itertools.cycle([(float(rng.randint(1, 9)), i, j) for i in range(height) for j in range(width)])

    return rows


# --- batches ------------------------------------------------------------------------------------

MISSES = 100_000
"""After this number of consecutive rows that are present already, there are taken to be no others."""


def history(rows: Rows, size: Size, seed: int) -> Iterator[Batch]:
    """The initial rows as a batch, and then the other batches.

    Raises: ValueError when there are not enough different rows.
    """
    rng = random.Random(seed)
    supply = rows(rng)
    present: list[Row] = []
    known: set[Row] = set()

    def coming(count: int) -> list[Row]:
        new: list[Row] = []
        while len(new) < count:
            row = next((row for row in itertools.islice(supply, MISSES) if row not in known), None)
            if row is None:
                raise ValueError(f"there are no more than some {len(known):,} different rows of this kind")
            new.append(row)
            known.add(row)
        return new

    def going(count: int) -> list[Row]:
        gone = []
        for _ in range(min(count, len(present))):
            at = rng.randrange(len(present))
            present[at], present[-1] = present[-1], present[at]
            gone.append(present.pop())
        return gone

    for number in range(size.batches + 1):
        count, fewer = (size.changes, round(size.changes * size.deleted)) if number else (size.initial, 0)
        deleted = going(fewer)
        inserted = coming(count - fewer)
        # A deleted row is not inserted again in the same batch.
        known.difference_update(deleted)
        present += inserted
        yield Batch(inserted, deleted)


def write(batches: Iterable[Batch], directory: Path, *, tagged: bool = True) -> list[Path]:
    """Writes each batch as a file, each a second younger than the one before it, and returns the files.

    Raises: FileExistsError when the directory has files.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} has files already")
    signs = ("+,", "-,") if tagged else ("", "")
    written = []
    for number, batch in enumerate(batches):
        hidden = directory / f".{number:06}.csv"
        with hidden.open("w", encoding="utf-8") as file:
            for sign, rows in zip(signs, (batch.inserted, batch.deleted), strict=True):
                file.writelines(f"{sign}{','.join(map(str, row))}\n" for row in rows)
        written.append(hidden.rename(directory / f"{number:06}.csv"))
    newest = time.time()
    for age, path in enumerate(reversed(written)):
        os.utime(path, (newest - age, newest - age))
    return written


# --- the command --------------------------------------------------------------------------------

Command = Callable[..., None]


def changing(name: str, initial: str, default: int) -> Callable[[Command], click.Command]:
    """Decorates a command that writes rows and batches of changes; the option `initial` sets the number of rows."""
    what = f"{initial.capitalize()} at first."
    options = [
        click.argument("directory", type=click.Path(file_okay=False, path_type=Path)),
        click.option(f"--{initial}", "initial", type=click.IntRange(0), default=default, show_default=True, help=what),
        click.option("--batches", type=click.IntRange(0), default=10, show_default=True, help="Batches after them."),
        click.option("--changes", type=click.IntRange(1), default=10, show_default=True, help="Rows of a batch."),
        click.option(
            "--deleted", type=click.FloatRange(0, 1), default=0.3, show_default=True, help="The share that goes."
        ),
        click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same rows."),
    ]

    def command(function: Command) -> click.Command:
        for option in reversed(options):
            function = option(function)
        return main.command(name)(function)

    return command


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Writes the rows of a stream, and batches of changes to them, into a directory of its own in DIRECTORY."""


NODES = click.option("--nodes", type=click.IntRange(2), default=1000, help="Nodes.")


def _write(name: str, rows: Rows, directory: Path, seed: int, **size: float) -> None:
    try:
        written = write(history(rows, Size(**size), seed), directory / name)  # type: ignore[arg-type]
    except (ValueError, FileExistsError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{len(written)} files in {directory / name}")


@changing("rmat", "edges", 10_000)
@NODES
@click.option("--lengths", type=click.IntRange(0), default=0, help="Edges have a length of 1 to so much; 0: none.")
def _rmat(directory: Path, seed: int, nodes: int, lengths: int, **size: float) -> None:
    """An R-MAT graph, for pagerank, components, hops; with lengths, for paths."""
    edges = rmat(nodes)
    _write("edges", with_lengths(edges, lengths) if lengths else edges, directory, seed, **size)


@changing("chains", "edges", 900)
@NODES
def _chains(directory: Path, seed: int, nodes: int, **size: float) -> None:
    """Chains of ten nodes, some of which lead to others, for closure."""
    _write("edges", chains(nodes), directory, seed, **size)


@changing("dependencies", "edges", 900)
@click.option("--packages", type=click.IntRange(2), default=500, help="Packages.")
def _dependencies(directory: Path, seed: int, packages: int, **size: float) -> None:
    """Packages that depend on others, for closure: few edges, and many ways."""
    _write("edges", dependencies(packages), directory, seed, **size)


@changing("points", "points", 1_000)
def _points(directory: Path, seed: int, **size: float) -> None:
    """Points in four squares, for kmeans."""
    _write("points", points, directory, seed, **size)


@changing("ratings", "ratings", 900)
@click.option("--readers", type=click.IntRange(1), default=100, help="Readers.")
def _ratings(directory: Path, seed: int, readers: int, **size: float) -> None:
    """Ratings of ten books, for factorisation."""
    _write("ratings", ratings(readers), directory, seed, **size)


MATRICES = {"a": (3, 2), "b": (2, 3)}


@main.command("matrices")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", type=int, default=1, help="The same seed gives the same rows.")
def _matrices(directory: Path, seed: int) -> None:
    """Two small matrices, which do not change, for matrices."""
    try:
        matrices(directory, seed)
    except FileExistsError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{len(MATRICES)} files in {directory}")


def matrices(directory: Path, seed: int) -> None:
    """Writes two small matrices that do not change."""
    for number, (name, (height, width)) in enumerate(MATRICES.items()):
        batches = history(elements(height, width), Size(height * width), seed + number)
        write(batches, directory / name, tagged=False)


if __name__ == "__main__":
    main()
