"""The blocks of a document in `docs/`: a kind, a name where there is one, and the text between the fences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs"

Fence = tuple[str, str, str]
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(document: str) -> list[Fence]:
    """The blocks of a document, in order; the name of one without is empty."""
    return _FENCE.findall((DOCS / document).read_text(encoding="utf-8"))


def write_files(found: Iterable[Fence], directory: Path) -> None:
    """Writes the blocks that are files: those whose name has an ending."""
    for _, name, body in found:
        if "." in name:
            (directory / name).write_text(body, encoding="utf-8")
