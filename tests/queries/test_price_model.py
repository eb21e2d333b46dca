"""Least squares over a join of five tables, as a user-defined ring, compared with exact arithmetic over the rows."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrql.cli.main import main
from queries.generate import generate

QUERY = Path(__file__).parent.parent.parent / "queries" / "models" / "price_model.mrql"
TABLES = ("regions", "cities", "districts", "houses", "sales")


def present(data: Path, table: str) -> list[list[str]]:
    """The rows of a table that remain after all its files."""
    rows: list[list[str]] = []
    for file in sorted((data / table).glob("*.csv")):
        for sign, *row in csv.reader(file.read_text().splitlines()):
            rows.append(row) if sign == "+" else rows.remove(row)
    return rows


def planes(data: Path) -> dict[str, tuple[int, Fraction, Fraction]]:
    """The number of sales and the two slopes of each region with a plane, by exact arithmetic over the joined rows."""
    regions, cities, districts, houses = ({row[0]: row[1:] for row in present(data, table)} for table in TABLES[:4])
    points: dict[str, list[tuple[Fraction, Fraction, Fraction]]] = {}
    for house, price in present(data, "sales"):
        district, area = houses[house]
        city, income = districts.get(district, ("", ""))
        region = cities.get(city, ("",))[0]
        if region in regions:
            points.setdefault(regions[region][0], []).append((Fraction(area), Fraction(income), Fraction(price)))
    return {region: (len(rows), *plane) for region, rows in points.items() if (plane := fitted(rows)) is not None}


def fitted(rows: list[tuple[Fraction, Fraction, Fraction]]) -> tuple[Fraction, Fraction] | None:
    """The slopes of the least-squares plane of some points; None if it is not unique."""
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    about = [[value - mean for value, mean in zip(row, means, strict=True)] for row in rows]
    xx, xz, zz, xy, zy = (
        sum((row[i] * row[j] for row in about), Fraction(0)) for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2))
    )
    det = xx * zz - xz * xz
    return None if det == 0 else ((zz * xy - xz * zy) / det, (xx * zy - xz * xy) / det)


@pytest.mark.parametrize(
    ("engine", "batches"), [("reference", (1, 3)), pytest.param("spark", (1,), marks=pytest.mark.spark)]
)
def test_the_planes_are_those_of_the_rows_that_are_there(
    tmp_path: Path, engine: str, batches: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    """The planes are those of the remaining rows, with annulled sales and, on the reference engine, after a restart."""
    if engine == "spark":
        request.getfixturevalue("spark")
    data, out = tmp_path / "data", tmp_path / "out"
    options = ["--engine", engine, "--data", str(data), "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    for batch in batches:
        generate("price_model", data, 2, 150, seed=1)
        options_of = [*options, "--max-files", str(len(TABLES)), "--output", str(out)]
        done = CliRunner().invoke(main, ["stream", str(QUERY), *options_of], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        files = (out / f"batch-{batch:06}").glob("part-*.json")
        found = {row["region"]: row for file in files for row in map(json.loads, file.read_text().splitlines())}
        expected = planes(data)
        assert len(expected) > 1
        assert {region: row["sales"] for region, row in found.items()} == {r: n for r, (n, _, _) in expected.items()}
        for region, (_, by_area, by_income) in expected.items():
            assert found[region]["by_area"] == pytest.approx(float(by_area), rel=1e-6)
            assert found[region]["by_income"] == pytest.approx(float(by_income), rel=1e-6)
