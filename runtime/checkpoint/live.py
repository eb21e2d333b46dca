"""What a commit asks of the states of an engine, whichever it is."""

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
        """What has to be known to read it again."""

    @property
    def rows(self) -> int:
        """How many rows it has, about."""

    @property
    def changed(self) -> bool:
        """Whether it has changed since the last commit."""

    @property
    def has_change(self) -> bool:
        """Whether its change can be written by itself."""

    def write(self, directory: Path, files: DurableFiles, *, whole: bool) -> dict[str, int]:
        """Writes all of it, or its change, into a new directory; says how many rows each file has."""

    def committed(self, *, small: bool) -> None:
        """Notes that what it holds is committed. The next change of a `small` one will not be asked for by itself."""


@attrs.frozen
class LiveState:
    """The state of a stage, or the rows of a stream that can lose some."""

    name: str
    form: Mapping[str, Any]
    tables: Mapping[str, LiveTable]
