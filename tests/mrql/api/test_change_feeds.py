"""DataFrames of changes, given to a view as they are: in one batch, and streaming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from tests.support.changes_catalog import MISSING, NAME, add_catalog, compiler

pytestmark = pytest.mark.spark

QUERY = mrql.compile("select (a.id, a.city) from a in A", A="bag(<id: long, city: string>)")
KEYED = mrql.compile("select (a.id, a.city) from a in A", A="bag(<id: long, city: string, __lsn: long>)")
SIDE = "struct<id: long, city: string>"


def changes(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    """Changes as Debezium has them: what has happened, the row before, the row after, the place in the log."""
    made = [(op, before, after, (lsn,)) for op, before, after, lsn in rows]
    return spark.createDataFrame(made, f"op string, before {SIDE}, after {SIDE}, source struct<lsn: long>")


def found(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()))


def test_changes_of_debezium(spark: SparkSession) -> None:
    """With both images without a key, and with a key and a version in any order, and twice."""
    spark = spark
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
    """Of a stream with a key, by either of the columns; without one it is not known what goes."""
    rows = [(1, "a", 1, "c", "false"), (1, "b", 3, "u", "false"), (2, "a", 2, "r", "false"), (2, None, 4, "d", "true")]
    flat = spark.createDataFrame(rows, "id long, city string, __lsn long, __op string, __deleted string")
    for column in ("__op", "__deleted"):
        with KEYED.view(spark, keys={"A": mrql.key("id", version="__lsn")}) as view:
            assert found(view.apply(A=flat.drop(column))) == [(1, "b", 1)]
    with KEYED.view(spark) as view, pytest.raises(UserError, match="do not have the row that they take away"):
        view.apply(A=flat)


def test_a_change_feed_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Each image of an update is taken for what it is."""
    lines = [(1, "a", "insert"), (1, "a", "update_preimage"), (1, "b", "update_postimage"), (2, "a", "insert")]
    rows = (json.dumps({"id": n, "city": city, "_change_type": kind}) + "\n" for n, city, kind in lines)
    (tmp_path / "1.json").write_text("".join(rows))
    coming = spark.readStream.schema("id long, city string, _change_type string").json(str(tmp_path))
    with QUERY.view(spark, trusted=True) as view:
        view.follow(A=coming, trigger={"availableNow": True}).awaitTermination()
        assert found(view.answer()) == [(1, "b"), (2, "a")]


@pytest.mark.skipif(compiler() is None, reason=MISSING)
def test_changes_of_a_catalog_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """What `readStream.changes` has, where an update is a deletion and an insertion in one commit; over a restart."""
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
