"""Generated partitioned tables, and their rows, for the tests of both engines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyarrow import orc

from mrql.algebra.values.decimals import EXACT
from mrql.algebra.values.values import Bag, Record, Value

TEXTS = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]) | st.sampled_from(":%=+ *?[]{}\\é\n\"'#"),
    min_size=1,
    max_size=12,
)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(allow_nan=False, width=32),
    "string": TEXTS,
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "bool": st.booleans(),
    "decimal(12, 2)": st.integers(1 - 10**12, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-2, EXACT)),
    "decimal(38, 10)": st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-10, EXACT)),
}
"""The values that a partition may have, by type."""


def escaped(text: str, *, all_of_it: bool = False) -> str:
    """A text with the escapes of Hive, or with each byte escaped."""
    if all_of_it:
        return "".join(f"%{byte:02X}" for byte in text.encode())
    special = "\"#%'*/:=?\\{[]^" + "".join(map(chr, range(32))) + "\x7f"
    return "".join(f"%{ord(c):02X}" if c in special else c for c in text)


def written(value: Value, *, all_of_it: bool = False) -> str:
    """A value as it is written in the name of a partition."""
    match value:
        case None:
            return "__HIVE_DEFAULT_PARTITION__"
        case bool():
            return str(value).lower()
        case float() if value in (math.inf, -math.inf):
            return "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return escaped(f"{value:f}", all_of_it=all_of_it)
        case _:
            return escaped(str(value), all_of_it=all_of_it)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[tuple[tuple[Value, ...], bool, list[int]]]]:
    """The columns of the path, each with its type; and the files, each with its values of these, whether they are
    written in escapes only, and its rows."""
    names = draw(st.lists(st.sampled_from(["dt", "hour", "N", "true_or"]), min_size=1, max_size=3, unique=True))
    columns = [(name, draw(st.sampled_from([*VALUES]))) for name in names]
    one = st.tuples(*(st.none() | VALUES[t] for _, t in columns))
    files = st.tuples(one, st.booleans(), st.lists(st.integers(0, 9), min_size=1, max_size=3))
    return columns, draw(st.lists(files, min_size=1, max_size=4))


def _csv(file: Path, rows: list[int]) -> None:
    file.write_text("".join(f"{row}\n" for row in rows))


def _header(file: Path, rows: list[int]) -> None:
    file.write_text("dt,x\n" + "".join(f"other,{row}\n" for row in rows))


def _json(file: Path, rows: list[int]) -> None:
    file.write_text("".join(json.dumps({"x": row, "dt": "other"}) + "\n" for row in rows))


def _parquet(file: Path, rows: list[int]) -> None:
    pq.write_table(pa.table({"x": pa.array(rows, pa.int64()), "dt": pa.array(["other"] * len(rows))}), file)


def _orc(file: Path, rows: list[int]) -> None:
    orc.write_table(pa.table({"x": pa.array(rows, pa.int64())}), file)


WRITERS: Mapping[str, tuple[str, str, Callable[[Path, list[int]], None]]] = {
    "csv": ('csv, "d", ","', "", _csv),
    "csv with a header": ('csv, "d", ","', ", header", _header),
    "json": ('json, "d"', "", _json),
    "parquet": ('parquet, "d"', "", _parquet),
    "orc": ('orc, "d"', "", _orc),
}


def table(
    home: Path,
    columns: list[tuple[str, str]],
    files: list[tuple[tuple[Value, ...], bool, list[int]]],
    format: str,
) -> tuple[str, Bag]:
    """Writes a table into the directory `d`. Returns the arguments of a source for it, and its rows."""
    source, options, write = WRITERS[format]
    rows = []
    for number, (values, all_of_it, xs) in enumerate(files):
        parts = (
            f"{escaped(name)}={written(value, all_of_it=all_of_it)}"
            for (name, _), value in zip(columns, values, strict=True)
        )
        directory = Path(home, "d", *parts)
        directory.mkdir(parents=True, exist_ok=True)
        write(directory / f"part-{number}", xs)
        held = {name: value for (name, _), value in zip(columns, values, strict=True)}
        rows += [Record({**dict(list(held.items())[:1]), "x": x, **dict(list(held.items())[1:])}) for x in xs]
    named = [f"{name}: {t}" for name, t in columns]
    return f"{source}, type(<{', '.join([named[0], 'x: long', *named[1:]])}>){options}", Bag(rows)
