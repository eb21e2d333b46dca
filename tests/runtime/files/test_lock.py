"""Locks: what two processes may not both have, and who is said to have it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
from pathlib import Path

import pytest

from mrql.algebra.errors import UserError
from mrql.runtime.files import lock as locks
from mrql.runtime.files.lock import Lock


def test_a_directory_has_one_holder(tmp_path: Path) -> None:
    """A directory that is locked is refused, with the number of its process; no file is left in it."""
    with contextlib.closing(Lock.of_directory(tmp_path, "--output")):
        with pytest.raises(UserError, match=f"{tmp_path} is in use by process {os.getpid()}\n") as refused:
            Lock.of_directory(tmp_path, "--output")
        assert refused.value.hint == "stop it first, or name another --output"
    Lock.of_directory(tmp_path, "--output").close()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("held", ["", "1: POSIX  ADVISORY  WRITE 7 00:00:1 0 EOF\n1: -> FLOCK\n"])
def test_a_holder_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    """The holder is "another process" where the system has no list of locks, or this one is not in it."""
    monkeypatch.setattr(locks, "HELD", tmp_path / "locks")
    if held:
        (tmp_path / "locks").write_text(held)
    with (
        contextlib.closing(Lock.of_directory(tmp_path, "--output")),
        pytest.raises(UserError, match="is in use by another process\n"),
    ):
        Lock.of_directory(tmp_path, "--output")


def test_a_lock_beside_what_is_replaced(tmp_path: Path) -> None:
    """A lock beside a path holds while that is made and removed, and leaves no file."""
    answer = tmp_path / "answer"
    with contextlib.closing(Lock.beside(answer, "directory")):
        answer.mkdir()
        with pytest.raises(UserError, match=f"{answer} is in use by process"):
            Lock.beside(answer, "directory")
        answer.rmdir()
        with pytest.raises(UserError, match=f"{answer} is in use by process"):
            Lock.beside(answer, "directory")
    assert not [*tmp_path.iterdir()]


def test_a_lock_whose_file_goes_while_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If its previous holder has removed the lock's file after it was opened, another one is opened."""
    file, flock = tmp_path / ".answer.lock", fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        file.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with contextlib.closing(Lock.beside(tmp_path / "answer", "directory")) as lock:
        assert lock.is_there


def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a file system without locks, taking one only logs a warning."""

    def refuses(descriptor: int, operation: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuses)
    Lock.of_directory(tmp_path, "--output")
    assert f"{tmp_path} cannot be locked" in caplog.text


def test_a_lock_that_nobody_has_any_more(tmp_path: Path) -> None:
    """A lock that is dropped without being closed is released, but not by a forked process that drops it."""
    lock: Lock | None = Lock.of(tmp_path)
    child = os.fork()
    if not child:
        lock = None  # closes nothing
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(UserError, match="is in use by process"):
        Lock.of(tmp_path)
    del lock
    gc.collect()
    Lock.of(tmp_path).close()


def test_a_lock_that_cannot_say_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is released if its process cannot be noted in its file, as on a full disk."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            Lock.of(tmp_path)
    Lock.of(tmp_path).close()
