"""Files as bytes and lines: compressed ones by their extension, lines as Spark splits them."""

from __future__ import annotations

import bz2
import gzip
import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mrql.algebra.errors import UserError

NOT_READ = {".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip", ".7z"}
"""Extensions of compressed files that are refused, and not read as if they were text."""


_READERS: dict[str, Callable[[Path, str], IO[bytes]]] = {".gz": gzip.open, ".bz2": bz2.open}  # type: ignore[dict-item]


@contextmanager
def mapped(file: Path) -> Iterator[bytes | mmap.mmap]:
    """The bytes of a file to be searched, which need not all be in memory; those of a compressed one are.

    Raises: UserError as `opened` does.
    """
    with opened(file) as stream:
        if file.suffix.lower() in _READERS or not stream.peek(1):  # type: ignore[attr-defined]
            yield stream.read()
        else:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as found:
                yield found


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, those that were compressed in a `.gz` or `.bz2`.

    Raises: UserError where the file cannot be read, or is not what its extension says.
    """
    suffix = file.suffix.lower()
    if suffix in NOT_READ:
        raise UserError(f"{file} is compressed in a way that is not read", hint="gzip (.gz) and bzip2 (.bz2) are")
    try:
        with _READERS.get(suffix, open)(file, "rb") as stream:
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file} is not a whole {suffix} file: {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        kind = f"is not a whole {suffix} file" if suffix in (".gz", ".bz2") and not error.strerror else "cannot be read"
        raise UserError(f"{file} {kind}: {reason}") from None


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file by their numbers. They end with a line feed, a carriage return, or both."""
    number = 0
    with opened(file) as stream:
        for raw in stream:
            for line in raw.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def fed_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that end with a line feed; a carriage return belongs to them."""
    with opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            ended = line.removesuffix(b"\n")
            yield number, ended.removeprefix(BYTE_ORDER_MARK) if number == 1 else ended


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_marked(file: Path) -> bool:
    """Whether a file begins with a byte order mark."""
    with opened(file) as stream:
        return stream.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK


NOT_UTF8 = "not text in UTF-8"


def decoded(line: bytes) -> str:
    """A line as text to be shown, with U+FFFD for what is not UTF-8."""
    return line.decode("utf-8", errors="replace")


def decoded_exactly(line: bytes) -> str:
    """A line as text, with a lone surrogate for each byte that is not UTF-8: no other text has one."""
    return line.decode("utf-8", errors="surrogateescape")


def shown(text: str) -> str:
    """What was decoded exactly, as text to be shown."""
    return decoded(text.encode("utf-8", errors="surrogateescape"))
