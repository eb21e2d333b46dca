"""Changes in envelopes: the rows that they insert and delete, and which are malformed; in both engines."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Value, canonical
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import Malformed, Quarantine
from mrql.runtime.sources.files import read_changes
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import to_sql
from mrql.runtime.spark.io.readers import read

ROW = "type(<id: long, city: string>)"
KEYED = "type(<id: long, city: string, __lsn: long, __ts_ms: long>)"
WITH_KEY = f"{KEYED}, key(id), version(__lsn)"
FEED = "type(<id: long, city: string>)"


def row(n: int, city: str | None = None) -> dict[str, Any]:
    return {"id": n, "city": city, "more": [n]}


def change(op: str | None, before: Any = None, after: Any = None, lsn: int = 7) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "db": "x"}, "ts_ms": 1}


DEBEZIUM: list[Any] = [
    change("c", None, row(1, "a")),
    {"schema": {"type": "struct"}, "payload": change("r", None, row(2, "b"), 8)},
    change("u", row(1, "a"), row(1, "c"), 9),
    change("d", row(1, "c"), None, 10),
    None,
    {"payload": None},
    change("u", None, row(2, "d"), 11),
    change("d", {"id": 2}, None, 12),
    # malformed
    change("d"),
    change("c"),
    change("t"),
    change(None, None, row(3)),
    change("c", None, {"id": "x"}),
    {"payload": 5},
    [1],
    {"op": "c", "after": row(4)},
]
DELTA: list[Any] = [
    {"_change_type": kind, "_commit_version": 3, **row(n, kind)}
    for n, kind in enumerate(("insert", "update_preimage", "update_postimage", "delete", "truncate"))
]
FLAT: list[Any] = [
    {**row(1, "a"), "__op": "c", "__deleted": "false", "__lsn": 1},
    {"schema": {}, "payload": {**row(2, "b"), "__op": "r", "__deleted": "false", "__lsn": 2}},
    {**row(1, "c"), "__op": "u", "__deleted": "false", "__lsn": 3, "payload": None},
    {"id": 2, "city": None, "__op": "d", "__deleted": "true", "__lsn": 4},
    None,
    # malformed
    {**row(3), "__op": "t", "__deleted": "maybe"},
    row(4, "d"),
    {"id": "x", "__op": "c", "__deleted": "false"},
    {"payload": row(5)},
]
"""Flat changes, each of which says in two ways what has happened: `__op` and `__deleted`."""
DATED: list[Any] = [
    change("c", None, {"id": 1, "at": "31.1.2024"}),
    change("u", {"id": 1, "at": "31.1.2024"}, {"id": 1, "at": "1.2.2024"}),
    # malformed
    change("c", None, {"id": 2, "at": "2024-02-01"}),
    change("d", {"id": 1, "at": "30.2.2024"}),
]
BY_PATTERN = 'type(<id: long, at: date>), changes(debezium), dateFormat("d.M.yyyy")'
BEHIND = ['{"op": "c", "after": {"id": 1}} {}', "null null", "{"]
"""Lines that are no JSON, or have something behind it."""


def spec_of(home: Path, lines: list[Any], arguments: str) -> SourceSpec:
    (home / "in").mkdir(exist_ok=True)
    texts = [json.dumps(line) for line in lines] + (BEHIND if lines is DEBEZIUM else [])
    whole = json.dumps(lines, indent=1) if "multiline" in arguments else "".join(text + "\n" for text in texts)
    (home / "in" / "1.json").write_text(whole)
    program = compile_over_files(f'S = stream(json, "in", {arguments}); count(S);', "q.mrql", home)
    return program.sources["S"]


def found(spec: SourceSpec) -> tuple[list[tuple[Value, int]], list[Malformed]]:
    """The rows of the only file with their weights, and its malformed rows."""
    malformed: list[Malformed] = []
    return [*read_changes(spec, Path(spec.path) / "1.json", 1, malformed.append)], malformed


def plain(rows: list[tuple[Value, int]]) -> list[tuple[Any, ...]]:
    return [(*value.fields.values(), weight) for value, weight in rows]


def test_a_change_without_a_key(tmp_path: Path) -> None:
    """A change without a key deletes the row before, and inserts the one after; if it lacks one that it needs, it is
    malformed."""
    rows, malformed = found(spec_of(tmp_path, DEBEZIUM, f"{ROW}, changes(debezium)"))
    assert plain(rows) == [
        *[(1, "a", 1), (2, "b", 1), (1, "a", -1), (1, "c", 1), (1, "c", -1)],
        *[(2, None, -1), (4, None, 1)],
    ]
    assert [m.line for m in malformed] == [7, *range(9, 16), 17, 18, 19]
    assert [m.reason for m in malformed][:5] == [
        "a change `u` without `before`",
        "a change `d` without `before`",
        "a change `c` without `after`",
        '`op` is "t", and none of c, d, r, u',
        "`op` is missing, and none of c, d, r, u",
    ]


def test_a_change_with_a_key(tmp_path: Path) -> None:
    """A change with a key has the row after, with the fields of the change that are asked for; a deletion needs only
    the key."""
    rows, malformed = found(spec_of(tmp_path, DEBEZIUM, f"{WITH_KEY}, changes(debezium)"))
    assert plain(rows) == [
        *[(1, "a", 7, 1, 1), (2, "b", 8, 1, 1), (1, "c", 9, 1, 1), (1, "c", 10, 1, -1)],
        *[(2, "d", 11, 1, 1), (2, None, 12, 1, -1), (4, None, None, None, 1)],
    ]
    assert [m.line for m in malformed] == [*range(9, 16), 17, 18, 19]
    again, malformed = found(spec_of(tmp_path, DEBEZIUM, f"{WITH_KEY}, changes(debezium), multiline"))
    assert plain(again) == plain(rows)
    assert len(malformed) == 7


def test_a_change_feed(tmp_path: Path) -> None:
    rows, malformed = found(spec_of(tmp_path, DELTA, f"{FEED}, changes(delta)"))
    kinds = ["insert", "update_preimage", "update_postimage", "delete"]
    assert plain(rows) == [(n, kind, sign) for n, (kind, sign) in enumerate(zip(kinds, (1, -1, 1, -1), strict=True))]
    assert [m.line for m in malformed] == [5]
    keyed, _ = found(spec_of(tmp_path, DELTA, f"{FEED}, key(id), changes(delta)"))
    assert [sign for _, sign in keyed] == [1, 1, -1]


@pytest.mark.parametrize("envelope", ["debezium_flat", "debezium_flat_op"])
def test_flat_changes(tmp_path: Path, envelope: str) -> None:
    """A flat change is a row beside what has happened to it; a field with the name of the wrapper is a field like
    others."""
    rows, malformed = found(spec_of(tmp_path, FLAT, f"{KEYED}, key(id), version(__lsn), changes({envelope})"))
    assert plain(rows) == [(1, "a", 1, None, 1), (2, "b", 2, None, 1), (1, "c", 3, None, 1), (2, None, 4, None, -1)]
    assert [m.line for m in malformed] == [6, 7, 8, 9]


def test_dates_by_a_pattern(tmp_path: Path) -> None:
    """A pattern for dates applies to the rows before and after a change."""
    rows, malformed = found(spec_of(tmp_path, DATED, BY_PATTERN))
    assert plain(rows) == [
        (1, date(2024, 1, 31), 1),
        (1, date(2024, 1, 31), -1),
        (1, date(2024, 2, 1), 1),
    ]
    assert [m.reason for m in malformed] == [
        f'"{text}" is not a value of type date, written as d.M.yyyy (at {side}.at)'
        for text, side in (("2024-02-01", "after"), ("30.2.2024", "before"))
    ]


@pytest.mark.spark
def test_spark_reads_the_same_dates(spark: SparkSession, tmp_path: Path) -> None:
    assert_reads_the_same(spark, spec_of(tmp_path, DATED, BY_PATTERN), tmp_path)


@pytest.mark.spark
def test_spark_reads_the_same_flat_changes(spark: SparkSession, tmp_path: Path) -> None:
    arguments = f"{KEYED}, key(id), version(__lsn), changes(debezium_flat)"
    assert_reads_the_same(spark, spec_of(tmp_path, FLAT, arguments), tmp_path)


@pytest.mark.spark
@pytest.mark.parametrize("arguments", [f"{ROW}, changes(debezium)", f"{WITH_KEY}, changes(debezium), multiline"])
def test_spark_reads_the_same(spark: SparkSession, tmp_path: Path, arguments: str) -> None:
    """The same rows with the same weights, and the same ones malformed, at the same lines."""
    assert_reads_the_same(spark, spec_of(tmp_path, DEBEZIUM, arguments), tmp_path)


@pytest.mark.spark
def test_spark_reads_the_same_feed(spark: SparkSession, tmp_path: Path) -> None:
    assert_reads_the_same(spark, spec_of(tmp_path, DELTA, f"{FEED}, changes(delta)"), tmp_path)


def assert_reads_the_same(spark: SparkSession, spec: SourceSpec, home: Path) -> None:
    rows, malformed = found(spec)
    quarantine = Quarantine.new(home / "aside", going_on=False)
    frame = read(spark, spec, None, quarantine)
    df = frame.df.select(f"{to_sql(frame.value)} AS row", f"{frame.weight} AS w").dataframe(spark)
    ours = [(from_spark(each["row"], spec.row), each["w"]) for each in df.collect()]
    assert sorted(map(canonical, ours)) == sorted(map(canonical, rows))
    assert {m.line for m in quarantine.waiting.values()} == {m.line for m in malformed}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (f"{ROW}, changes(canal)", "nothing is known of changes that are written as `canal`"),
        (f"{KEYED}, changes(debezium)", "`__lsn` is another one in each change"),
        (f"{ROW}, changes(debezium_flat)", "changes that are written as `debezium_flat` do not have the row"),
        ("changes(debezium)", "the rows that changes are of need a type"),
        (f'{ROW}, changes(debezium), deletions("x")', "changes say themselves which rows they take away"),
        (f"{ROW}, key(nr)", "the rows have no field `nr`"),
        (f"{ROW}, key(id, id)", "the field `id` is in the key twice"),
        (f"{ROW}, key(id), version(id)", "the version `id` is in the key"),
        (f"{ROW}, version(id)", "a version is for a stream with a key"),
        (f'{ROW}, key("id")', "what is named here is a field of the rows"),
        (f"{ROW}, key()", "a key has at least one field"),
        ("type(<id: long, x: double>), key(id), version(x)", "the field `x` is of type double, and no version"),
    ],
)
def test_what_a_stream_cannot_be(tmp_path: Path, arguments: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        spec_of(tmp_path, DELTA, arguments)
