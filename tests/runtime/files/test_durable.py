"""What is on the disk after an operation."""

from __future__ import annotations

import errno
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from mrql.runtime.files import durable
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sources.file_archive import Copies


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


def test_a_directory_that_is_written_to_while_it_is_removed(tmp_path: Path) -> None:
    """By a job that was cancelled and goes on for a moment; it makes anew what it needs, and removes some of it."""
    run, stop = tmp_path / "run", threading.Event()

    def go_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            # It may be removed between two of its steps: what `mkdir` found is gone before it looks what it is.
            with suppress(FileNotFoundError, FileExistsError):
                (run / "_temporary" / "0").mkdir(parents=True, exist_ok=True)
                (run / "_temporary" / "0" / f"part-{number}").touch()
                (run / "_temporary" / "0" / f"part-{number - 5}").unlink(missing_ok=True)

    run.mkdir()
    writer = threading.Thread(target=go_on)
    writer.start()
    threading.Timer(0.5, stop.set).start()
    for _ in range(100):
        DurableFiles().remove(run)
    stop.set()
    writer.join()
    DurableFiles().remove(run)
    assert not run.exists()


def test_a_directory_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the job never ends, that is said."""
    monkeypatch.setattr(durable, "REMOVED_MAX_SECONDS", 0.1)

    def fails(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

    monkeypatch.setattr(shutil, "rmtree", fails)
    with pytest.raises(OSError, match="Directory not empty"):
        DurableFiles().remove(tmp_path)


@pytest.mark.parametrize("inside", [(), ("d=1",), ("d=1", "e=2", "f=3")])
def test_copies_of_files_in_partitions(tmp_path: Path, inside: tuple[str, ...]) -> None:
    """Each name above a copy is on the disk, that of its digest among them."""
    (tmp_path / "a.csv").write_text("1,2\n")
    files = Noting()
    copies = Copies(tmp_path / "copies", files)
    place = copies.place(tmp_path / "a.csv", 4, 0, inside)
    copies.keep(tmp_path / "a.csv", place)
    made = [place.parents[n] for n in range(len(inside) + 2)]
    assert made[-1] == tmp_path / "copies"
    assert {*made, tmp_path} <= {*files.synced}
    assert copies.whole(place).read_text() == "1,2\n"
