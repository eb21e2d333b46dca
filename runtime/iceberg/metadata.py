"""The metadata of a table of Iceberg in a directory: the newest metadata file, as `pyiceberg` reads it.

A catalog would say which file that is. Without one it is the file with the greatest number, from which a writer
continues: `00003-….metadata.json`, or `v3.metadata.json`, whose number `version-hint.text` has.

Source: the Iceberg table spec, "Table Metadata" and "File System Tables", https://iceberg.apache.org/spec/
"""

from __future__ import annotations

import gzip
import json
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import attrs

from mrql.algebra.errors import EngineError, UserError
from mrql.runtime.sources.files import ICEBERG_METADATA

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_NUMBERED = re.compile(r"(?:v([0-9]+)|([0-9]+)-.+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")

WRITING_MAX_SECONDS = 10.0
"""An incomplete file that was modified at most this long ago is taken for one that is still being written."""

_Entry: TypeAlias = tuple[Path, int, int, int]


@attrs.frozen
class FoundMetadata:
    """The metadata of a table, read from a file."""

    file: Path
    id: str
    """Tells the table from another one in its place."""
    table: TableMetadata


@attrs.define
class MetadataFiles:
    """The metadata files of a table."""

    path: Path
    known: tuple[_Entry, FoundMetadata] | None = None
    """The metadata that was read last, with the state of its file."""

    def newest(self) -> FoundMetadata:
        """The current metadata of the table.

        Raises: UserError where there is no table, or it cannot be read; EngineError without pyiceberg.
        """
        must_be_installed()
        newest, *others = self._by_age()
        entry = _entry(newest)
        if self.known is not None and self.known[0] == entry:
            return self.known[1]
        text = _text(newest)
        if text is None and others:  # while it is still being written, the table is as before
            newest = others[0]
            entry, text = _entry(newest), _text(newest)
        if text is None:
            raise UserError(f"{newest} cannot be read: it ends too early")
        found = _parsed(newest, text)
        self.known = entry, found
        return found

    def _by_age(self) -> list[Path]:
        """The one or two newest metadata files, the newest first.

        Raises: UserError where there are none, or it is not known which is the newest.
        """
        directory = self.path / ICEBERG_METADATA
        try:
            names = os.listdir(directory)
        except OSError:
            names = []
        numbered: dict[int, list[str]] = {}
        for name in names:
            if match := _NUMBERED.fullmatch(name):
                numbered.setdefault(int(match[1] or match[2]), []).append(name)
        if not numbered:
            hint = f"it would have files {ICEBERG_METADATA}/….metadata.json"
            raise UserError(f"there is no Iceberg table in {self.path}", hint=hint)
        last = self._last(numbered)
        if len(numbered[last]) > 1:
            message = f"{self.path} has two newest files of metadata, {' and '.join(sorted(numbered[last])[:2])}"
            raise UserError(message, hint="remove the one that no catalog names: it is left of a commit that failed")
        return [directory / numbered[number][0] for number in sorted(numbered, reverse=True) if number <= last][:2]

    def _last(self, numbered: dict[int, list[str]]) -> int:
        """The number of the newest file. The hint may be out of date: as writers do, this goes on from it to the last
        of the files numbered consecutively."""
        try:
            hint = (self.path / ICEBERG_METADATA / "version-hint.text").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return max(numbered)
        except (OSError, ValueError) as error:
            raise UserError(f"version-hint.text of {self.path} cannot be read: {error}") from None
        named = (number for number, names in numbered.items() for name in names if f"{name}.".startswith(f"{hint}."))
        last = int(hint) if hint.isascii() and hint.isdigit() else next(named, None)
        if last not in numbered or last is None:
            message = f"version-hint.text of {self.path} names {hint or 'nothing'}, and there is no such file"
            raise UserError(message, hint="it holds the number of the newest file of metadata")
        while last + 1 in numbered:
            last += 1
        return last


def must_be_installed() -> None:
    """Raises: EngineError without pyiceberg."""
    try:
        import pyiceberg  # noqa: F401
    except ImportError:
        hint = "pip install pyiceberg"
        raise EngineError("tables of Iceberg are read with pyiceberg, which is not installed", hint) from None


def _entry(file: Path) -> _Entry:
    """The state of a file, which tells it from another one in its place."""
    try:
        status = file.stat()
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    return file, status.st_ino, status.st_size, status.st_mtime_ns


def _text(file: Path) -> str | None:
    """The text of a metadata file; None if it is being written right now.

    Raises: UserError where it cannot be read.
    """
    try:
        written = file.stat().st_mtime
        content = file.read_bytes()
        text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")
        json.loads(text)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        if time.time() - written < WRITING_MAX_SECONDS:
            return None
        raise UserError(f"{file} cannot be read: {error}") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    return text


def _parsed(file: Path, text: str) -> FoundMetadata:
    """Raises: UserError where the text is not the metadata of a table, or of a format that is not read."""
    from pyiceberg.table.metadata import TableMetadataUtil

    said = json.loads(text)
    with translated(f"{file} cannot be read"):
        table = TableMetadataUtil.parse_raw(text)
    # A table of format version 1 need not have an id; pyiceberg then makes one up, another one each time.
    return FoundMetadata(file, str(said.get("table-uuid") or table.location), table)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turns what pyiceberg raises in a block into errors of this package.

    Raises: UserError.
    """
    from pyiceberg.exceptions import ValidationError

    try:
        yield
    except (ValidationError, ValueError, TypeError, KeyError, EOFError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{what}: {', '.join(line.strip() for line in lines[:3])}") from None
