"""`make test` runs a part of the cases of wide tests, and `make soak` all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE = "tests/runtime/spark/test_static_tables.py"
WIDE = "test_what_is_deleted_beside_a_table_is_gone"


def collected(*arguments: str, test: str = WIDE) -> list[str]:
    """The cases of a wide test that run."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return [line for line in done.stdout.splitlines() if test in line]


def test_a_part_of_the_cases_runs() -> None:
    """The first of each six cases runs, and all of them if they are asked for."""
    cases = collected("-m", "wide", FILE)
    assert len(cases) > 9
    assert collected(FILE) == cases[::6]


def test_each_engine_has_a_part() -> None:
    """If the cases of a test are of both engines, a part of each engine's cases runs."""
    file, test = "tests/runtime/streaming/test_widening.py", "test_a_running_stream_goes_on"
    of = [case.rpartition("-")[2] for case in collected(file, test=test)]
    assert of == ["reference]", "spark]"]


@pytest.mark.parametrize("arguments", [(FILE, "-k", WIDE), (f"{FILE}::{WIDE}",)], ids=["-k", "a name"])
def test_who_asks_by_name_gets_all(arguments: tuple[str, ...]) -> None:
    assert collected(*arguments) == collected("-m", "wide", FILE)
