"""Deeply nested data and long numbers: they are read, or malformed with their place, in both engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrql.algebra.stack import deep
from mrql.algebra.values.json_text import JSON_MAX_LEVELS, read, write
from mrql.cli.main import main
from mrql.runtime.sources.formats.xml import NESTED_MAX_ELEMENTS

QUERY = """
j = source(json, "j", type(<n: long, v: any>));
x = source(xml, "x", {"r"});
select (r.n, length(r.v as string)) from r in j;
select length(text(e)) from e in x;
select e from e in x;
select r from r in j where r.n > 100;
"""


def nested(n: int) -> str:
    """A row with `n` levels."""
    return json.dumps({"n": n, "v": 1}).replace('"v": 1', f'"v": {"[" * (n - 1)}1{"]" * (n - 1)}') + "\n"


def test_a_long_integer_is_no_loop() -> None:
    """A whole number that is no long stays exact up to 38 digits; a longer one is a double, also an infinite one, and
    one of more than 1000 digits is no JSON."""
    assert write(read("7" * 39)) == "7.777777777777778E38"
    assert write(read("7" * 400)) == '"Infinity"'
    assert read(str(2**63 - 1)) == 2**63 - 1
    assert read(str(-(2**63))) == -(2**63)
    assert write(read(str(2**63))) == str(2**63)
    for digits in ("7" * 4000, "-" + "7" * 1001, "1." + "7" * 1000):
        with pytest.raises(ValueError, match="a number of more than 1000 digits"):
            read(digits)


@deep
def test_levels_of_json() -> None:
    assert write(read(nested(JSON_MAX_LEVELS))).count("[") == JSON_MAX_LEVELS - 1
    with pytest.raises(ValueError, match="nested too deeply: more than 999 levels"):
        read(nested(JSON_MAX_LEVELS + 1))
    with pytest.raises(ValueError, match="nested too deeply: more than 999 levels"):
        read("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_deep_files(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Rows at the limits are read, and rows beyond them are quarantined, with file and line."""
    if engine == "spark":
        request.getfixturevalue("spark")
    (tmp_path / "j").mkdir()
    (tmp_path / "x").mkdir()
    texts = [nested(n) for n in (500, JSON_MAX_LEVELS, JSON_MAX_LEVELS + 1)]
    texts += [
        f'{{"n": {i}, "v": {v}}}\n' for i, v in enumerate(("7" * 4000, "-" + "6" * 1000, "6" * 1001, "1." + "6" * 999))
    ]
    (tmp_path / "j" / "a.json").write_text("".join(texts))
    for n in (NESTED_MAX_ELEMENTS, NESTED_MAX_ELEMENTS + 1, 900):
        (tmp_path / "x" / f"{n}.xml").write_text("<r>" + "<a>" * (n - 1) + "t" + "</a>" * (n - 1) + "</r>")
    (tmp_path / "q.mrql").write_text(QUERY)
    options = ["--data", str(tmp_path), "--engine", engine, "--format", "json"]
    options += ["--malformed", "quarantine", "--quarantine", str(tmp_path / "aside")]
    ran = CliRunner().invoke(main, ["run", str(tmp_path / "q.mrql"), *options])
    assert ran.exit_code == 0, ran.output
    values = [deep(json.loads)(line)["value"] for line in ran.stdout.splitlines() if line.startswith("{")]
    assert sorted(map(tuple, values[0])) == [
        (1, 9),
        (3, 18),
        (500, 999),
        (JSON_MAX_LEVELS, 2 * JSON_MAX_LEVELS - 1),
    ]
    assert len(values[2]) == 1
    assert [row["n"] for row in values[3]] == [500, JSON_MAX_LEVELS]
    aside = [
        json.loads(line)
        for file in (tmp_path / "aside").rglob("malformed.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted((Path(row["file"]).name, row["line"]) for row in aside) == [
        *((f"{NESTED_MAX_ELEMENTS + 1}.xml", 1), ("900.xml", 1), ("a.json", 3), ("a.json", 4), ("a.json", 6))
    ]
