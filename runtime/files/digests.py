"""Digests of files as they were written, for comparison with what is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

SHOWN_DIGITS = 12
"""The number of hexadecimal digits of a digest in a message."""


@attrs.frozen
class WrittenFile:
    """A file of a directory, as it was written."""

    name: str
    bytes: int
    sha256: str

    @staticmethod
    def of(file: Path) -> WrittenFile:
        return WrittenFile(file.name, file.stat().st_size, checksum(file))

    def fault(self, directory: Path) -> str | None:
        """How the file of this name in a directory differs from the one written, or that it is gone; else None."""
        path = directory / self.name
        if not path.is_file():
            return "is gone"
        return self.size_fault(path.stat().st_size) or self.digest_fault(checksum(path))

    def size_fault(self, size: int) -> str | None:
        """How a size differs from that of the file as written."""
        return None if size == self.bytes else f"has {size:,} bytes, and {self.bytes:,} were written"

    def digest_fault(self, found: str) -> str | None:
        """How a digest differs from that of the file as written."""
        if found == self.sha256:
            return None
        return f"has the SHA-256 {found[:SHOWN_DIGITS]}…, and what was written {self.sha256[:SHOWN_DIGITS]}…"


def fault_of(file: WrittenFile, data: bytes) -> str | None:
    """How the bytes read from a file differ from those written."""
    return file.size_fault(len(data)) or file.digest_fault(digest(data))


def digest(data: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def checksum(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def written(directory: Path) -> tuple[WrittenFile, ...]:
    """The files of a directory, without hidden ones, where Hadoop has checksums of its own."""
    return tuple(WrittenFile.of(file) for file in sorted(directory.iterdir()) if not file.name.startswith("."))


def faults(files: Iterable[tuple[Path, WrittenFile]]) -> Iterator[tuple[Path, str]]:
    """The paths of the files that differ from what was written, with how they do; several are read at a time."""
    listed = list(files)
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda one: one[1].fault(one[0]), listed)
        yield from (
            (directory / file.name, what) for (directory, file), what in zip(listed, found, strict=True) if what
        )
