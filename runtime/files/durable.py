"""The file operations that a commit is made of, all of them here: what must survive a crash goes through `Files`.

A test hands over others that fail before, after or in the middle of any operation.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import attrs

from mrql.algebra.errors import EngineError
from mrql.runtime.files.digests import WrittenFile, faults, written

REMOVED_MAX_SECONDS = 10.0
"""For so many seconds at most a directory is removed into which something else is written meanwhile."""


class DiskFull(EngineError):
    """There is no room to write something."""


def is_full(error: OSError) -> bool:
    """Whether there is no room on a disk, or not as much as this user may have."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def of_files(error: OSError, hint: str | None = None) -> EngineError:
    """What goes wrong with a file that no query has named, as an error with the name of the file.

    >>> of_files(OSError(errno.ENOSPC, "No space left on device", "out/part-0")).message
    'no space is left on the disk for out/part-0'
    """
    if is_full(error):
        place = f" for {error.filename}" if error.filename else ""
        return DiskFull(f"no space is left on the disk{place}", f"make room; {hint}" if hint else "make room")
    reason = error.strerror or str(error)
    return EngineError(f"{error.filename}: {reason}" if error.filename else reason, hint)


class DurableFiles:
    """Files and directories on a local file system. Nothing is durable before it is synced."""

    def make_directory(self, path: Path) -> None:
        """Makes a directory and those above it, where they are not there; the names of these are on the disk then."""
        made = [above for above in path.absolute().parents if not above.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for above in made:
            self.sync(above.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Writes a file, or overwrites it."""
        try:
            path.write_bytes(data)
        except OSError as error:
            # Where a file was opened and there is no room for it, Python does not say which one it is.
            error.filename = error.filename or str(path)
            raise

    def copy(self, path: Path, to: Path) -> None:
        """Copies a file."""
        shutil.copyfile(path, to)

    def sync(self, path: Path) -> None:
        """Returns when what is in a file, or which names are in a directory, is on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        """Gives a file or a directory another name at once; a file takes the place of one that has it."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Removes a file, or a directory with all that is in it; nothing where it is not there.

        A job of Spark's that was cancelled writes, and removes what it has written, until it hears of that.
        """
        until = time.monotonic() + REMOVED_MAX_SECONDS
        while os.path.lexists(path):
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.ENOENT, errno.EISDIR) or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    # --- made of these ------------------------------------------------------------------------

    def drop(self, directory: Path, aside: Path) -> None:
        """Removes a directory that is there as a whole or not at all; what is cut off leaves something aside."""
        self.remove(aside)
        self.rename(directory, aside)
        self.remove(aside)

    def sync_tree(self, directory: Path) -> None:
        """Syncs all that is in a directory, its own name and that of the directory it is in."""
        for path in sorted(directory.rglob("*")):
            self.sync(path)
        self.sync(directory)
        self.sync(directory.parent)

    def put(self, path: Path, data: bytes, aside: Path) -> None:
        """Writes a file that is there as a whole or not at all, and is on the disk when this returns."""
        self.write(aside, data)
        self.sync(aside)
        self.rename(aside, path)
        self.sync(path.parent)


@attrs.frozen
class Publication:
    """A directory that is written aside, and takes its place when the batch that it is of is committed."""

    hidden: Path
    final: Path
    replaces: bool = False
    """Whether it takes the place of what an earlier batch has written there."""
    waits: bool = False
    """Whether it is to be brought elsewhere from its place, and goes then."""
    files: tuple[WrittenFile, ...] = ()
    """What is in it, once it is to be committed."""

    @property
    def publications(self) -> tuple[Publication, ...]:
        """Itself: an output that is seen when it is in its place."""
        return (self,)

    def absolute(self) -> Publication:
        """The same for a process that starts elsewhere."""
        return attrs.evolve(self, hidden=self.hidden.absolute(), final=self.final.absolute())

    @property
    def is_out(self) -> bool:
        """Whether it is where it goes."""
        return not self.waits and not self.hidden.exists()

    @property
    def hint(self) -> str:
        """What to do where it is damaged before it is out."""
        if self.waits:
            what = "remove the directory and say replace=true in the address of the table, which is then made anew"
        else:
            what = "remove the directory, and the next batch goes on without this answer"
        return f"put back a copy of it; or {what}"

    def committed(self) -> Publication:
        """The same with what is in it: all of it is written."""
        return attrs.evolve(self, files=written(self.hidden))

    def faults(self) -> list[tuple[Path, str]]:
        """The files that are not what was committed, where it is now; what waits has gone, if it is not there."""
        place = self.hidden if self.hidden.exists() else self.final
        if self.waits and not place.exists():
            return []
        return list(faults((place, file) for file in self.files))

    def publish(self, files: DurableFiles) -> None:
        """Moves it to its place; nothing where that was done before."""
        if not self.hidden.exists():
            return
        if self.replaces and self.final.exists():
            files.remove(self.final)
        files.rename(self.hidden, self.final)
        files.sync(self.final.parent)
