"""What is on the disk after an operation."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from mrql.runtime.files.durable import DurableFiles


@attrs.define
class Noting(DurableFiles):
    """Notes what is synced."""

    synced: list[Path] = attrs.Factory(list)

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.synced.append(path)


@pytest.mark.parametrize("there", [0, 1, 2, 3])
def test_directories_above(tmp_path: Path, there: int) -> None:
    """The names of all that are made above a directory; its own is for whoever makes it."""
    path = tmp_path / "a" / "b" / "c"
    above = [tmp_path, *list(path.parents)[1::-1]]
    above[there].mkdir(exist_ok=True, parents=True) if there < 3 else path.mkdir(parents=True)
    files = Noting()
    files.make_directory(path)
    assert path.is_dir()
    assert {*files.synced} == {*above[there:2]}
