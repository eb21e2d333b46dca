"""The blocks of a document in `docs/`: a kind, a name where there is one, and the text between the fences."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import attrs

DOCS = Path(__file__).parent.parent.parent / "docs"

Fence = tuple[str, str, str]
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(document: str) -> list[Fence]:
    """The blocks of a document, in order; a missing name is empty."""
    return _FENCE.findall((DOCS / document).read_text(encoding="utf-8"))


@attrs.frozen
class Block:
    """A block of a document, with a kind or without."""

    kind: str
    name: str
    body: str

    @property
    def head(self) -> str:
        """Its first line, which identifies it."""
        return self.body.splitlines()[0]


def blocks(document: str) -> list[Block]:
    """All blocks of a document, by its path from the root."""
    found: list[Block] = []
    within: list[str] | None = None
    kind = name = ""
    for line in (DOCS.parent / document).read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.startswith("```"):
            if within is not None:
                within.append(line)
        elif within is None:
            kind, _, name = line.strip().removeprefix("```").partition(" ")
            within = []
        else:
            found.append(Block(kind, name, "".join(within)))
            within = None
    return found


def run_command(line: str, home: Path, *more: str, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Runs a line of a document in a directory, with the `python` and `mrql` of the tests."""
    program, *words = shlex.split(line)
    known = {"python": [sys.executable], "mrql": [sys.executable, "-m", "mrql"]}
    env = os.environ | {"PYTHONPATH": str(DOCS.parent)}
    command = [*known[program], *words, *more]
    return subprocess.run(command, cwd=home, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True)


def write_files(found: Iterable[Fence], directory: Path) -> None:
    """Writes the blocks that are files: those whose name has an extension."""
    for _, name, body in found:
        if "." in name:
            (directory / name).write_text(body, encoding="utf-8")
