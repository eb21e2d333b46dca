"""The states of an engine, of any kind, as a commit sees them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs

from mrql.runtime.files.durable import DurableFiles


class LiveTable(Protocol):
    """A table of a running view."""

    @property
    def form(self) -> Mapping[str, Any]:
        """What is needed to read it again."""

    @property
    def rows(self) -> int:
        """The approximate number of its rows."""

    @property
    def changed(self) -> bool:
        """Whether it has changed since the last commit."""

    @property
    def has_change(self) -> bool:
        """Whether its change can be written by itself."""

    def write(self, directory: Path, files: DurableFiles, *, whole: bool) -> dict[str, int]:
        """Writes all of it, or its change, into a new directory; returns the number of rows of each file."""

    def committed(self, *, small: bool) -> None:
        """Notes that its contents are committed. The next change of a `small` table will not be written by itself."""


@attrs.frozen
class LiveState:
    """The state of a stage, or the kept rows of a stream."""

    name: str
    form: Mapping[str, Any]
    tables: Mapping[str, LiveTable]
