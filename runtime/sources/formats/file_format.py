"""The definition of a file format without Spark: how files are read, counted, checked and written.

A format is one `FileFormat`, in the module of its name, and a line of the table in `formats.py`; what Spark does with
its files is in the module of the same name in `runtime/spark/io`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.runtime.engine.answer import AnswerFormat
from mrql.runtime.files.compression import opened
from mrql.runtime.files.quarantine import Malformed, Reject

MAY_LACK = "with `allowMissingColumns` its values are missing there"
"""The hint for a column that a file does not have."""
IS_NEW = "without `failOnNewColumns` it is not read, or becomes one of the rows where no type is given"
"""The hint for a column that the rows do not have."""


def first_new(names: Iterable[str], known: Collection[str]) -> str | None:
    """The first column that the rows do not have, which is an error with `no_new_columns`."""
    return next((name for name in names if name not in known), None)


def nothing_wrong(spec: SourceSpec, file: Path) -> Malformed | None:
    """The check of a format in which only rows can be malformed."""
    return None


def count_lines(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a format in which each line is a row, except blank lines."""
    with opened(file) as stream:
        return sum(1 for line in stream if line.strip())


@attrs.frozen(kw_only=True)
class FileFormat(AnswerFormat):
    """A format of files."""

    read: Callable[[SourceSpec, Path, Reject], Iterator[tuple[Value, int]]] = attrs.field(eq=False, repr=False)
    """The rows of a file, each with its weight: −1 for a deletion, else 1. Malformed rows are rejected."""
    count: Callable[[SourceSpec, Path], int] = attrs.field(eq=False, repr=False)
    """The number of rows in a file; a file that is malformed as a whole counts as one."""
    check: Callable[[SourceSpec, Path], Malformed | None] = attrs.field(default=nothing_wrong, eq=False, repr=False)
    """What is wrong with a file as a whole, if anything."""
    infer: Callable[[SourceSpec, Sequence[Path]], Type | None] | None = attrs.field(default=None, eq=False, repr=False)
    """The type of the rows of some files, found in their first rows or the columns of all, or None if there are none; a
    format whose rows always have a known type has no such function. Raises UserError where they have no type."""
    widen: Callable[[SourceSpec, Type, Iterable[Path]], Type] | None = attrs.field(default=None, eq=False, repr=False)
    """A type that was found, widened to hold the rows of some files, for a format whose values or columns have types of
    their own."""


def once(
    read: Callable[[SourceSpec, Path, Reject], Iterator[Value]],
) -> Callable[[SourceSpec, Path, Reject], Iterator[tuple[Value, int]]]:
    """The `read` of a format without deletions, made from a function that reads rows without weights."""

    def weighted(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
        return ((row, 1) for row in read(spec, file, reject))

    return weighted


def file_format(format: Format) -> FileFormat:
    """The file format of a source that is files, or of a sink."""
    assert isinstance(format, FileFormat), f"{format} has no files"
    return format
