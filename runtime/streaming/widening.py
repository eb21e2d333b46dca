"""Streams whose row type was inferred from their first rows, and later rows that do not fit it.

A number with a fraction where all were integers, or an additional field or column, is not malformed: the type is wider
than inferred. The query is typed again, and the states that depend on the stream are rebuilt from what has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.checkpoint.restore import FoundRows, found_in
from mrql.runtime.sources.arrived import Batch, files_of
from mrql.runtime.sources.files import list_files
from mrql.runtime.sources.formats.file_format import file_format
from mrql.runtime.sources.partitions import widened_row


class Wider(Exception):
    """Rows are of a wider type than the one inferred."""

    def __init__(self, rows: FoundRows) -> None:
        super().__init__(", ".join(found.place for found in rows))
        self.rows = rows


def must_fit(specs: Mapping[str, SourceSpec], batch: Batch) -> None:
    """Checks the rows of a batch, or the columns of its files, against inferred row types, in formats in which a type
    can be widened.

    Raises: Wider where they do not fit, with a type that also holds all files that wait.
    """
    rows = {}
    for name, parts in batch.items():
        spec = specs[name]
        if (
            not spec.found
            or spec.adapter is not None
            or file_format(spec.format).widen is None
            or widened_row(spec, spec.row, new := [part.read_from for part in files_of(parts)]) == spec.row
        ):
            continue
        waiting = [file for part, _ in spec.directories for file in list_files(part)]
        rows[found_in(spec)] = widened_row(spec, spec.row, [*new, *waiting])
    if rows:
        raise Wider(rows)
