"""The reference evaluator ends with an error if a query needs more memory than there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrql.algebra.errors import UserError
from mrql.algebra.memory import MORE, limit_memory, memory_limit, memory_used
from mrql.cli.main import main
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files

MEGABYTE = 2**20


@pytest.fixture
def little() -> Iterator[None]:
    """A memory limit of 20 MB above the current use."""
    limit_memory(memory_used() + 20 * MEGABYTE)
    yield
    limit_memory(0)


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("count(1..100000000)", "1..100000000"),
        ("select x from x in range(1, 100000000) where x mod 2 = 0", "range(1, 100000000)"),
        ("select (x, y) from x in 1..2000, y in 1..2000", "select (x, y) from x in 1..2000, y in 1..2000"),
        ("select (x, count(y)) from x in 1..3000, y in 1..3000 group by x", "x"),
        ('select rpad("x", 1000000 + x, "y") from x in 1..500', 'rpad("x", 1000000 + x, "y")'),
        ('length(repeat s = "xy" step s + s limit 60)', "s + s"),
        ("repeat s = [1, 2] step s union s limit 60", "s union s"),
    ],
)
def test_what_takes_all_memory(little: None, query: str, at: str) -> None:
    program = compile_over_files(f"{query};")
    with pytest.raises(UserError, match="out of memory: this takes more than") as caught:
        ReferenceBatchJob(program).answer(program.queries[0])
    assert caught.value.span is not None
    assert (caught.value.span.text, caught.value.hint) == (at, MORE)


def test_rows_of_files_that_take_all_memory(little: None, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"1234567,{'abcdefg' * 200}\n" * 100_000)
    program = compile_over_files(f'count(source(csv, "{tmp_path}/a.csv", ",", type((long, string))));')
    with pytest.raises(UserError, match="out of memory") as caught:
        ReferenceBatchJob(program).answer(program.queries[0])
    assert caught.value.span is not None


def test_what_is_made_and_let_go_has_room(little: None) -> None:
    program = compile_over_files("count(select y from x in 1..60, y in [count(1..(x + 20000))]);")
    assert ReferenceBatchJob(program).answer(program.queries[0]) == 60


def test_memory_of_a_command_is_that_of_the_reference_engine(tmp_path: Path) -> None:
    """The option `--memory` of a command limits the memory of the reference engine."""
    (tmp_path / "q.mrql").write_text("count(1..100000000);")
    done = CliRunner().invoke(
        main, ["run", str(tmp_path / "q.mrql"), "--engine", "reference", "--memory", "1g", "--format", "json"]
    )
    assert (done.exit_code, memory_limit()) == (1, 1024 * MEGABYTE)
    assert "out of memory: this takes more than 1,024 MB" in done.output
    limit_memory(0)
