"""Durable file operations: what is synced, and how directories are removed."""

from __future__ import annotations

import errno
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from mrql.runtime.files import durable
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.sources.file_archive import Copies
from tests.runtime.checkpoint.streams import Counting, Crash, Failing, Moment


@attrs.define
class Noting(DurableFiles):
    """Records what is synced."""

    synced: list[Path] = attrs.Factory(list)

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.synced.append(path)


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.HALF, Moment.AFTER])
@pytest.mark.parametrize("at", range(1, 8))
def test_what_is_replaced_is_there_as_a_whole(tmp_path: Path, at: int, moment: Moment) -> None:
    """A process that dies while it replaces a directory leaves the old one or the new one, or none, and the next one
    brings the new one there."""
    hidden, final = tmp_path / ".new", tmp_path / "answer"
    contents = {hidden: {"a": "new", "b": "new"}, final: {"a": "old", "b": "old", "c": "old"}}
    for directory, files in contents.items():
        directory.mkdir()
        for name, text in files.items():
            (directory / name).write_text(text)
    publication = Publication(hidden, final, replaces=True)
    with suppress(Crash):
        publication.publish(Failing(at=at, moment=moment))
    if final.exists():
        assert {path.name: path.read_text() for path in final.iterdir()} in contents.values()
    publication.publish(Counting())
    assert {path.name: path.read_text() for path in final.iterdir()} == contents[hidden]


@pytest.mark.parametrize("there", [0, 1, 2, 3])
def test_directories_above(tmp_path: Path, there: int) -> None:
    """The entries of the directories that are made above a directory are synced; the caller syncs that of the directory
    itself."""
    path = tmp_path / "a" / "b" / "c"
    above = [tmp_path, *list(path.parents)[1::-1]]
    above[there].mkdir(exist_ok=True, parents=True) if there < 3 else path.mkdir(parents=True)
    files = Noting()
    files.make_directory(path)
    assert path.is_dir()
    assert {*files.synced} == {*above[there:2]}


def test_a_directory_that_is_written_to_while_it_is_removed(tmp_path: Path) -> None:
    """A directory is removed although a cancelled job goes on writing to it, and removing from it, for a moment."""
    run, stop = tmp_path / "run", threading.Event()

    def go_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            # `mkdir` may find a name taken, and the directory removed when it checks what has the name.
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
    """A directory that something writes to for too long is an error."""
    monkeypatch.setattr(durable, "REMOVED_MAX_SECONDS", 0.1)

    def fails(path: Path) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

    monkeypatch.setattr(shutil, "rmtree", fails)
    with pytest.raises(OSError, match="Directory not empty"):
        DurableFiles().remove(tmp_path)


@pytest.mark.parametrize("inside", [(), ("d=1",), ("d=1", "e=2", "f=3")])
def test_copies_of_files_in_partitions(tmp_path: Path, inside: tuple[str, ...]) -> None:
    """All directories above a copy are synced, including the one with its digest."""
    (tmp_path / "a.csv").write_text("1,2\n")
    files = Noting()
    copies = Copies(tmp_path / "copies", files)
    place = copies.place(tmp_path / "a.csv", 4, 0, inside)
    copies.keep(tmp_path / "a.csv", place)
    made = [place.parents[n] for n in range(len(inside) + 2)]
    assert made[-1] == tmp_path / "copies"
    assert {*made, tmp_path} <= {*files.synced}
    assert copies.whole(place).read_text() == "1,2\n"
