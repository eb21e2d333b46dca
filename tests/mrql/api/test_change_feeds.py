"""DataFrames of changes, applied to a view as they are: in batches, and streaming."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.cli.main import main
from tests.support.changes_catalog import MISSING, NAME, add_catalog, compiler

pytestmark = pytest.mark.spark

QUERY = mrql.compile("select (a.id, a.city) from a in A", A="bag(<id: long, city: string>)")
KEYED = mrql.compile("select (a.id, a.city) from a in A", A="bag(<id: long, city: string, __lsn: long>)")
SIDE = "struct<id: long, city: string>"


def changes(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Changes in Debezium's envelope: the operation, the row before, the row after, the position in the log."""
    made = [(op, before, after, (lsn,)) for op, before, after, lsn in rows]
    return spark.createDataFrame(made, f"op string, before {SIDE}, after {SIDE}, source struct<lsn: long>")


def found(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()))


def test_changes_of_debezium(spark: SparkSession) -> None:
    """Debezium changes with both images need no key; with a key and a version they apply in any order and twice."""
    history = [
        ("c", None, (1, "a"), 1),
        ("u", (1, "a"), (1, "b"), 2),
        ("c", None, (2, "a"), 3),
        ("d", (2, "a"), None, 4),
    ]
    with QUERY.view(spark) as view:
        assert found(view.apply(A=changes(spark, *history))) == [(1, "b", 1)]
        with pytest.raises(UserError, match="a change of `A` without `before`: u"):
            view.apply(A=changes(spark, ("u", None, (1, "c"), 5)))
        with pytest.raises(UserError, match="say all that comes and goes"):
            view.apply(A=mrql.Delta(insert=changes(spark), changes=changes(spark)))
    with KEYED.view(spark, keys={"A": mrql.key("id", version="__lsn")}) as view:
        view.apply(A=changes(spark, *history[2:], *history[3:]))
        view.apply(A=changes(spark, *history[1::-1], ("u", None, (2, "c"), 3)))
        assert found(view.answer()) == [(1, "b")]


def test_flat_changes_of_debezium(spark: SparkSession) -> None:
    """Flat Debezium changes, with `__op` or `__deleted`, apply to a stream with a key, and are refused without one."""
    rows = [(1, "a", 1, "c", "false"), (1, "b", 3, "u", "false"), (2, "a", 2, "r", "false"), (2, None, 4, "d", "true")]
    flat = spark.createDataFrame(rows, "id long, city string, __lsn long, __op string, __deleted string")
    for column in ("__op", "__deleted"):
        with KEYED.view(spark, keys={"A": mrql.key("id", version="__lsn")}) as view:
            assert found(view.apply(A=flat.drop(column))) == [(1, "b", 1)]
    with KEYED.view(spark) as view, pytest.raises(UserError, match="do not have the row that they take away"):
        view.apply(A=flat)


def test_a_change_feed_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """In a followed change feed, the preimage of an update is deleted and the postimage is inserted."""
    lines = [(1, "a", "insert"), (1, "a", "update_preimage"), (1, "b", "update_postimage"), (2, "a", "insert")]
    rows = (json.dumps({"id": n, "city": city, "_change_type": kind}) + "\n" for n, city, kind in lines)
    (tmp_path / "1.json").write_text("".join(rows))
    coming = spark.readStream.schema("id long, city string, _change_type string").json(str(tmp_path))
    with QUERY.view(spark, trusted=True) as view:
        view.follow(A=coming, trigger={"availableNow": True}).awaitTermination()
        assert found(view.answer()) == [(1, "b"), (2, "a")]


