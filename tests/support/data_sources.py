"""Python data sources of Spark for tests: numbers in the lines of a file. An offset is a number of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType


class Range(InputPartition):
    """A range of lines."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class Reader(DataSourceStreamReader):
    """Reads a file in two partitions, in which named rows and tuples alternate."""

    def __init__(self, options: Any) -> None:
        self.file, self.most = Path(options["path"]), options.get("rows")

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def initialOffset(self) -> dict[str, int]:
        return {"line": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self.most is None else ReadMaxRows(int(self.most))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        there = len(self.lines())
        return {"line": min(there, start["line"] + limit.max_rows) if isinstance(limit, ReadMaxRows) else there}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        middle = (start["line"] + end["line"]) // 2
        return [Range(start["line"], middle), Range(middle, end["line"])]

    def read(self, partition: Range) -> Iterator[tuple[Any, ...]]:  # type: ignore[override]
        found = self.lines()[partition.start : partition.end]
        yield from ((int(line),) if i % 2 else Row(n=int(line)) for i, line in enumerate(found))


class Lines(DataSource):
    """The source with the reader `Reader`."""

    @classmethod
    def name(cls) -> str:
        return "lines"

    def schema(self) -> str:
        return "n long"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        assert schema.fieldNames() == ["n"]
        return Reader(self.options)


class Committing(Reader):
    """Notes the committed offsets, before which a source may forget lines, in a file beside the one with the lines."""

    def commit(self, end: dict[str, int]) -> None:
        with self.file.with_suffix(".committed").open("a") as out:
            out.write(f"{end['line']}\n")


class Targeted(Reader, SupportsTriggerAvailableNow):
    """Reads a line at a time, up to the last one that was there at `prepareForTriggerAvailableNow`."""

    target: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = len(self.lines())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        there = len(self.lines()) if self.target is None else self.target
        return {"line": min(there, start["line"] + 1)}


class Older(Reader):
    """A reader with the interface of Spark before 4.2, which begins in the middle, and gives batches of Arrow."""

    def initialOffset(self) -> dict[str, int]:
        return {"line": 2}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        return {"line": max(2, len(self.lines()))}

    def read(self, partition: Range) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        yield pa.RecordBatch.from_pydict({"n": [int(n) for n in self.lines()[partition.start : partition.end]]})


class SimpleReader(SimpleDataSourceStreamReader):
    """Reads the new lines, or the first ones of them."""

    def __init__(self, schema: StructType, options: Any) -> None:
        self.file, self.most = Path(options["path"]), int(options.get("rows", 1_000_000))

    def initialOffset(self) -> dict[str, int]:
        return {"line": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        there = len(self.file.read_text().splitlines()) if self.file.exists() else 0
        end = {"line": min(there, start["line"] + self.most)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        found = self.file.read_text().splitlines() if self.file.exists() else []
        return ((int(line),) for line in found[start["line"] : end["line"]])


class SimpleLines(Lines):
    """The source with the reader `SimpleReader`."""

    streamReader = DataSource.streamReader

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return SimpleReader(schema, self.options)


class Stuck(SimpleReader):
    """Has rows, but its offset does not advance."""

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(1,)]), start


class Wide(Reader):
    """Has rows with one column too many."""

    def read(self, partition: Range) -> Iterator[tuple[Any, ...]]:  # type: ignore[override]
        yield 1, 2


class Demanding(Reader):
    """Needs other arguments than a reader is given."""

    def __init__(self, options: Any, schema: StructType, what: str) -> None:
        super().__init__(options)
