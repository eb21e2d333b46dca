"""ORC: files with typed columns.

Its timestamps have nanoseconds, and are read to the microsecond, as by Spark. Arrow supports those of the years 1678 to
2261.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import orc

from mrql.runtime.sources.formats import nanoseconds
from mrql.runtime.sources.formats.columnar import ArrowReader, Opened, columnar_format


def _orc_schema(file: Opened) -> pa.Schema:
    return nanoseconds.as_microseconds(orc.ORCFile(file).schema)


def _batches(file: Opened, columns: list[str]) -> Iterator[Any]:
    opened = orc.ORCFile(file)
    return (nanoseconds.as_numbers(opened.read_stripe(n, columns=columns)) for n in range(opened.nstripes))


def _rows(file: Opened) -> int:
    return int(orc.ORCFile(file).nrows)


IN_ARROW = ArrowReader("an ORC", _orc_schema, _batches, _rows)
ORC = columnar_format("orc", IN_ARROW)
