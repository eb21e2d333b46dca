"""Answers as part files in a directory, which says that it is complete, and whose it is."""

from __future__ import annotations

from pathlib import Path

from mrql.runtime.engine.answer import Output, Rows
from mrql.runtime.files.durable import DurableFiles

DONE = "_SUCCESS"
"""This is in a directory whose files are all there, as other programs have it."""
MARK = "written by mrql"
"""What it begins with here; the names of the files follow."""


def write_output(output: Output, rows: Rows, directory: Path, files: DurableFiles) -> None:
    """Writes an answer to a directory.

    Raises: UserError where a value has no form in the file.
    """
    rows.write(output, directory, files)
    parts = sorted(path.name for path in directory.iterdir() if path.name.startswith("part-"))
    files.write(directory / DONE, "".join(f"{line}\n" for line in (MARK, *parts)).encode())


def is_ours(directory: Path) -> bool:
    """Whether a directory holds what was written here and nothing else, or nothing at all."""
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
