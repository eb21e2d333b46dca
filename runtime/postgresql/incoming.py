"""The files with the rows of a batch that a server has sent, until the batch is committed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from urllib.parse import quote

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.sources.rows_file import INCOMING


class Incoming:
    """The directory of a stream for such files: one in its checkpoint, or a temporary one."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.number = 0
        """The number of files named so far."""
        self.temporary: tempfile.TemporaryDirectory[str] | None = None

    def file(self, what: str) -> Path:
        """The path of a new file, in a directory that is emptied before the first one."""
        directory = self._directory()
        self.number += 1
        return directory / f"{what}-{self.number:06d}.parquet"

    def _directory(self) -> Path:
        checkpoint = self.spec.checkpoint
        if checkpoint is None:
            self.temporary = self.temporary or tempfile.TemporaryDirectory(prefix="mrql-")
            return Path(self.temporary.name)
        directory = checkpoint / INCOMING / quote(self.spec.name, safe="")
        if self.number == 0:
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def close(self) -> None:
        if self.temporary is not None:
            self.temporary.cleanup()
