"""What the site has otherwise than the files: the README is a page; what is not in `docs/` is named, not linked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_OUTSIDE = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+)([^)#\s]+)(#[^)\s]*)?\)")
"""A link that goes up: its text, how far, and to what."""
_NAMED_BLOCK = re.compile(r"^```(\w+) (\S.*)$", re.MULTILINE)
"""The head of a block that has a name behind its kind, such as that of the file that it is."""


def on_files(files: Any, config: Any) -> Any:
    """Adds the README as the first page; its links begin at the root."""
    from mkdocs.structure.files import File

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=_at_root(text)))
    return files


def _at_root(text: str) -> str:
    """The README as if it lay in `docs/`."""
    return re.sub(r"\[([^\]\n]+)\]\((?!docs/|https?:|#)[^)]+\)", r"\1", text).replace("](docs/", "](")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Puts the name of a file that is no part of the site in the place of a link to it, and that of a block over it."""
    here = Path(page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        up = link[2].count("../")
        if up <= len(here.parts):
            return link[0]
        text, path = link[1], link[3]
        return text if path in text else f"{text} (`{path}`)"

    return _OUTSIDE.sub(named, _NAMED_BLOCK.sub(r'```\1 title="\2"', markdown))
