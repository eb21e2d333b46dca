"""Files as bytes and lines: compressed ones by their extension, lines as Spark splits them."""

from __future__ import annotations

import bz2
import gzip
import io
import mmap
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from mrql.algebra.errors import UserError

NOT_READ = {".lz4", ".snappy", ".deflate", ".xz", ".zip", ".7z"}
"""Extensions of compressed files that are refused, and not read as if they were text."""


@contextmanager
def _zstandard(file: Path, mode: str) -> Iterator[IO[bytes]]:
    with file.open("rb") as packed:
        # As an open file, and not by its name, which need not be UTF-8.
        yield io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(packed, "r"), "zstd"))


_READERS: Mapping[str, Callable[[Path, str], AbstractContextManager[IO[bytes]]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".bz2": bz2.open,  # type: ignore[dict-item]
    ".zst": _zstandard,
}
UNPACKED = frozenset(_READERS)
"""Extensions of compressed files that are read."""


def packed_suffix(file: Path) -> str:
    """The extension by which a file is unpacked; empty if its bytes are read as they are.

    Raises: UserError for an extension of compressed files that are not read. In capitals, none is: Spark does not know
        such an extension.
    """
    small = file.suffix.lower()
    if small in NOT_READ or (small in UNPACKED and file.suffix != small):
        raise UserError(f"{file} is compressed in a way that is not read", hint=UNPACKED_ARE)
    return small if small in UNPACKED else ""


@contextmanager
def mapped(file: Path) -> Iterator[bytes | mmap.mmap]:
    """The bytes of a file for searching, mapped and not loaded into memory unless the file is compressed.

    Raises: UserError as `opened` does.
    """
    with opened(file) as stream:
        if packed_suffix(file) or not stream.peek(1):  # type: ignore[attr-defined]
            yield stream.read()
        else:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as found:
                yield found


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """A stream of the bytes of a file, decompressed if it is a `.gz`, `.bz2` or `.zst`.

    Raises: UserError where the file cannot be read, or is not what its extension says.
    """
    suffix = packed_suffix(file)
    try:
        with _READERS.get(suffix, open)(file, "rb") as stream:
            yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{file} is not a whole {suffix} file: {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        kind = f"is not a whole {suffix} file" if suffix in _READERS and not error.strerror else "cannot be read"
        raise UserError(f"{file} {kind}: {reason}") from None


_BEGINNINGS = {
    ".gz": re.compile(rb"\x1f\x8b\x08"),
    ".bz2": re.compile(rb"BZh[1-9]1AY&SY"),
    ".zst": re.compile(rb"\x28\xb5\x2f\xfd"),
}
"""How compressed files begin, by the extensions that they are read by."""


def packed_as(file: Path) -> str | None:
    """The extension that the name of a compressed file lacks; None if it lacks none, or the file is not compressed."""
    if file.suffix in UNPACKED:
        return None
    try:
        with file.open("rb") as stream:
            beginning = stream.read(10)
    except OSError:
        return None
    return next((suffix for suffix, begins in _BEGINNINGS.items() if begins.match(beginning)), None)


UNPACKED_ARE = "gzip (.gz), bzip2 (.bz2) and Zstandard (.zst) are"


def must_be_whole(file: Path) -> None:
    """Checks that a `.zst` is not cut off, block by block: Spark overlooks it if the end of another frame is near.

    Source: RFC 8878, §3.1

    Raises: UserError where it is cut off; other faults are found when it is read.
    """
    if file.suffix.lower() != ".zst":
        return
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            end: int | None = 0
            while end is not None and end < size:
                stream.seek(end)
                end = _end_of_frame(stream, end)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    if end is not None and end > size:
        raise UserError(f"{file} is not a whole .zst file: Truncated compressed stream")


def _end_of_frame(stream: IO[bytes], at: int) -> int | None:
    """The end of the frame that begins at a position, which may be beyond the file; None if no frame begins there."""

    def number(count: int) -> int:
        return int.from_bytes(stream.read(count), "little")

    beginning = stream.read(4)
    if len(beginning) < 4:
        return at + 4
    magic = int.from_bytes(beginning, "little")
    if magic & ~0xF == 0x184D2A50:  # a frame that readers skip
        return at + 8 + number(4)
    if magic != 0xFD2FB528:
        return None
    descriptor = number(1)
    is_single = bool(descriptor & 0x20)
    size_of_content = (int(is_single), 2, 4, 8)[descriptor >> 6]
    at += 5 + int(not is_single) + (0, 1, 2, 4)[descriptor & 3] + size_of_content
    is_last = False
    while not is_last:
        stream.seek(at)
        header = stream.read(3)
        if len(header) < 3:
            return at + 3
        block = int.from_bytes(header, "little")
        is_last, is_repeated = bool(block & 1), block >> 1 & 3 == 1
        at += 3 + (1 if is_repeated else block >> 3)
    return at + (4 if descriptor & 4 else 0)


def lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers. They end with a line feed, a carriage return, or both."""
    number = 0
    with opened(file) as stream:
        for raw in _without_a_mark_alone(stream):
            for line in raw.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line


def _without_a_mark_alone(stream: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file with their ends. A byte order mark and nothing else is no line."""
    return (raw for raw in stream if raw != BYTE_ORDER_MARK)


def fed_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers. They end with a line feed only; a carriage return is part of a line."""
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
TO_UTF8 = "write it in UTF-8, as by `iconv -f latin1 -t utf-8`, under another name"


def decoded(line: bytes) -> str:
    """A line as text to be shown, with U+FFFD for what is not UTF-8."""
    return line.decode("utf-8", errors="replace")


def decoded_exactly(line: bytes) -> str:
    """A line as text, with a lone surrogate for each byte that is not UTF-8: no other text has one."""
    return line.decode("utf-8", errors="surrogateescape")


def shown(text: str) -> str:
    """A text from `decoded_exactly`, as text to be shown."""
    return decoded(text.encode("utf-8", errors="surrogateescape"))
