"""Files of the change data feed of a table: Parquet with a column that says whether a row was inserted or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Records, SourceSpec
from mrql.algebra.values.values import Record, Value
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.columnar import check_columns, count_columnar, read_columnar
from mrql.runtime.sources.formats.file_format import FileFormat
from mrql.runtime.sources.formats.parquet import IN_ARROW

CHANGE_TYPE = "_change_type"
WEIGHTS = {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1}
"""The values of that column, with the weights of their rows."""


def with_change_type(spec: SourceSpec) -> SourceSpec:
    """The same source, with that column as the last one of its rows."""
    assert isinstance(spec.row, ty.RecordType)
    return attrs.evolve(spec, row=ty.RecordType((*spec.row.fields, (CHANGE_TYPE, ty.STRING))))


def read_change_feed(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[tuple[Value, int]]:
    """The rows of a file, each with its weight."""
    fault = check_change_feed(spec, file)
    if fault is not None:
        reject(fault)
        return
    assert isinstance(spec.row, ty.RecordType)
    for row in read_columnar(IN_ARROW, with_change_type(spec), file, reject):
        assert isinstance(row, Record)
        weight = WEIGHTS.get(row[CHANGE_TYPE])
        if weight is None:
            reject(Malformed(file, None, f"has a row whose {CHANGE_TYPE} is {row[CHANGE_TYPE]!r}"))
        else:
            yield Record({name: row[name] for name in spec.row.names}), weight


def check_change_feed(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file, if anything. It may lack newer columns, but not that one."""
    only = attrs.evolve(spec, row=ty.RecordType(((CHANGE_TYPE, ty.STRING),)), missing_columns=False)
    return check_columns(IN_ARROW, only, file) or check_columns(IN_ARROW, spec, file)


def count_change_feed(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file."""
    return 1 if check_change_feed(spec, file) is not None else count_columnar(IN_ARROW, file)


CHANGE_FEED = FileFormat(
    "change feed", Records(typed=True), read=read_change_feed, check=check_change_feed, count=count_change_feed
)
"""It is never named in a query: the log of a table says which of its files are in it."""
