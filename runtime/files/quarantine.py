"""The handling of malformed rows: an error at the first one, or all of them set aside and counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span
from mrql.algebra.values.file_names import as_utf8
from mrql.runtime.files.compression import NOT_UTF8, TO_UTF8, packed_as
from mrql.runtime.files.durable import DurableFiles


@attrs.frozen
class Malformed:
    """A malformed row: its place, what is wrong with it, and its text. A file may be malformed as a whole."""

    file: Path
    line: int | None
    reason: str
    text: str | None = None
    hint: str | None = attrs.field(default=None, eq=False)
    """What may be missing in the description of the source."""

    def error(self) -> UserError:
        """The error for it, with the line as its place."""
        if self.line is None:
            return UserError(f"{self.file} {self.reason}", hint=self.advice)
        shown = (self.text or "").split("\n")[0]
        source = Source(str(self.file), "\n" * (self.line - 1) + shown)
        start = self.line - 1
        return UserError(f"malformed row: {self.reason}", Span(source, start, start + len(shown)), self.advice)

    @property
    def advice(self) -> str | None:
        """The hint for it. A file with a fault in its first line may be compressed."""
        packed = packed_as(self.file) if self.line == 1 else None
        if packed is not None:
            return f"the file is compressed, and read so if its name ends in {packed}"
        return TO_UTF8 if self.reason.startswith(NOT_UTF8) else self.hint


Reject: TypeAlias = Callable[[Malformed], None]
"""What a reader calls with a malformed row; it goes on with the next one if this returns."""


def fail(row: Malformed) -> NoReturn:
    """Ends the reading at the first malformed row.

    Raises: UserError, always.
    """
    raise row.error()


def pass_over(row: Malformed) -> None:
    """Ignores a malformed row."""


@attrs.define
class Quarantine:
    """A directory of malformed rows, as one JSON object per line, with file, line, reason and text."""

    directory: Path
    waiting: dict[tuple[Path, int | None, str], Malformed] = attrs.Factory(dict)
    """The rows found since the last `keep`; each once, however often its file was read."""

    @staticmethod
    def new(directory: Path, *, going_on: bool = False) -> Quarantine:
        """An empty quarantine, or one that continues that of an earlier run (`going_on`).

        Raises: UserError where the directory is not empty, unless `going_on`.
        """
        if not going_on and directory.exists() and any(not p.name.startswith(".") for p in directory.iterdir()):
            raise UserError(f"{directory} is not empty", hint="name another --quarantine, or empty it")
        DurableFiles().make_directory(directory)
        return Quarantine(directory)

    def reject(self, row: Malformed) -> None:
        self.waiting[row.file, row.line, row.reason] = row

    def keep(self, name: str, write: Callable[[Path, bytes], object] = Path.write_bytes) -> str | None:
        """Writes the rows found to a directory of this name, which appears as a whole; returns a one-line message."""
        prepared = self.prepare(name, write=write)
        if prepared is None:
            return None
        hidden, final, said = prepared
        hidden.rename(final)
        return said

    def pass_over_known(self) -> None:
        """Drops the waiting rows that the directory already has, whatever was wrong with them: their files were read
        once more.

        Raises: UserError where a file in the directory is damaged.
        """
        if not self.waiting:
            return
        known = set()
        for file in self.directory.glob("*/malformed.json"):
            known |= _known(file)
        for key in [key for key in self.waiting if key[:2] in known]:
            del self.waiting[key]

    def hidden(self) -> list[Path]:
        """The prepared directories that did not get their final names."""
        return [path for name in (".batch-*", ".tables-*") for path in self.directory.glob(name)]

    def prepare(
        self, name: str, suffix: str = "", write: Callable[[Path, bytes], object] = Path.write_bytes
    ) -> tuple[Path, Path, str] | None:
        """Writes the rows found to a hidden directory.

        Returns its path, the path to rename it to, and the message for when that is done; None if there are no rows.
        """
        if not self.waiting:
            return None
        rows = list(self.waiting.values())
        hidden, final = self.directory / f".{name}{suffix}", self.directory / name
        hidden.mkdir(exist_ok=True)
        write(hidden / "malformed.json", as_utf8(as_lines(rows)))
        self.waiting.clear()
        said = f"{len(rows):,} malformed row{'' if len(rows) == 1 else 's'} kept aside in {final}"
        return hidden, final, said


def _known(file: Path) -> set[tuple[Path, int | None]]:
    """The places of the malformed rows listed in a file: their files and lines."""
    try:
        rows = map(json.loads, filter(None, file.read_text(encoding="utf-8").split("\n")))
        return {(Path(row["file"]), row["line"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        hint = "put back a copy of it, or remove it: its rows are then kept once more"
        raise UserError(
            f"{file} is damaged: it does not have the lines that malformed rows are kept in", None, hint
        ) from None


def as_lines(rows: Iterable[Malformed]) -> str:
    """Rows as lines of JSON."""
    wholes = ({"file": str(row.file), "line": row.line, "reason": row.reason, "text": row.text} for row in rows)
    return "".join(json.dumps(whole, ensure_ascii=False) + "\n" for whole in wholes)
