"""How Spark reads and writes the files of a format: the rows, and which of them are malformed.

A row is malformed where the reference reader finds it so (`runtime.sources.formats`). Besides its definition there, a
format is a `SparkFormat`, in the module of its name, and an entry of the table in `formats.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.engine.answer import Output

FAULT = "raise_error('[MALFORMED_ROW]')"
FILE = "_metadata.file_path AS mrql_file"
ONCE = "monotonically_increasing_id() AS mrql_number"
"""A column that Spark may not compute twice: it pushes no filter below it, which would parse the row again. The column
has to be used."""


@attrs.frozen
class ParsedRows:
    """The rows of some files as columns, with a condition for those that are malformed.

    The columns are called `_1`, `_2`, … or `value`, not after the fields: there are internal columns beside them.

    With `apart`, malformed rows are left out, else reading one is an error. Where rows may be set aside, the column
    `mrql_file` of `df` is the file of a row.
    """

    df: DataFrame
    columns: Sequence[str]
    fault: str | None = None
    apart: bool = False

    def kept(self) -> DataFrame:
        """The rows that are not malformed."""
        if self.fault is None:
            return self.df.selectExpr(*self.columns)
        condition = f"NOT ({self.fault})" if self.apart else f"if({self.fault}, {FAULT}, true)"
        return self.df.where(condition).selectExpr(*self.columns)

    @property
    def malformed(self) -> DataFrame | None:
        """The file of each malformed row, if there can be any."""
        if self.fault is None:
            return None
        return self.df.where(self.fault).selectExpr("mrql_file AS file")


Reader: TypeAlias = Callable[[SparkSession, SourceSpec, list[str], bool], ParsedRows]
"""Reads the rows of some files; the last argument is `ParsedRows.apart`."""

Writer: TypeAlias = Callable[[DataFrame, Output, str], None]
"""Writes the rows of an answer to a path, as the same lines as the reference engine. What an earlier attempt has left
there is replaced."""


def as_it_is(spec: SourceSpec, file: Path) -> SourceSpec:
    """`SparkFormat.resolved` of formats whose files do not say how they are read."""
    return spec


def all_together(spec: SourceSpec, files: Sequence[Path]) -> list[Sequence[Path]]:
    """`SparkFormat.apart` of formats whose files are all read in one way."""
    return [files]


@attrs.frozen(kw_only=True)
class SparkFormat:
    """A format of files."""

    read: Reader
    columns: Callable[[SourceSpec], list[str] | None]
    """The columns that the rows of a source are read into; None where they depend on the files."""
    resolved: Callable[[SourceSpec, Path], SourceSpec] = as_it_is
    """How a well-formed file is read, where the file itself says so. Raises UserError where it is not well formed."""
    apart: Callable[[SourceSpec, Sequence[Path]], Sequence[Sequence[Path]]] = all_together
    """Groups of well-formed files that Spark can read at once. It is asked where columns in their paths are needed: a
    union of what is read has no path."""
    write: Writer | None = None
    """None for a format in which no answers are written."""
