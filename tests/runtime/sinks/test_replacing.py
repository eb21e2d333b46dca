"""An answer that replaces the one before: one of the two is there, whatever happens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mrql.algebra.errors import UserError
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.replacing import PLACE
from tests.runtime.checkpoint.streams import Stream, fill


def store(home: Path, number: int) -> None:
    program = compile_over_files(f'store "{home}/out" from {{{number}}};')
    ReferenceBatchJob(program).write(program.queries[0])


def stored(home: Path) -> list[int]:
    return [int(line) for part in (home / "out").glob("part-*") for line in part.read_text().splitlines()]


def test_a_stream_has_its_place_for_itself(tmp_path: Path) -> None:
    """The target directory of a query is locked: while it is in use, another query or stream is refused."""
    store(tmp_path, 1)
    fill(tmp_path, 2, Random(1))
    stream = Stream(
        tmp_path,
        f'edges = stream(csv, "edges", ",", type((long, long))); store "{tmp_path}/out" from {{count(edges)}};',
    )
    held = Lock.beside(tmp_path / "out", PLACE)
    for writes in (lambda: store(tmp_path, 2), stream.run):
        with pytest.raises(UserError, match=f"{tmp_path}/out is in use by process {os.getpid()}"):
            writes()
    held.close()
    assert stored(tmp_path) == [1]
    stream.run()
    store(tmp_path, 2)
    assert stored(tmp_path) == [2]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", range(6))
def test_an_interrupt(tmp_path: Path, at: int, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt before or after any file operation leaves one of the two answers in place, and the next run replaces
    it."""
    store(tmp_path, 1)
    done = 0

    def interrupted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == at + 1 and not late:
                raise KeyboardInterrupt
            result = operation(*args, **options)
            if done == at + 1 and late:
                raise KeyboardInterrupt
            return result

        return called

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted(Path.rename))
        patched.setattr(shutil, "rmtree", interrupted(shutil.rmtree))
        try:
            store(tmp_path, 2)
        except KeyboardInterrupt:
            assert stored(tmp_path) in ([1], [2])
        else:
            assert stored(tmp_path) == [2]
    store(tmp_path, 3)
    assert stored(tmp_path) == [3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
