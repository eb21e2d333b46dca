"""The commands that `docs/tpch.md` begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import DOCS, blocks, run_command

ROOT = DOCS.parent


@pytest.mark.slow
@pytest.mark.wide
def test_the_commands(tmp_path: Path) -> None:
    """The generator makes data, and the output of `stream` has the answer of `run`."""
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    generate, *others = blocks("docs/tpch.md")[0].body.splitlines()
    call(generate, tmp_path)
    assert len([*(tmp_path / "data" / "lineitem").iterdir()]) == 10
    answer, stream, _ = (call(command, tmp_path).splitlines() for command in others)
    assert {*answer} <= {*stream}
    assert len(stream) > len(answer) > 0


def call(command: str, home: Path) -> str:
    """The output of a command, which must succeed."""
    done = run_command(command, home)
    assert done.returncode == 0, done.stderr
    return done.stdout
