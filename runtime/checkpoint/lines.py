"""Tables as lines of JSON, `[key, value]`, or `[key]` for a deleted key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from mrql.runtime.checkpoint.manifest import SavedTable, read_written
from mrql.runtime.files.durable import DurableFiles

Lines: TypeAlias = dict[str, str]
"""A table as text: the texts of the values by those of the keys."""


FILE = "part-00000.jsonl"


def read_lines(table: SavedTable, root: Path) -> Lines:
    """The contents of a table, from all of its runs.

    Raises: UserError at a file that is not what was written.
    """
    lines: Lines = {}
    for run in table.runs:
        for file in run.files:
            _read_into(lines, read_written(root / run.path / file.name, file))
    return lines


def _read_into(lines: Lines, data: bytes) -> None:
    for line in data.split(b"\n"):
        if not line:
            continue
        key, *value = json.loads(line)
        if value:
            lines[text(key)] = text(value[0])
        else:
            lines.pop(text(key), None)


def write_lines(lines: Lines, directory: Path, files: DurableFiles) -> dict[str, int]:
    """Writes a table as one run."""
    return TextTable(lines, None, lambda _: None).write(directory, files, whole=True)


def text(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


@attrs.define
class TextTable:
    """A table of a running view, with its contents as last committed."""

    now: Lines
    before: Lines | None
    keep: Callable[[Lines], None]

    @property
    def form(self) -> Mapping[str, Any]:
        return {}

    @property
    def rows(self) -> int:
        return len(self.now)

    @property
    def changed(self) -> bool:
        return self.now != self.before

    @property
    def has_change(self) -> bool:
        return self.before is not None

    def write(self, directory: Path, files: DurableFiles, *, whole: bool) -> dict[str, int]:
        before: Lines = {} if whole or self.before is None else self.before
        lines = [f"[{key},{value}]" for key, value in self.now.items() if before.get(key) != value]
        lines += [f"[{key}]" for key in before if key not in self.now]
        files.make_directory(directory)
        files.write(directory / FILE, "".join(f"{line}\n" for line in lines).encode())
        return {FILE: len(lines)}

    def committed(self, *, small: bool) -> None:
        self.keep(self.now)