def test_messages_of_debezium_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Debezium messages, parsed by `from_json`, are followed; a reopened view continues after the last one. A text that
    is not a change is an error, and the state before it stays."""
    log = tmp_path / "log"
    log.mkdir()
    sides = f"before {SIDE}, after {SIDE}"
    parsed = (
        f"from_json(value, 'payload struct<op: string, {sides}, source: struct<lsn: long>>', map('mode', 'FAILFAST'))"
    )

    def come(name: str, *messages: Any) -> None:
        lines = (json.dumps({"schema": {}, "payload": dict(zip(KEYS, m, strict=True))}) for m in messages)
        (log / name).write_text("".join(f"{line}\n" for line in lines))

    def follow() -> list[tuple[Any, ...]]:
        coming = spark.readStream.option("maxFilesPerTrigger", 1).text(str(log))
        changes = coming.selectExpr(f"{parsed} AS message").selectExpr("message.*")
        keys = {"A": mrql.key("id", version="__lsn")}
        with KEYED.view(spark, keys=keys, checkpoint=str(tmp_path / "checkpoint")) as view:
            view.follow(A=changes, trigger={"availableNow": True}).awaitTermination()
            return found(view.answer())

    come("1", ("c", None, {"id": 1, "city": "a"}, {"lsn": 1}), ("r", None, {"id": 2, "city": "a"}, {"lsn": 2}))
    assert follow() == [(1, "a"), (2, "a")]
    come("2", ("u", None, {"id": 1, "city": "b"}, {"lsn": 3}), ("d", {"id": 2, "city": "a"}, None, {"lsn": 4}))
    come("3", ("u", None, {"id": 1, "city": "late"}, {"lsn": 2}), ("c", None, {"id": 3, "city": None}, {"lsn": 5}))
    assert follow() == [(1, "b"), (3, None)]
    (log / "4").write_text("no change\n")
    with pytest.raises(UserError):
        follow()
    (log / "4").unlink()
    assert follow() == [(1, "b"), (3, None)]


KEYS = ("op", "before", "after", "source")

FEED = "id long, city string, _change_type string, _commit_version long"
HISTORY = [
    (1, "a", "insert", 0),
    (2, "a", "insert", 0),
    (1, "a", "update_preimage", 1),
    (1, "b", "update_postimage", 1),
    (2, "a", "delete", 2),
]
"""Changes after which (1, "b") is the only row."""
TABLE = pa.table(dict(zip(("id", "city", "_change_type", "_commit_version"), zip(*HISTORY, strict=True), strict=True)))


class Handed:
    """Rows with nothing but the stream interface of Arrow, by which a frame of polars is read, for example."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[SparkSession], Any]] = {
    "spark": lambda spark: spark.createDataFrame(HISTORY, FEED),
    "pandas": lambda spark: TABLE.to_pandas(),
    "arrow": lambda spark: TABLE,
    "arrow, once": lambda spark: TABLE.to_reader(),
    "handed over": lambda spark: Handed(TABLE),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_change_feed_is_one_wherever_it_lies(spark: SparkSession, frame: str) -> None:
    """A change feed in any kind of frame applies as rows, as `Delta(changes=…)`, in steps, and with a key."""
    made = FRAMES[frame]
    with QUERY.view(spark) as view:
        assert found(view.apply(A=made(spark))) == [(1, "b", 1)]
        assert found(view.apply(A=mrql.Delta(changes=made(spark)))) == [(1, "b", 1)]
        with view.batch() as batch:
            batch.apply(A=made(spark))
        assert found(batch.changes) == [(1, "b", 1)]
        with pytest.raises(UserError, match="`_change_type` of a change of `A` is none of"):
            view.apply(A=pa.table({"id": [1], "city": ["a"], "_change_type": ["truncate"]}))
    query = mrql.compile("select (a.id, a.city) from a in A", A="bag(<id: long, city: string, _commit_version: long>)")
    with query.view(spark, keys={"A": mrql.key("id", version="_commit_version")}) as view:
        assert found(view.apply(A=made(spark))) == [(1, "b", 1)]


