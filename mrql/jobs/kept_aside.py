"""Keeps the malformed rows that a job has found."""

from __future__ import annotations

from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.quarantine import Quarantine


def keep_aside(quarantine: Quarantine | None, name: str) -> str | None:
    """Writes the malformed rows that were found, if any, into a directory of this name; returns a message about it."""
    return None if quarantine is None else quarantine.keep(name, DurableFiles().write)
