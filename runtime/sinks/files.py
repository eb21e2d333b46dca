"""Answers as part files in a directory, with a file that marks it as complete and as written here."""

from __future__ import annotations

from pathlib import Path

from mrql.runtime.engine.answer import Output, Rows
from mrql.runtime.files.durable import DurableFiles

DONE = "_SUCCESS"
"""The file that marks a directory as complete, which other programs use, too."""
MARK = "written by mrql"
"""The first line of that file; the names of the part files follow."""


def write_output(output: Output, rows: Rows, directory: Path, files: DurableFiles) -> None:
    """Writes an answer to a directory.

    Raises: UserError where a value cannot be written in the format.
    """
    rows.write(output, directory, files)
    parts = sorted(path.name for path in directory.iterdir() if path.name.startswith("part-"))
    files.write(directory / DONE, "".join(f"{line}\n" for line in (MARK, *parts)).encode())


def is_ours(directory: Path) -> bool:
    """Whether a directory is empty, or contains only what `write_output` has written."""
    if not directory.is_dir():
        return False
    there = {path.name for path in directory.iterdir()}
    if not there:
        return True
    try:
        first, *parts = (directory / DONE).read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError):
        return False
    return first == MARK and there <= {DONE, *parts, *(f".{part}.crc" for part in parts)}
