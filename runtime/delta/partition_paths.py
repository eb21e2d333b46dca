"""Files whose partition columns the log has: read as what lies in directories that say the same.

Mostly they lie in such directories, and are read as they are. Where they do not, as with prefixes that are random or
with `__HIVE_DEFAULT_PARTITION__` as a value, they are read through a symbolic link in others, which go with the
process.
So what is true of partitions of files (`runtime.sources.partitions`) is true of these.
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
    """A link to a file of a table, if the directories that it lies in do not say what its partition columns are."""
    if _said_by(file, table) == values:
        return None
    return _link(file.absolute(), tuple(values.items()))


def _said_by(file: Path, table: Path) -> Mapping[str, str | None] | None:
    """What the directories of a file are taken to say; None where it lies elsewhere, or a name is there twice."""
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
    """The last directories that are called like partitions."""
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
    """A value as the name of a directory, whatever it is.

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
        case None | "":  # of any type, as the protocol has it
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
    """A value of a partition column as the log has it, of a type that Spark calls so; numbers with a fraction have
    several texts there, and one here.

    >>> normal_text("inf", "double"), normal_text("0.1", "float"), normal_text("", "string")
    ('Infinity', '0.10000000149011612', None)
    """
    if not text or t not in ("double", "float"):
        return text or None
    try:
        number = float(text)
    except ValueError:
        return text  # none of the type: an error that names the file, when it is read
    return written(to_single(number) if t == "float" else number)
