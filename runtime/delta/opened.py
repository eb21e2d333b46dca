"""Opening a table of Delta Lake with `deltalake`, whose errors become errors of this package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mrql.algebra.errors import EngineError, UserError
from mrql.runtime.sources.files import DELTA_LOG

if TYPE_CHECKING:
    from deltalake import DeltaTable


_IN_NO_PATH = re.compile(r"[\[\]|\\^\x00-\x1f\x7f\udc80-\udcff]|%[0-9A-Fa-f]{2}")


def must_be_named_plainly(path: Path) -> None:
    """Raises: UserError for a path that deltalake cannot take: it would end the process, or look elsewhere."""
    found = _IN_NO_PATH.search(str(path.absolute()))
    if found is not None:
        message = f"deltalake has no table in a directory with {found[0]!r} in its path: {path}"
        raise UserError(message, hint="call it otherwise")


def must_be_installed() -> None:
    """Raises: EngineError without deltalake."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        hint = "pip install deltalake"
        raise EngineError("tables of Delta Lake are read with deltalake, which is not installed", hint) from None


def opened(path: Path, version: int | None = None) -> DeltaTable:
    """The table in a directory, at a version or at the newest one.

    Raises: UserError where there is none, or its log does not have the version any more; EngineError without deltalake.
    """
    must_be_installed()
    must_be_named_plainly(path)
    from deltalake import DeltaTable

    if not (path / DELTA_LOG).is_dir():
        raise UserError(f"there is no Delta table in {path}", hint=f"it would have a directory {DELTA_LOG}")
    try:
        with translated(path, "" if version is None else f" at version {version}"):
            return DeltaTable(path.absolute(), version)
    except UserError:
        if version is not None and version > (newest := opened(path).version()):
            message = f"the Delta table {path} has no version {version}: its newest one is {newest}"
            raise UserError(message) from None
        raise


@contextmanager
def translated(path: Path, where: str = "", *, done: str = "read") -> Iterator[None]:
    """Turns what deltalake raises in a block into errors of this package.

    Raises: UserError.
    """
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"the Delta table {path}{where} cannot be {done}: {lines[0]}") from None
