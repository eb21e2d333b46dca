"""Data for the queries in this directory.

    python queries/loops/generate.py pagerank DIR --size 1000 --seed 1
    mrql run queries/loops/pagerank.mrql --data DIR

Each source is a directory with one file, which a further run replaces.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import click


def graph(rng: random.Random, size: int) -> Iterator[str]:
    """Links among `size` pages: each page has one to six, and some pages are linked to more often than others."""
    for page in range(size):
        for target in sorted({min(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randint(1, 6))}):
            yield f"{page},{target}"


def points(rng: random.Random, size: int) -> Iterator[str]:
    """Points around four centres, which lie in the corners of a square."""
    for n in range(size):
        x, y = rng.gauss(2 + 6 * (n % 2), 1.0), rng.gauss(2 + 6 * (n // 2 % 2), 1.0)
        yield f"{x:.4f},{y:.4f}"


def edges(rng: random.Random, size: int) -> Iterator[str]:
    """Ways of ten nodes each, with a few edges from one way to another."""
    for node in range(size):
        if node % 10 != 9:
            yield f"{node},{node + 1}"
        elif rng.random() < 0.3:
            yield f"{node},{rng.randrange(size)}"


def matrix(rows: int, columns: int) -> Callable[[random.Random, int], Iterator[str]]:
    """A full matrix with small whole numbers as elements; its size is its own."""

    def elements(rng: random.Random, size: int) -> Iterator[str]:
        for i in range(rows):
            for j in range(columns):
                yield f"{rng.randint(1, 9)}.0,{i},{j}"

    return elements


def ratings(rng: random.Random, size: int) -> Iterator[str]:
    """What `size` readers say of ten books, of two kinds: each reader likes one of the kinds."""
    for reader in range(size):
        for book in range(10):
            likes = reader % 2 == book % 2
            yield f"{rng.randint(4, 5) if likes else rng.randint(1, 2)}.0,{reader},{book}"


SOURCES: dict[str, dict[str, Callable[[random.Random, int], Iterator[str]]]] = {
    "pagerank": {"graph": graph},
    "kmeans": {"points": points},
    "closure": {"edges": edges},
    "matrices": {"a": matrix(3, 2), "b": matrix(2, 3)},
    "factorisation": {"ratings": ratings},
}
"""The sources of each query."""


def generate(query: str, directory: Path, size: int, seed: int) -> list[Path]:
    """Writes the data of a query, and returns the files."""
    written = []
    for name, rows in SOURCES[query].items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        path = directory / name / "data.csv"
        lines = rows(random.Random(f"{seed} {query} {name}"), size)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        written.append(path)
    return written


@click.command()
@click.argument("query", type=click.Choice(sorted(SOURCES)))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--size", type=click.IntRange(1), default=100, show_default=True, help="Pages, points, nodes, readers.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same rows.")
def main(query: str, directory: Path, size: int, seed: int) -> None:
    """Writes data for QUERY into DIRECTORY."""
    written = generate(query, directory, size, seed)
    click.echo(f"{len(written)} files in {directory}")


if __name__ == "__main__":
    main()
