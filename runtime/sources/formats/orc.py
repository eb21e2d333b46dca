"""ORC: files that know the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mrql.runtime.sources.formats.columnar import ArrowReader, Opened, columnar_format

if TYPE_CHECKING:
    import pyarrow as pa


def _schema(file: Opened) -> pa.Schema:
    from pyarrow import orc

    return orc.ORCFile(file).schema


def _batches(file: Opened, columns: list[str]) -> Iterator[Any]:
    from pyarrow import orc

    opened = orc.ORCFile(file)
    return (opened.read_stripe(n, columns=columns) for n in range(opened.nstripes))


def _rows(file: Opened) -> int:
    from pyarrow import orc

    return int(orc.ORCFile(file).nrows)


IN_ARROW = ArrowReader("an ORC", _schema, _batches, _rows)
ORC = columnar_format("orc", IN_ARROW)
