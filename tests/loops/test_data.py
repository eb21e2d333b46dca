"""The generator of `queries/loops`: its rows, and the batches that change them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from queries.loops.generate import Size, chains, dependencies, history, points, rmat, with_lengths, write


def test_batches_delete_what_is_there() -> None:
    """No row is present twice, deleted rows were present before the batch, and the numbers of changes are as requested;
    histories with the same seed are equal."""
    held: set[tuple[float, ...]] = set()
    batches = list(history(rmat(10), Size(40, batches=50, changes=10, deleted=0.5), seed=3))
    for number, batch in enumerate(batches):
        assert held.issuperset(batch.deleted)
        assert not held.intersection(batch.inserted)
        held = held.difference(batch.deleted).union(batch.inserted)
        assert (len(batch.inserted), len(batch.deleted)) == ((5, 5) if number else (40, 0))
    assert len(held) == 40
    came_back = {row for batch in batches for row in batch.deleted} & held
    assert came_back
    assert batches == list(history(rmat(10), Size(40, 50, 10, 0.5), seed=3))
    assert batches != list(history(rmat(10), Size(40, 50, 10, 0.5), seed=4))


def test_there_are_no_more_rows_than_there_are() -> None:
    """It is an error to ask for more rows than there are: a chain of five nodes has four edges."""
    with pytest.raises(ValueError, match="there are no more than some 4 different rows"):
        next(history(chains(5), Size(5), seed=1))


def test_packages_depend_on_those_before_them() -> None:
    """Each package depends on one or two packages before it, and indirectly on many."""
    edges = next(history(dependencies(50), Size(90), seed=1)).inserted
    depends: dict[float, set[float]] = {}
    for package, other in sorted(edges):
        assert 0 <= other < package < 50
        depends.setdefault(package, set()).add(other)
    assert {len(others) for others in depends.values()} == {1, 2}
    ways: dict[float, set[float]] = {}
    for package, others in depends.items():
        ways[package] = others.union(*(ways.get(other, set()) for other in others))
    assert sum(map(len, ways.values())) > 4 * len(edges)


@pytest.mark.parametrize("nodes", [2, 1000, 1024])
def test_edges_of_rmat(nodes: int) -> None:
    """Of the edges 0.30, 0.25, 0.25 and 0.20 lie in the quarters of the adjacency matrix ([MRQL] §13)."""
    edges = next(history(with_lengths(rmat(nodes), 9), Size(min(nodes, 900)), seed=1)).inserted
    assert all(0 <= a < nodes and 0 <= b < nodes and 1 <= length <= 9 for a, b, length in edges)
    if nodes == 1024:
        quarters = [(a >= nodes / 2) * 2 + (b >= nodes / 2) for a, b, _ in edges]
        shares = [quarters.count(quarter) / len(edges) for quarter in range(4)]
        assert shares == pytest.approx([0.30, 0.25, 0.25, 0.20], abs=0.06)


def test_points_in_four_squares() -> None:
    """The coordinates of points are between 2 and 4 or between 6 and 8, in each of the four squares about as often."""
    rows = next(history(points, Size(400), seed=1)).inserted
    assert all(2 <= z <= 4 or 6 <= z <= 8 for row in rows for z in row)
    squares = [(x > 5, y > 5) for x, y in rows]
    assert min(squares.count(square) for square in {*squares}) > 70
    assert len({*squares}) == 4


def test_files_are_never_replaced(tmp_path: Path) -> None:
    """The command writes tagged rows, with earlier batches in older files, and refuses a directory that has files."""
    command = [sys.executable, "-m", "queries.loops.generate", "rmat", str(tmp_path), "--nodes", "9", "--edges", "5"]
    done = [
        subprocess.run(
            [*command, "--batches", "2", "--changes", "4", "--deleted", "0.5"], text=True, capture_output=True
        )
        for _ in range(2)
    ]
    assert (done[0].returncode, done[0].stdout) == (0, f"3 files in {tmp_path / 'edges'}\n")
    assert (done[1].returncode, done[1].stderr) == (1, f"Error: {tmp_path / 'edges'} has files already\n")
    files = sorted((tmp_path / "edges").iterdir(), key=lambda file: file.stat().st_mtime)
    assert [file.name for file in files] == ["000000.csv", "000001.csv", "000002.csv"]
    signs = ["".join(line[0] for line in file.read_text().splitlines()) for file in files]
    assert signs == ["+++++", "++--", "++--"]
    with pytest.raises(FileExistsError):
        write([], tmp_path / "edges")
