"""What there is to say of a format of files without Spark: how it is read, counted, looked at and written.

A format is one object of this class, in the file of its name, and a line of the table in `formats.py`; what Spark does
with its files is in the file of the same name in `runtime/spark/io`.
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
    """The first column that is none of the rows, which is wrong where there are to be none (`no_new_columns`)."""
    return next((name for name in names if name not in known), None)


def nothing_wrong(spec: SourceSpec, file: Path) -> Malformed | None:
    """Of a format in which only rows can be malformed."""
    return None


def count_lines(spec: SourceSpec, file: Path) -> int:
    """The number of rows where each is a line, and lines of blanks are none."""
    with opened(file) as stream:
        return sum(1 for line in stream if line.strip())


@attrs.frozen(kw_only=True)
class FileFormat(AnswerFormat):
    """A format of files."""

    read: Callable[[SourceSpec, Path, Reject], Iterator[tuple[Value, int]]] = attrs.field(eq=False, repr=False)
    """The rows of a file, each with its weight: −1 where it takes one away, else 1. Malformed ones are rejected."""
    count: Callable[[SourceSpec, Path], int] = attrs.field(eq=False, repr=False)
    """The number of rows in a file; a file that is malformed as a whole counts as one."""
    check: Callable[[SourceSpec, Path], Malformed | None] = attrs.field(default=nothing_wrong, eq=False, repr=False)
    """What is wrong with a file as a whole, if anything is."""
    infer: Callable[[SourceSpec, Sequence[Path]], Type | None] | None = attrs.field(default=None, eq=False, repr=False)
    """The type of the rows of some files, by their first rows or the columns of all, None where there are none; no such
    function for a format whose rows always have a type that is known. Raises UserError where they are of none."""
    widen: Callable[[SourceSpec, Type, Iterable[Path]], Type] | None = attrs.field(default=None, eq=False, repr=False)
    """A type that was found, as wide as the rows of some files ask for, where values or columns have types of their
    own."""


def once(
    read: Callable[[SourceSpec, Path, Reject], Iterator[Value]],
) -> Callable[[SourceSpec, Path, Reject], Iterator[tuple[Value, int]]]:
    """What reads rows, none of which takes one away."""

    def weighted(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
        return ((row, 1) for row in read(spec, file, reject))

    return weighted


def file_format(format: Format) -> FileFormat:
    """The format of a source that is files, or of a sink."""
    assert isinstance(format, FileFormat), f"{format} has no files"
    return format
