"""The generator's files and the query files together, as used from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from mrql.algebra.values.values import Bag, Value, same
from mrql.jobs.loading import compile_over_files
from mrql.runtime.sources.files import read_source
from queries.tpch import generate
from tests.tpch.cases import NAMES, QUERIES, case, expected, net


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the generator wrote, started as a script."""
    directory = tmp_path_factory.mktemp("tpch")
    run(sys.executable, generate.__file__, directory, "--orders", "60", "--seed", "2")
    return directory


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("name", NAMES)
def test_the_files_hold_the_rows(data: Path, name: str) -> None:
    """The rows that a query reads from the files are those that the generator leaves, with the columns in use."""
    *_, contents = net(generate.history(60, 2))
    program = compile_over_files((QUERIES / f"{name}.mrql").read_text(encoding="utf-8"), base=data)
    for table, source in program.sources.items():
        assert read_source(source) == Bag(case(name).values(table, contents[table])), table


@pytest.mark.parametrize("name", ["q03", "q10", "q13"])
def test_run_and_stream(data: Path, name: str) -> None:
    """`run`, and the last batch of `stream`, have the answer of SQL over the rows that are left."""
    *_, contents = net(generate.history(60, 2))
    in_sql = [tuple(map(as_json, row.fields.values())) for row in expected(contents)[name]]
    options = (QUERIES / f"{name}.mrql", "--data", data, "--engine", "reference", "--format", "json")
    streamed = run(sys.executable, "-m", "mrql", "stream", *options, "--once", "--max-files", "6")
    assert streamed.stderr.count("batch") > 4
    for done in (run(sys.executable, "-m", "mrql", "run", *options), streamed):
        answer = json.loads(done.stdout.splitlines()[-1], parse_float=Decimal)["value"]
        assert same([tuple(row.values()) for row in answer], in_sql)


def as_json(field: Value) -> Value:
    return field.isoformat() if isinstance(field, date) else field


def test_the_directory_must_be_empty(data: Path) -> None:
    """The generator refuses a directory that is not empty, as it would add the same rows again."""
    done = subprocess.run([sys.executable, generate.__file__, str(data)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{data} is not empty" in done.stderr
