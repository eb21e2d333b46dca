"""Streams of tables of Iceberg with a checkpoint: restarts, crashes, kills, and changed queries."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.types import StringType
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag
from mrql.cli.main import main
from tests.runtime.checkpoint.streams import Counting, Stream, batch_answer
from tests.support.followed_tables import assert_goes_on_where_cut_off, assert_survives_kills
from tests.support.iceberg_tables import append, create, delete, table_at

SUMS = 'T = stream(iceberg, "t"); select (k, sum(v), max(v)) from <k: k, v: v> in T group by k;'
COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def grow(home: Path, snapshots: int, random: Random) -> None:
    """Adds snapshots to the table, every third of which deletes rows, if any match."""
    for number in range(snapshots):
        if number % 3 == 2:
            delete(home / "t", f"k <= {random.randint(1, 3)}")
        else:
            append(home / "t", [{"k": random.randint(0, 3), "v": random.randint(0, 9)} for _ in range(4)])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A table of three snapshots."""
    create(tmp_path / "t", COLUMNS)
    grow(tmp_path, 3, Random(1))
    return tmp_path


def test_going_on(home: Path) -> None:
    """A restarted stream reads the snapshots that were added since, also after a crash at any file operation."""
    stream = Stream(home, SUMS, max_files=1)
    whole = Counting()
    stream.run(whole)
    grow(home, 4, Random(2))
    stream.run()
    expected = stream.answers()
    assert expected[max(expected)] == batch_answer(stream)
    assert len(expected) > 3
    assert_goes_on_where_cut_off(stream, whole.count, 17)


@pytest.mark.slow
def test_kills(home: Path) -> None:
    """A stream that is killed has each snapshot in one batch, once."""
    stream = Stream(home, SUMS)
    stream.run()
    grow(home, 4, Random(4))
    assert_survives_kills(stream, 1)


def test_a_changed_query(home: Path) -> None:
    """The state of a changed query is built from the snapshot that was read; it is an error if that has expired."""
    Stream(home, SUMS).run()
    grow(home, 2, Random(2))
    shutil.copytree(home / "checkpoint", home / "kept")
    changed = Stream(home, SUMS.replace("sum(v)", "sum(v * 2)"))
    changed.run()
    answers = changed.answers()
    assert answers[max(answers)] == batch_answer(changed)
    shutil.rmtree(home / "out")
    shutil.rmtree(home / "checkpoint")
    shutil.move(home / "kept", home / "checkpoint")
    *before, _ = table_at(home / "t").snapshots()
    for snapshot in before:
        table_at(home / "t").maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    with pytest.raises(UserError, match=r"the query has changed, and .* must be built again, but .* has no snapshot"):
        Stream(home, SUMS.replace("sum(v)", "sum(v * 2)")).run()


def test_a_static_table_stays(home: Path) -> None:
    """A static table beside a stream stays at the snapshot at which the stream began, also after a restart; a table
    without one then stays empty."""
    create(home / "names", COLUMNS)
    text = """
    T = stream(iceberg, "t");
    N = source(iceberg, "names");
    select (t.v, n.v) from t in T, n in N where t.k = n.k;
    """
    Stream(home, text).run()
    append(home / "names", [{"k": k, "v": k} for k in range(4)])
    with table_at(home / "names").update_schema() as schema:
        schema.add_column("more", StringType())
    append(home / "t", [{"k": 1, "v": 3}])
    stream = Stream(home, text)
    stream.run()
    answers = stream.answers()
    assert answers[max(answers)] == Bag()
    again = Stream(home, text, checkpoint_name="c2", output="out2")
    again.run()
    assert again.answers()["batch-000000"] == batch_answer(again) != Bag()


def test_the_commands(home: Path) -> None:
    """`mrql check` finds the type, `explain` says that deletions are trusted, `verify` runs the query, and the snapshot
    is in the output of `checkpoint show`."""
    Stream(home, SUMS).run()
    (home / "q.mrql").write_text(SUMS)
    query = [str(home / "q.mrql"), "--data", str(home)]

    def said(*command: str) -> str:
        result = CliRunner().invoke(main, [*command])
        assert result.exit_code == 0, result.output
        return result.output

    assert "bag((long, long, long))" in said("check", *query)
    assert "rows of T may be deleted, and deletions are trusted" in said("explain", *query)
    said("verify", *query, "--engine", "reference", "--histories", "1")
    last = table_at(home / "t").current_snapshot()
    assert last is not None
    assert str(last.snapshot_id) in said("checkpoint", "show", str(home / "checkpoint"))


@pytest.mark.spark
def test_on_spark(home: Path, spark: SparkSession) -> None:
    """On Spark, a stream beside a static table goes on after a restart, and `table_changes` has the rows that a table
    gains and loses."""
    text = f"""
    T = stream(iceberg, "t");
    N = source(iceberg, "t", version({table_at(home / "t").snapshots()[0].snapshot_id}));
    select (t.k, sum(t.v), count(n)) from t in T, n in N where t.k = n.k group by t.k;
    """
    options = {"engine": "spark", "spark": spark, "max_files": None}
    Stream(home, text, **options).run()  # type: ignore[arg-type]
    grow(home, 3, Random(3))
    stream = Stream(home, text, **options)  # type: ignore[arg-type]
    stream.run()
    answers = stream.answers()
    assert answers[max(answers)] == batch_answer(stream)
    append(home / "t", [{"k": 0, "v": 1}, {"k": 0, "v": 1}])
    before = mrql.table_changes(spark, home / "t")
    delete(home / "t", "k >= 0")
    news = mrql.table_changes(spark, home / "t", after=before.offset)
    assert before.delta.insert is not None
    assert news.delta.delete is not None
    assert sorted(before.delta.insert.collect()) == sorted(news.delta.delete.collect())
    assert news.delta.insert is None
    assert news.offset["table"] == before.offset["table"]
