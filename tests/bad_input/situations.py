"""Faults that a stream meets: what is damaged, by what, and how it is repaired.

Each begins with a stream that has committed one batch. Then something is damaged and the stream is started; it ends
with a message. Its commits and its output must be as before. After the repair, when another file has arrived, the same
command goes on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import TypeAlias
from unittest import mock

import attrs

from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.lock import Lock


class Put(Enum):
    """What is put in the place of a file, other than bytes or a text."""

    NOTHING = "nothing"
    DIRECTORY = "a directory"


Content: TypeAlias = bytes | str | Put
Fault: TypeAlias = Callable[[Path], AbstractContextManager[object]]


@attrs.frozen
class Setting:
    """A stream: its query, the data of its first batch, and the data that arrives after the repair."""

    query: str
    first: Mapping[str, Content]
    then: Mapping[str, Content]


@attrs.frozen
class Bad:
    """A fault, and the exit code that it leads to. In options, `{home}` is the directory of the stream.

    With `code` 0 it is no error: the stream only prints a message, and has its output.
    """

    code: int
    files: Mapping[str, Content] = attrs.Factory(dict)
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The command to run, if it is not that of the stream."""
    setting: str = "csv"
    fault: Fault | None = None
    spark: bool = False
    """Whether it is tested on Spark too, with the same message."""
    starts_over: bool = False
    """Whether the stream has no checkpoint, and so starts from the beginning."""


def put(path: Path, content: Content, age: int) -> None:
    """Puts something in the place of a file, and sets its time of modification."""
    clear(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    match content:
        case Put.NOTHING:
            return
        case Put.DIRECTORY:
            path.mkdir()
        case str():
            path.write_text(content)
        case bytes():
            path.write_bytes(content)
    os.utime(path, (1_000_000 + age, 1_000_000 + age))


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@attrs.frozen
class Kept:
    """A copy of a directory, from which it is restored."""

    home: Path
    copy: Path

    @staticmethod
    def of(home: Path, copy: Path) -> Kept:
        clear(copy)
        shutil.copytree(home, copy)
        return Kept(home, copy)

    def put_back(self) -> None:
        """Restores the directory. Files are overwritten in place, with their times, as if they were never touched."""
        for path in sorted(self.home.rglob("*"), reverse=True):
            if not os.path.lexists(self.copy / path.relative_to(self.home)):
                clear(path)
        for saved in sorted(self.copy.rglob("*")):
            path = self.home / saved.relative_to(self.copy)
            if saved.is_dir():
                if not path.is_dir():
                    clear(path)
                    path.mkdir()
            else:
                if path.is_dir():
                    clear(path)
                shutil.copy2(saved, path)


# --- faults of the environment ------------------------------------------------------------------


def forbidden(name: str, mode: int = 0) -> Fault:
    """A file or a directory that this process has no permission for, even if it runs as root."""

    @contextmanager
    def without_permission(home: Path) -> Iterator[None]:
        path = home / name
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        try:
            with as_anybody():
                yield
        finally:
            path.chmod(before)

    return without_permission


@contextmanager
def as_anybody() -> Iterator[None]:
    """Takes the capabilities to read and write all files from root, for the duration of the block."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the call, this thread
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    if libc.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    before = sets[0]
    sets[0] &= ~0b1110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        sets[0] = before
        libc.capset(header, sets)


def edited(pattern: str, old: bytes, new: bytes) -> Fault:
    """A file has other content for a while."""

    @contextmanager
    def changed(home: Path) -> Iterator[None]:
        file = next(path for path in sorted(home.glob(pattern)) if old in path.read_bytes())
        before = file.read_bytes()
        file.write_bytes(before.replace(old, new, 1))
        try:
            yield
        finally:
            file.write_bytes(before)

    return changed


def lost(pattern: str) -> Fault:
    """A file is missing for a while."""

    @contextmanager
    def away(home: Path) -> Iterator[None]:
        file = min(home.glob(pattern))
        file.rename(file.with_name("_away"))
        try:
            yield
        finally:
            file.with_name("_away").rename(file)

    return away


def room_for(size: int) -> Fault:
    """No file can become larger than so many bytes, as when the disk is nearly full."""

    @contextmanager
    def limited(_home: Path) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


def no_space(place: str) -> Fault:
    """Writing a file whose path contains `place` fails halfway: no space is left on the disk."""
    write = DurableFiles.write

    def refused(files: DurableFiles, path: Path, data: bytes) -> None:
        if place in str(path):
            write(files, path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(files, path, data)

    return lambda _home: mock.patch.object(DurableFiles, "write", refused)


def locked(home: Path) -> AbstractContextManager[None]:
    """The checkpoint is locked, as if by another process."""

    @contextmanager
    def held() -> Iterator[None]:
        lock = Lock.of(home / "state")
        try:
            yield
        finally:
            lock.close()

    return held()


@contextmanager
def interrupted(_home: Path) -> Iterator[None]:
    """Ctrl-C is pressed twice while a batch runs."""
    with mock.patch("mrql.runtime.reference.engine.ReferenceView.applied", side_effect=KeyboardInterrupt):
        yield


@contextmanager
def interrupted_run(_home: Path) -> Iterator[None]:
    """Ctrl-C is pressed while an expression is evaluated."""
    with mock.patch("mrql.jobs.batch.evaluate", side_effect=KeyboardInterrupt):
        yield