@pytest.mark.parametrize("frame", FRAMES)
def test_changes_are_not_all_rows(spark: SparkSession, frame: str) -> None:
    """`batch` and static tables refuse a change feed; if the type of the rows has the column, it is a field."""
    made = FRAMES[frame]
    for call in (lambda: QUERY.batch(spark, A=made(spark)), lambda: QUERY.view(spark, A=made(spark))):
        with pytest.raises(UserError, match="`A` has the column `_change_type` of a change feed") as raised:
            call()
        assert "drop the column `_change_type`" in raised.value.hint
    query = mrql.compile("select (c, count(a)) from a in A group by c: a._change_type", A="bag(<_change_type: string>)")
    counted = [("delete", 1), ("insert", 2), ("update_postimage", 1), ("update_preimage", 1)]
    assert found(query.batch(spark, A=made(spark))) == counted
    with query.view(spark) as view:
        view.apply(A=made(spark))
        assert found(view.answer()) == counted
    with query.view(spark, A=made(spark)) as view:
        assert found(view.answer()) == counted


def test_a_change_feed_of_delta_lake_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of `load_cdf` can be applied, but are read once only: reading them again is an error."""
    write_deltalake(
        tmp_path, TABLE.select(["id", "city"]).slice(0, 2), configuration={"delta.enableChangeDataFeed": "true"}
    )
    table = DeltaTable(tmp_path)
    table.update(updates={"city": "'b'"}, predicate="id = 1")
    table.delete("id = 2")
    with QUERY.view(spark) as view:
        assert found(view.apply(A=DeltaTable(tmp_path).load_cdf(starting_version=0))) == [(1, "b", 1)]
    feed = DeltaTable(tmp_path).load_cdf(starting_version=0)
    counted = mrql.compile("count(A)", A=feed)  # compiling reads the schema, but no rows
    assert counted.batch(spark, A=feed).collect() == [(5,)]
    with pytest.raises(UserError, match="`A` cannot be read: Cannot read from closed stream"):
        counted.batch(spark, A=feed)


ENVELOPES = [
    {"op": "c", "before": None, "after": {"id": 1, "city": "a"}, "source": {"lsn": 1}},
    {"op": "c", "before": None, "after": {"id": 2, "city": "a"}, "source": {"lsn": 2}},
    {"op": "u", "before": {"id": 1, "city": "a"}, "after": {"id": 1, "city": "b"}, "source": {"lsn": 3}},
    {"op": "d", "before": {"id": 2, "city": "a"}, "after": None, "source": {"lsn": 4}},
    None,
]
FLAT = [
    {"id": 1, "city": "a", "__lsn": 1, "__op": "c"},
    {"id": 2, "city": "a", "__lsn": 2, "__op": "c"},
    {"id": 1, "city": "b", "__lsn": 3, "__op": "u"},
    {"id": 2, "city": None, "__lsn": 4, "__op": "d"},
    None,
]
ENVELOPE = f"op string, before {SIDE}, after {SIDE}, source struct<lsn: long>"
MESSAGES = {
    "debezium": (ENVELOPES, ENVELOPE),
    "debezium_flat_op": (FLAT, "id long, city string, `__lsn` long, `__op` string"),
}
"""Changes, with the null message that follows a deletion, and their schema."""


def wrapped(messages: list[Any]) -> list[Any]:
    """The messages as a converter of Kafka Connect writes them, with their schemas."""
    return [None if message is None else {"schema": {"type": "struct"}, "payload": message} for message in messages]


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("envelope", MESSAGES)
def test_messages_of_debezium_are_what_they_are_in_files(
    spark: SparkSession, tmp_path: Path, envelope: str, is_wrapped: bool
) -> None:
    """Null messages are skipped, and changes in `payload` are unwrapped, in frames of Spark, pandas and Arrow, and in
    files on both engines."""
    messages, schema = MESSAGES[envelope]
    if is_wrapped:
        messages, schema = wrapped(messages), f"schema struct<type: string>, payload struct<{schema}>"
    texts = [json.dumps(message) for message in messages]
    values = spark.createDataFrame([(None if text == "null" else text,) for text in texts], "value string")
    columns = [*(messages[0] or {})]
    rows = [{column: None if message is None else message[column] for column in columns} for message in messages]
    frames = [
        values.selectExpr(f"from_json(value, '{schema}', map('mode', 'FAILFAST')) AS v").selectExpr("v.*"),
        pa.Table.from_pylist(rows),
        pd.DataFrame(rows).astype({name: "Int64" for name in ("id", "__lsn") if name in columns}),
    ]
    keys = {"A": mrql.key("id", version="__lsn")}
    for frame in frames:
        with KEYED.view(spark, keys=keys) as view:
            assert found(view.apply(A=frame)) == [(1, "b", 1)]
        if envelope == "debezium":
            with QUERY.view(spark) as view:
                assert found(view.apply(A=frame)) == [(1, "b", 1)]
    (tmp_path / "A").mkdir()
    (tmp_path / "A" / "1.json").write_text("".join(f"{text}\n" for text in texts))
    options = f"type(<id: long, city: string, __lsn: long>), changes({envelope}), key(id), version(__lsn)"
    query = f'A = stream(json, "{tmp_path / "A"}", {options}); select (a.id, a.city) from a in A;'
    (tmp_path / "q.mrql").write_text(query)
    for engine in ("reference", "spark"):
        ran = CliRunner().invoke(main, ["run", "--engine", engine, "--format", "json", str(tmp_path / "q.mrql")])
        assert ran.exit_code == 0, ran.output
        assert json.loads(ran.stdout)["value"] == [[1, "b"]]


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_side_that_no_change_of_a_frame_has(spark: SparkSession, is_wrapped: bool) -> None:
    """`before` may be null in all changes, and then has no type in pandas and Arrow; one that needs it is refused."""
    made = wrapped(ENVELOPES[:2]) if is_wrapped else ENVELOPES[:2]
    for frame in (pa.Table.from_pylist(made), pd.DataFrame(made)):
        with QUERY.view(spark) as view:
            assert found(view.apply(A=frame)) == [(1, "a", 1), (2, "a", 1)]
    with QUERY.view(spark) as view, pytest.raises(UserError, match="a change of `A` without `before`: u"):
        view.apply(A=pa.Table.from_pylist([{**ENVELOPES[2], "before": None}]))
    lacking = pa.Table.from_pylist(ENVELOPES[:4]).drop_columns("source")
    with KEYED.view(spark, keys={"A": "id"}) as view, pytest.raises(UserError, match="has no column `source`"):
        view.apply(A=lacking)
    with KEYED.view(spark, keys={"A": "id"}) as view, pytest.raises(UserError, match="have no column `source`"):
        view.apply(A=changes(spark).drop("source"))


def test_what_only_looks_like_changes(spark: SparkSession) -> None:
    """A column `payload` that does not hold changes is ignored, as is any other column that the type lacks."""
    plain = {"id": [1], "city": ["a"], "payload": ["{}"]}
    other = {"id": [1], "city": ["a"], "payload": [{"a": 1}]}
    frames = [spark.createDataFrame([(1, "a", "{}")], "id long, city string, payload string")]
    frames += [make(rows) for rows in (plain, other) for make in (pa.table, pd.DataFrame)]
    with QUERY.view(spark) as view:
        for frame in frames:
            assert found(view.apply(A=frame)) == [(1, "a", 1)]
            assert found(QUERY.batch(spark, A=frame)) == [(1, "a")]


@pytest.mark.skipif(compiler() is None, reason=MISSING)
def test_changes_of_a_catalog_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Changes of a catalog's table, read by `readStream.changes`, are followed over a restart; an update is a deletion
    and an insertion in one commit."""
    session = spark.newSession()
    add_catalog(session, tmp_path)
    log = tmp_path / "people"
    for more, there in (
        ("1,insert,1,Rome\n1,insert,2,Rome\n2,delete,1,Rome\n2,insert,1,Oslo\n", [(1, "Oslo"), (2, "Rome")]),
        ("3,delete,2,Rome\n4,insert,3,Rome\n", [(1, "Oslo"), (3, "Rome")]),
    ):
        with log.open("a") as out:
            out.write(more)
        coming = session.readStream.option("startingVersion", "1").changes(f"{NAME}.people")
        with QUERY.view(session, checkpoint=tmp_path / "state") as view:
            view.follow(A=coming, trigger={"availableNow": True}).awaitTermination(120)
            assert found(view.answer()) == there
