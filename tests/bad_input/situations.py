"""Situations that a stream gets into: what is spoiled, by what, and how it is made good again.

Each begins with a stream that has committed one batch. Then something is spoiled and the stream is started; it ends
with a message. What it has committed and put out must be as before. When all is as it was, and a file more has arrived,
the same command goes on.
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
    """What is put in the place of a file, besides bytes or a text."""

    NOTHING = "nothing"
    DIRECTORY = "a directory"


Content: TypeAlias = bytes | str | Put
Fault: TypeAlias = Callable[[Path], AbstractContextManager[object]]


@attrs.frozen
class Setting:
    """A stream: its query, the data of its first batch, and what arrives when all is well again."""

    query: str
    first: Mapping[str, Content]
    then: Mapping[str, Content]


@attrs.frozen
class Bad:
    """What is wrong, and the exit code. In options `{home}` is the directory of the stream.

    `code` 0 is for what is no error: the stream says what it says, and has put out what it has.
    """

    code: int
    files: Mapping[str, Content] = attrs.Factory(dict)
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """Another command than that of the stream."""
    setting: str = "csv"
    fault: Fault | None = None
    spark: bool = False
    """Whether it is tried on Spark too, with the same message."""
    starts_over: bool = False
    """Whether the stream has no checkpoint, and so nothing that it goes on from."""


def put(path: Path, content: Content, age: int) -> None:
    """Puts something in the place of a file, with a time of its own."""
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
    """What of a directory is put back when all is made good again."""

    home: Path
    copy: Path

    @staticmethod
    def of(home: Path, copy: Path) -> Kept:
        clear(copy)
        shutil.copytree(home, copy)
        return Kept(home, copy)

    def put_back(self) -> None:
        """Files that are the same keep their places, so that they were never touched."""
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
    """A file or a directory that this process has no permission for, whoever runs it."""

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
    """Takes from root what lets it read and write everything, for the time of the block."""
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
    """A file is another one for a while."""

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
    """A file is not there for a while."""

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
    """Files whose path has this in it find no space left on the disk."""
    write = DurableFiles.write

    def refused(files: DurableFiles, path: Path, data: bytes) -> None:
        if place in str(path):
            write(files, path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(files, path, data)

    return lambda _home: mock.patch.object(DurableFiles, "write", refused)


def locked(home: Path) -> AbstractContextManager[None]:
    """Another process has the checkpoint."""

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
