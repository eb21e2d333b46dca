"""The malformed rows that a job has found, kept aside."""

from __future__ import annotations

from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.quarantine import Quarantine


def keep_aside(quarantine: Quarantine | None, name: str) -> str | None:
    """Writes the malformed rows that were found, if any, into a directory of this name; says so in one line."""
    return None if quarantine is None else quarantine.keep(name, DurableFiles().write)
