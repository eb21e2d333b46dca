"""Tables of Delta Lake with histories, as `deltalake` writes and reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import strategies as st

from mrql.algebra.values.values import Bag, Record, Value
from tests.support.wild import KINDS

TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "short": pa.int16(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "decimal": pa.decimal128(12, 3),
    "list": pa.list_(pa.string()),
    "struct": pa.struct([("x", pa.int64()), ("y z", pa.list_(pa.int32()))]),
    "plain struct": pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int32()))]),
}
NESTED = ("list", "struct", "plain struct")
"""The names of those types of columns that have parts."""

# Without `__HIVE_DEFAULT_PARTITION__`, which `deltalake` itself takes for a missing value when it rewrites rows.
_TEXTS = ("", " ", "a b", "ü", "a/b=c%", "%41", "+", "*[x]", ":", "null", *KINDS["texts"]["string"])
VALUES: Mapping[str, tuple[Any, ...]] = {
    "string": tuple(str(text) for text in _TEXTS),
    "long": (0, 1, *KINDS["extremes"]["long"]),
    "int": (0, -1, *KINDS["extremes"]["int"]),
    "short": (0, -(2**15)),
    "float": (0.5, np.float32(0.1).item(), -math.inf, 3.4028234663852886e38),
    "double": (0.1, -1.5, 1e30, *KINDS["not finite"]["double"][1:]),
    "bool": (True, False),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)),
    "timestamp": (datetime(1960, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 10, 0, 0, 123, UTC)),
    "local": (datetime(1960, 1, 1), datetime(2024, 1, 1, 10, 0, 0, 123)),
    # `deltalake` cannot read the partitions that it writes for negative ones
    "decimal": (Decimal("0.000"), Decimal("1.500"), Decimal("123456789.125")),
    "list": ([], ["a", None]),
    "struct": ({"x": 1, "y z": [1, None]}, {"x": None, "y z": None}),
    "plain struct": ({"x": 1, "y": [1, None]}, {"x": None, "y": None}),
}

NAMES = ("p", "a b", "Größe", "p.q")

Rows = Sequence[Mapping[str, Any]]


@attrs.frozen
class Shape:
    """A new table: the types of its columns besides `id`, what it is partitioned by, and if it has a change feed."""

    columns: Mapping[str, str]
    partitioned: tuple[str, ...]
    feed: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), *((name, TYPES[t]) for name, t in self.columns.items())])

    def table(self, rows: Rows) -> pa.Table:
        return pa.Table.from_pylist([*rows], self.schema)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Columns of any types; by up to two of them the table is partitioned."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    columns = {name: draw(st.sampled_from([*TYPES])) for name in names}
    atomic = [name for name, t in columns.items() if t not in NESTED]
    partitioned = tuple(atomic[: draw(st.integers(0, 2))])
    return Shape(columns, partitioned, draw(st.booleans()))


@attrs.frozen
class Step:
    """A change of a table: its kind, the rows that it adds, and the ids that it touches."""

    kind: str
    rows: Rows = ()
    ids: tuple[int, ...] = ()


KINDS_OF_STEPS = ("append", "delete", "update", "merge", "overwrite", "optimize", "checkpoint", "column", "restore")


@st.composite
def histories(draw: st.DrawFn, shape: Shape, kinds: Sequence[str] = KINDS_OF_STEPS, most: int = 6) -> list[Step]:
    """An append, and then up to `most` steps."""

    def row() -> Mapping[str, Any]:
        cells = {name: draw(st.none() | st.sampled_from(VALUES[t])) for name, t in shape.columns.items()}
        return {"id": draw(st.integers(0, 5)), **cells}

    steps = [Step("append", [row() for _ in range(draw(st.integers(0, 4)))])]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most)):
        rows = [row() for _ in range(draw(st.integers(0, 3)))]
        steps.append(Step(kind, rows, tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=2, unique=True)))))
    return steps


def create(path: Path, shape: Shape) -> None:
    """An empty table."""
    configuration = {"delta.enableChangeDataFeed": "true"} if shape.feed else {}
    DeltaTable.create(
        str(path), pa.schema(shape.schema), partition_by=[*shape.partitioned], configuration=configuration
    )


def apply(path: Path, shape: Shape, step: Step) -> None:
    """Applies a step to the table."""
    table = DeltaTable(str(path))
    among = f"id IN ({', '.join(map(str, step.ids))})"
    match step.kind:
        case "append":
            write_deltalake(str(path), shape.table(step.rows), mode="append", schema_mode="merge")
        case "overwrite":
            write_deltalake(str(path), shape.table(step.rows), mode="overwrite", schema_mode="merge")
        case "delete":
            table.delete(among)
        case "update":
            table.update(updates={"id": "id + 1"}, predicate=among)
        case "merge":
            once = {row["id"]: row for row in step.rows}
            source = shape.table([*once.values()])
            merged = table.merge(source, "t.id = s.id", "s", "t")
            merged.when_matched_update({"id": "s.id + 10"}).when_not_matched_insert(
                {f"`{name}`": f"s.`{name}`" for name in shape.schema.names}
            ).execute()
        case "optimize":
            table.optimize.compact()
        case "checkpoint":
            table.create_checkpoint()
        case "column":
            more = shape.table(step.rows).append_column("more", pa.array([1.5] * len(step.rows), pa.float64()))
            write_deltalake(str(path), more, mode="append", schema_mode="merge")
        case "restore":
            before = max(0, table.version() - 2)
            if DeltaTable(str(path), before).schema() == table.schema():  # else a column of the stream would be gone
                table.restore(before)


def content(path: Path, version: int | None = None) -> Bag:
    """The rows of a table, as `deltalake` reads them."""
    return bag_of(DeltaTable(str(path), version).to_pyarrow_table().to_pylist())


def bag_of(rows: Iterable[Mapping[str, Any]]) -> Bag:
    """Rows of Arrow as values."""
    return Bag(Record({name: _value(cell) for name, cell in row.items()}) for row in rows)


def _value(cell: Any) -> Value:
    if isinstance(cell, dict):
        return Record({name: _value(part) for name, part in cell.items()})
    if isinstance(cell, list):
        return [_value(part) for part in cell]
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        return cell.astimezone(UTC).replace(tzinfo=None)
    return cell
