"""The file operations that a commit is made of: everything that must survive a crash goes through `DurableFiles`.

Tests pass in others that fail before, after or in the middle of any operation.
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
"""The time limit for removing a directory into which something else still writes."""


class DiskFull(EngineError):
    """There is no room to write something."""


def is_full(error: OSError) -> bool:
    """Whether a disk is full, or the quota of this user is used up."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def of_files(error: OSError, hint: str | None = None) -> EngineError:
    """A failure with a file that no query names, as an error with the name of the file.

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
        """Makes a directory and its missing parents; the entries of those parents are on the disk when this returns."""
        made = [above for above in path.absolute().parents if not above.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for above in made:
            self.sync(above.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Writes a file, or overwrites it."""
        try:
            path.write_bytes(data)
        except OSError as error:
            # If there is no room for a file that was opened, Python does not say which one it is.
            error.filename = error.filename or str(path)
            raise

    def copy(self, path: Path, to: Path) -> None:
        """Copies a file."""
        shutil.copyfile(path, to)

    def sync(self, path: Path) -> None:
        """Returns when the content of a file, or the entries of a directory, are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        """Renames a file or a directory atomically; a file replaces one that has the new name."""
        path.rename(to)

    def remove(self, path: Path) -> None:
        """Removes a file, or a directory with its content; does nothing if it is not there.

        This is retried: a Spark job that was cancelled goes on writing, and removing what it has written, until it
        notices.
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
        """Removes a directory as a whole, by renaming it to `aside` first; an interruption may leave it there."""
        self.remove(aside)
        self.rename(directory, aside)
        self.remove(aside)

    def sync_tree(self, directory: Path) -> None:
        """Syncs everything in a directory, the directory itself, and the one that contains it."""
        for path in sorted(directory.rglob("*")):
            self.sync(path)
        self.sync(directory)
        self.sync(directory.parent)

    def put(self, path: Path, data: bytes, aside: Path) -> None:
        """Writes a file atomically, by way of `aside`; it is on the disk when this returns."""
        self.write(aside, data)
        self.sync(aside)
        self.rename(aside, path)
        self.sync(path.parent)


@attrs.frozen
class Publication:
    """A directory that is written under a hidden name, and gets its final one when its batch is committed."""

    hidden: Path
    final: Path
    replaces: bool = False
    """Whether it replaces what an earlier batch has written there."""
    waits: bool = False
    """Whether its final place is an outbox: its content is brought elsewhere, and it is removed then."""
    files: tuple[WrittenFile, ...] = ()
    """Its files, once it is to be committed."""

    @property
    def publications(self) -> tuple[Publication, ...]:
        """Itself: an output that is visible once it is in its place."""
        return (self,)

    def absolute(self) -> Publication:
        """The same with absolute paths, for a process with another working directory."""
        return attrs.evolve(self, hidden=self.hidden.absolute(), final=self.final.absolute())

    @property
    def is_out(self) -> bool:
        """Whether it is in its place, and not to be brought elsewhere from there."""
        return not self.waits and not self.hidden.exists()

    @property
    def hint(self) -> str:
        """What to do if it is damaged before it is out."""
        if self.waits:
            what = "remove the directory and say replace=true in the address of the table, which is then made anew"
        else:
            what = "remove the directory, and the next batch goes on without this answer"
        return f"put back a copy of it; or {what}"

    def committed(self) -> Publication:
        """The same with its `files`, once all of them are written."""
        return attrs.evolve(self, files=written(self.hidden))

    def faults(self) -> list[tuple[Path, str]]:
        """The files that differ from what was committed, where it is now; none if it `waits` and is already removed."""
        place = self.hidden if self.hidden.exists() else self.final
        if self.waits and not place.exists():
            return []
        return list(faults((place, file) for file in self.files))

    def publish(self, files: DurableFiles) -> None:
        """Moves it to its place, unless that was already done. What it replaces is there as a whole until then."""
        if not self.hidden.exists():
            return
        aside = self.hidden.with_name(f"{self.hidden.name}-replaced")
        if self.replaces and self.final.exists():
            files.remove(aside)
            files.rename(self.final, aside)
        files.rename(self.hidden, self.final)
        files.sync(self.final.parent)
        if self.replaces:
            files.remove(aside)
