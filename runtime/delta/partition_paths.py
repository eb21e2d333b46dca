"""Files whose partition values are in the log, read as files in directories with these values in their names.

Most files lie in such directories, and are read where they are. Those that do not, as with random prefixes or with
`__HIVE_DEFAULT_PARTITION__` as a value, are read through a symbolic link in such directories, which are removed with
the process. So what holds for partitions of files (`runtime.sources.partitions`) holds for these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote

from mrql.algebra.functions import to_single
from mrql.runtime.sources.partitions import MISSING


def read_as(file: Path, table: Path, values: Mapping[str, str | None]) -> Path | None:
    """A link to a file of a table, if the directories that it lies in do not give its partition values."""
    if _said_by(file, table) == values:
        return None
    return _link(file.absolute(), tuple(values.items()))


def _said_by(file: Path, table: Path) -> Mapping[str, str | None] | None:
    """The partition values that the directories of a file are read as; None if it lies outside the table or is a link,
    or a partition has no name, or one that occurs twice."""
    try:
        inside = file.relative_to(table).parts[:-1]
    except ValueError:
        return None
    if file.is_symlink() or not all("=" in name.lstrip("=") for name in _trailing(inside)):
        return None
    said = [name.partition("=")[::2] for name in _trailing(inside)]
    found = {unquote(name): None if value == MISSING else unquote(value) for name, value in said}
    return found if len(found) == len(said) else None


def _trailing(directories: tuple[str, ...]) -> tuple[str, ...]:
    """The last directories, as far as their names are those of partitions."""
    first = len(directories)
    while first and "=" in directories[first - 1]:
        first -= 1
    return directories[first:]


@cache
def _links() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="mrql-delta-")


@cache
def _link(file: Path, values: tuple[tuple[str, str | None], ...]) -> Path:
    above = Path(_links().name, str(len([*Path(_links().name).iterdir()])))
    directories = [f"{quote(name, safe='')}={MISSING if value is None else _escaped(value)}" for name, value in values]
    link = above.joinpath(*directories, file.name)
    link.parent.mkdir(parents=True)
    link.symlink_to(file)
    return link


def _escaped(value: str) -> str:
    """A value as part of the name of a directory; it is never the text of a missing value.

    >>> _escaped(MISSING)
    '%5F_HIVE_DEFAULT_PARTITION__'
    """
    escaped = quote(value, safe="")
    return f"%5F{escaped[1:]}" if escaped == MISSING else escaped


# --- values as texts ----------------------------------------------------------------------------


def written(value: Any) -> str | None:
    """A value of a partition column as text, as it is read from the name of a directory.

    >>> written(datetime(2024, 1, 2, 3, 4, 5, 60, UTC)), written(Decimal("1E+2")), written(float("-inf"))
    ('2024-01-02 03:04:05.000060', '100', '-Infinity')
    """
    match value:
        case None | "":  # of any type, by the protocol
            return None
        case bool():
            return str(value).lower()
        case float():
            return repr(value) if math.isfinite(value) else "NaN" if value != value else _infinite(value)
        case Decimal():
            return f"{value:f}"
        case datetime():
            utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return utc.isoformat(" ")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _infinite(value: float) -> str:
    return "Infinity" if value > 0 else "-Infinity"


def normal_text(text: str | None, t: str) -> str | None:
    """The normal form of a partition value in the log, whose type has the name `t` in Spark; numbers with a fraction
    have several texts there, and one here.

    >>> normal_text("inf", "double"), normal_text("0.1", "float"), normal_text("", "string")
    ('Infinity', '0.10000000149011612', None)
    """
    if not text or t not in ("double", "float"):
        return text or None
    try:
        number = float(text)
    except ValueError:
        return text  # not of the type: reading the file gives an error that names it
    return written(to_single(number) if t == "float" else number)
