"""A lock that admits one process at a time to a directory; the operating system releases it when its holder dies."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from contextlib import suppress
from pathlib import Path

import attrs

from mrql.algebra.errors import EngineError, UserError

logger = logging.getLogger(__name__)

NAME = "lock"
HELD = Path("/proc/locks")
"""The file in which Linux says who holds which lock."""
NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)
"""The errors of a file system without locks, or without locks on directories, such as NFS."""


@attrs.define
class Lock:
    """A lock that is held until it is closed or the process ends, however it ends."""

    descriptor: int
    path: Path
    """The file or directory that is locked."""
    goes: bool = False
    """Whether that is a file that is removed with the lock."""
    process: int = attrs.Factory(os.getpid)
    """The process that holds it: one that was forked since has the descriptor, too."""

    @staticmethod
    def of(directory: Path) -> Lock:
        """Takes the lock of a checkpoint, which is on a file in it.

        Raises: UserError where another process holds it, with the number of that process.
        """
        descriptor = _opened(directory / NAME)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise _in_use(directory, holder, "checkpoint") from None
        lock = Lock(descriptor, directory / NAME)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            lock.close()
            raise
        return lock

    @staticmethod
    def of_directory(directory: Path, option: str) -> Lock:
        """Takes the lock of a directory that an option names. It is on the directory itself, as others read that and
        should find no lock file in it.

        Raises: UserError where another stream holds it, with the number of its process where that is known.
        """
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        _take(descriptor, directory, option)
        return Lock(descriptor, directory)

    @staticmethod
    def beside(path: Path, option: str) -> Lock:
        """Takes the lock of a path that is replaced as a whole, and so cannot be locked itself: a hidden file beside it
        is locked, and removed with the lock.

        Raises: UserError as `of_directory`.
        """
        file = path.with_name(f".{path.name}.{NAME}")
        while True:
            descriptor = _opened(file)
            _take(descriptor, file, option, shown=path)
            lock = Lock(descriptor, file, goes=True)
            if lock.is_there:
                return lock
            lock.close()  # its previous holder has removed it meanwhile

    @property
    def is_there(self) -> bool:
        """Whether the path still refers to the file or directory that is locked."""
        held = os.fstat(self.descriptor)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)

    def must_hold(self) -> None:
        """Raises: EngineError where the locked file is gone, so that another process may hold one in its place."""
        if not self.is_there:
            raise EngineError(f"{self.path.parent} was removed while it was in use", hint="name another checkpoint")

    def close(self) -> None:
        """Releases the lock, even if a process that was forked since has it, too; such a process releases nothing."""
        if self.descriptor >= 0 and self.process == os.getpid():
            if self.goes and self.is_there:
                self.path.unlink()
            with suppress(OSError):  # where there are no locks
                fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        """Releases a lock that nobody can close any more, such as that of a view dropped by an error or a notebook."""
        self.close()


def _opened(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _take(descriptor: int, path: Path, option: str, shown: Path | None = None) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise _in_use(shown or path, holder, option) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            os.close(descriptor)
            raise
        logger.warning("%s cannot be locked on its file system: see that one stream alone writes there", shown or path)


def _in_use(what: Path, holder: str | None, option: str) -> UserError:
    who = f"process {holder}" if holder else "another process"
    return UserError(f"{what} is in use by {who}", hint=f"stop it first, or name another {option}")


def _holder(descriptor: int) -> str | None:
    """The number of the process that has locked a file, if the system says it."""
    status = os.fstat(descriptor)
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = [line.split() for line in HELD.read_text().splitlines()]
    except OSError:
        return None
    found = (words[4] for words in lines if len(words) > 5 and words[1] == "FLOCK" and words[5] == place)
    return next((process for process in found if process.isdigit() and process != "0"), None)
