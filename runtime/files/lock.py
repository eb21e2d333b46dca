"""One process at a time on a checkpoint: a lock that the operating system gives up when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import attrs

from mrql.algebra.errors import EngineError, UserError

NAME = "lock"


@attrs.define
class Lock:
    """The lock of a directory, held until it is closed or the process ends, however it ends."""

    descriptor: int
    path: Path
    """What is locked."""

    @staticmethod
    def of(directory: Path) -> Lock:
        """Takes the lock.

        Raises: UserError where another process holds it, with that one's number.
        """
        descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            who = f"process {holder}" if holder else "another process"
            raise UserError(
                f"{directory} is in use by {who}", hint="stop it first, or name another checkpoint"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return Lock(descriptor, directory / NAME)

    @staticmethod
    def of_quarantine(directory: Path) -> Lock:
        """Takes a directory for malformed rows, which has no other files: it is locked itself.

        Raises: UserError where another stream holds it.
        """
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UserError(f"{directory} is in use by another stream", hint="name another --quarantine") from None
        return Lock(descriptor, directory)

    def must_hold(self) -> None:
        """Raises: EngineError where what is locked is gone, so that another process may have what has come there."""
        held = os.fstat(self.descriptor)
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            there = None
        if there is None or (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
            raise EngineError(f"{self.path.parent} was removed while it was in use", hint="name another checkpoint")

    def close(self) -> None:
        """Gives the lock up, also where a process that was forked since has it."""
        if self.descriptor >= 0:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1
