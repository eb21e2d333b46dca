"""The query files in `queries/apache`, written in the style of Apache MRQL, in both engines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import close
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.translate.program import Program
from tests.loops.test_queries import by_reference, by_spark
from tests.support.cases import literal

APACHE = Path(__file__).parent.parent.parent / "queries" / "apache"

ANSWERS: dict[str, tuple[str, ...]] = {
    "books": (
        '{("Bags", "1999"), ("Lists", "2005"), ("Maps", "2011")}',
        '[("1999", 1, 30), ("2005", 2, 65), ("2011", 1, 60)]',
        '{("Ana", {"Bags", "Lists"}), ("Bo", {"Bags"}), ("Cy", {"Sets"})}',
        '{"Ana", "Bo", "Cy"}',
        '{"Lists", "Sets"}',
        '{[xml| <book year="1999"><by>2</by></book> |]}',
    ),
    "company": (
        '[<department: "Board", name: "Finn", salary: 70000.0>, <department: "Research", name: "Ada", salary: 52000.0>,'
        ' <department: "Research", name: "Ben", salary: 41000.0>, <department: "Sales", name: "Cleo", salary: 61000.0>,'
        ' <department: "Sales", name: "Eva", salary: 45000.0>, <department: "Sales", name: "Dan", salary: 38000.0>]',
        '{<department: "Research", staff: {<name: "Ada", children: {"Zoe"}>, <name: "Ben", children: {}>}>,'
        ' <department: "Sales", staff: {<name: "Cleo", children: {"Max", "Kim"}>, <name: "Dan", children: {}>,'
        ' <name: "Eva", children: {"Lou"}>}>, <department: "Board", staff: {<name: "Finn", children: {"Pia"}>}>,'
        ' <department: "Archive", staff: {}>}',
        "[(2, 3, 48000.0), (1, 2, 46500.0)]",
        '{("London", "Research", 52000.0), ("Leeds", "Research", 41000.0), ("London", "Sales", 61000.0),'
        ' ("York", "Sales", 38000.0), ("Leeds", "Sales", 45000.0), ("York", "Board", 70000.0)}',
        '{"Research", "Sales", "Board"}',
        '{"Board", "Archive"}',
        '{"Gus"}',
        '{("London", 61000.0, "Cleo"), ("Leeds", 45000.0, "Eva"), ("York", 70000.0, "Finn")}',
        '{"Ada", "Cleo"}',
        '{<department: "Research", staff: 2>, <department: "Sales", staff: 3>, <department: "Board", staff: 1>,'
        ' <department: "Archive", staff: 0>}',
    ),
    "orders": (
        '{("Ann", 105.0), ("Bo", 10.0)}',
        '[<name: "Ann", mean: 52.5>, <name: "Bo", mean: 10.0>, <name: "Cy", mean: null>]',
        "{18.0, 402.0, 40.0}",
    ),
    "ranges": (
        '("Gus", [(38000.0, "Dan"), (41000.0, "Ben")], 7)',
        "385",
        "{(1, 1), (1, 3), (2, 2), (3, 3)}",
        "{(1, 167167), (2, 166500), (0, 166833)}",
        "(2, 20, [20, 30])",
    ),
    "recursion": (
        "{(1, 1), (2, 2), (3, 6), (4, 24), (5, 120)}",
        "data Tree = leaf: long | node: (Tree, long, Tree); (3, [1, 3, 4, 5, 8], "
        "node(node(node(leaf(1), 3, leaf(3)), 4, leaf(4)), 5, node(leaf(5), 8, leaf(8))))",
        "{(2, 2, 2), (1, 2, 2), (3, 1, 1)}",
        '{("Zoe", [4, 10]), ("Max", [10, 11]), ("Kim", [9, 10]), ("Pia", [10, 19])}',
    ),
    "shapes": (
        "[(1, 12.0, 2), (2, 10.0, 2), (3, 0.0, 1)]",
        '{<is: "square", circle: null, square: 3.0, rectangle: null>}',
        "24",
        "{(1, 15), (0, 48)}",
    ),
    "trees": (
        '{"Mind ", "b", ", please.", "i", "b"}',
        '{("1", 3), ("2", 2)}',
        '[("b", 2), ("i", 1)]',
        "[[xml| <b>text</b> |]]",
        "2",
        "[[xml| <b>text</b> |]]",
    ),
}


def program_of(name: str) -> Program:
    file = APACHE / f"{name}.mrql"
    return compile_over_files(file.read_text(encoding="utf-8"), str(file), base=APACHE / "data")


def test_each_file_has_answers() -> None:
    """Every query file has answers here."""
    assert {file.stem for file in APACHE.glob("*.mrql")} == ANSWERS.keys()


@pytest.mark.parametrize("name", ANSWERS)
def test_reference(name: str) -> None:
    """Each query of the file has its answer."""
    check(program_of(name), name, by_reference(program_of(name)))


@pytest.mark.wide(keep=4)
@pytest.mark.spark
@pytest.mark.parametrize("name", ANSWERS)
def test_spark(name: str, spark: SparkSession) -> None:
    """Each query has the same answer on Spark."""
    check(program_of(name), name, by_spark(program_of(name), spark))


def test_what_is_written(tmp_path: Path) -> None:
    """A `dump` writes its rows beside the data, in lines of JSON."""
    home = tmp_path / "data"
    shutil.copytree(APACHE / "data", home)
    command = ["run", str(APACHE / "company.mrql"), "--data", str(home), "--engine", "reference"]
    assert CliRunner().invoke(main, command).exit_code == 0
    lines = [json.loads(line) for file in (home / "staff").glob("part-*") for line in file.read_text().splitlines()]
    counted = {line["department"]: line["staff"] for line in lines}
    assert counted == {"Research": 2, "Sales": 3, "Board": 1, "Archive": 0}
    assert len(lines) == len(counted)


def check(program: Program, name: str, values: list[object]) -> None:
    for query, value, text in zip(program.queries, values, ANSWERS[name], strict=True):
        expected = literal(text, query.type)
        assert close(value, expected), f"{query.span}: {show_value(value)}, not {show_value(expected)}"
