"""Streams without a given type, whose later rows have a wider one: a running stream goes on, and so does a restarted
one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, close
from mrql.jobs.stream import run_stream
from mrql.runtime.sources.formats.json import infer_row, widened
from mrql.runtime.sources.formats.json_types import type_of, widened_by
from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.streams import Counting, Crash, Failing, Moment, Stream, batch_answer, write

QUERY = """
events = stream(json, "events", deletions("gone"));
select (k, sum(e.n), count(e), max(e.n)) from e in events group by k: e.k;
"""
ALL = """
events = stream(json, "events", deletions("gone"), multiline);
select (e, f.n) from e in events, f in events where e.k = f.k;
"""
FILES = (
    ("events", [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "b", "n": None}]),
    ("events", [{"k": "a", "n": 3}]),
    ("events", [{"k": "a", "n": 0.5}, {"k": "c", "n": 9007199254740993}]),
    ("events", [{"k": "b", "n": 4, "m": {"x": 1}}]),
    ("gone", [{"k": "a", "n": 3}, {"k": "b", "n": 2}]),
    ("events", [{"k": "b", "n": 5, "m": {"x": 1.5, "y": [1]}}]),
    ("gone", [{"k": "b", "n": 4, "m": {"x": 1}}]),
)


def fill(home: Path, text: str = QUERY) -> list[tuple[Path, Path]]:
    """Writes the files, and hides all but the first, as if they had not arrived; returns pairs of paths."""
    moved = []
    for number, (directory, rows) in enumerate(FILES):
        file = home / directory / f"{number:04d}.json"
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        write(file, json.dumps(rows, indent=1) if "multiline" in text else lines, number)
        if number:
            moved.append((file, file.with_name(f"_{file.name}")))
            file.rename(moved[-1][1])
    return moved


def started(stream: Stream, late: list[tuple[Path, Path]], **others: object) -> None:
    """Runs a stream that was started when only the first file was there."""
    running = attrs.evolve(stream.job, **others)
    for file, aside in late:
        if aside.exists():
            aside.rename(file)
    run_stream(running, Counting())


def put_back(late: list[tuple[Path, Path]]) -> None:
    for file, aside in late:
        file.rename(aside)


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("text", [QUERY, ALL], ids=["groups", "rows"])
def test_a_running_stream_goes_on(tmp_path: Path, engine: str, text: str, request: pytest.FixtureRequest) -> None:
    """With and without a checkpoint, each batch has the same answer, and the last one is that to all data.

    Groups on Spark are compared with those of the reference engine.
    """
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    late = fill(tmp_path, text)
    with_checkpoint = Stream(tmp_path, text, engine=engine, spark=spark)
    other = "reference" if text == QUERY else engine
    alone = Stream(tmp_path, text, engine=other, spark=spark, output="other", checkpoint_name="none")
    started(with_checkpoint, late)
    put_back(late)
    started(alone, late, checkpoint=None)
    found = [stream.answers() for stream in (with_checkpoint, alone)]
    assert [list(each) for each in found] == [[f"batch-{n:06d}" for n, _ in enumerate(FILES)]] * 2
    again = Stream(tmp_path, text)
    assert all(close(a, b) for a, b in zip(*(each.values() for each in found), strict=True))
    if text == QUERY:
        assert close(list(found[0].values())[-1], batch_answer(again))
    # Started again, it has nothing to do.
    Stream(tmp_path, text, engine=engine, spark=spark).run()
    assert list(again.answers()) == list(found[0])


COLUMNS = 'stream({format}, "events", deletions("gone"))'
WRITE = {"parquet": pq.write_table, "orc": orc.write_table}
PARQUET = (
    ("events", {"k": pa.array(["a", "b", "b"]), "n": pa.array([1, 2, None], pa.int32())}),
    ("events", {"n": pa.array([3], pa.int32()), "k": pa.array(["a"])}),
    ("events", {"k": pa.array(["a", "c"]), "n": pa.array([5, 9007199254740993], pa.int64())}),
    ("events", {"k": pa.array(["b"]), "n": pa.array([4], pa.int8()), "m": pa.array(["x"])}),
    ("gone", {"k": pa.array(["a", "b"]), "n": pa.array([3, 2], pa.int64())}),
    ("events", {"k": pa.array(["b"]), "m": pa.array(["y"])}),
    ("events", {"k": pa.array(["a"]), "n": pa.array([0.5])}),
    ("gone", {"n": pa.array([4]), "m": pa.array(["x"]), "k": pa.array(["b"])}),
)


def fill_with_columns(home: Path, nested: bool = False, format: str = "parquet") -> list[tuple[Path, Path]]:
    """Writes the files, and hides all but the first; returns pairs of paths."""
    moved = []
    for number, (directory, flat) in enumerate(PARQUET):
        columns = {"c": pa.StructArray.from_arrays([*flat.values()], names=[*flat])} if nested else flat
        file = home / directory / f"{number:04d}.{format}"
        file.parent.mkdir(parents=True, exist_ok=True)
        WRITE[format](pa.table(columns), file)
        os.utime(file, (number + 1, number + 1))
        if number:
            moved.append((file, file.with_name(f"_{file.name}")))
            file.rename(moved[-1][1])
    return moved


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("nested", [False, True], ids=["columns", "fields"])
@pytest.mark.parametrize("format", WRITE)
def test_columns_of_files(
    tmp_path: Path, engine: str, nested: bool, format: str, request: pytest.FixtureRequest
) -> None:
    """With a wider column, additional or missing columns, in any order, or fields of a struct, a running stream goes
    on, with the answers of one that is restarted before each file."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    text = QUERY.replace('stream(json, "events", deletions("gone"))', COLUMNS.format(format=format))
    text = text.replace("e.", "e.c.") if nested else text
    late = fill_with_columns(tmp_path, nested, format)
    running = Stream(tmp_path, text, engine=engine, spark=spark)
    started(running, late)
    put_back(late)
    again = Stream(tmp_path, text, output="again", checkpoint_name="other")
    for arriving in [[], *([one] for one in late)]:
        for file, aside in arriving:
            aside.rename(file)
        Stream(tmp_path, text, output="again", checkpoint_name="other").run()
    found, restarted = running.answers(), again.answers()
    assert [*found] == [*restarted] == [f"batch-{n:06d}" for n, _ in enumerate(PARQUET)]
    assert all(close(a, b) for a, b in zip(found.values(), restarted.values(), strict=True))
    whole = batch_answer(Stream(tmp_path, text))
    assert close([*found.values()][-1], whole)
    large = 9007199254740992.0  # one less than what was written: a double has 53 bits
    assert close(whole, Bag([("a", 6.5, 3, 5.0), ("b", 0.0, 2, None), ("c", large, 1, large)]))


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_new_columns_are_refused(tmp_path: Path, engine: str, format: str, request: pytest.FixtureRequest) -> None:
    """With `failOnNewColumns`, a wider number is accepted, and a new column is malformed, also after a restart."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    text = f'sum(select e.n from e in stream({format}, "events", failOnNewColumns));'
    events = tmp_path / "events"
    events.mkdir()

    def arrives(number: int, **row: object) -> None:
        file = events / f"{number}.{format}"
        if format == "json":
            file.write_text(json.dumps(row) + "\n")
        else:
            pq.write_table(pa.table({name: [value] for name, value in row.items()}), file)

    def run() -> None:
        Stream(tmp_path, text, engine=engine, spark=spark).run()

    for number, row in enumerate(({"n": 1}, {"n": 0.5}, {"n": 2})):
        arrives(number, **row)
        run()
    arrives(3, n=3, m="x")
    for _ in range(2):
        with pytest.raises(UserError, match=r"a new (column|field) `m`") as caught:
            run()
        assert "without `failOnNewColumns`" in (caught.value.hint or "")
    arrives(3, n=3)
    run()
    ((total,),) = [*Stream(tmp_path, text, engine=engine, spark=spark).answers().values()][-1]
    assert total == 6.5


def test_columns_that_fit_no_wider_type(tmp_path: Path) -> None:
    """A file whose columns fit no wider type is malformed as a whole; the hint is a type that reads it, if there is
    one."""
    late = fill_with_columns(tmp_path)
    text = 'select x from x in stream(parquet, "events", type(<k: string, n: int>));'
    late[1][1].rename(late[1][0])
    with pytest.raises(UserError, match="has a column `n` that is of type long, where int was expected") as caught:
        Stream(tmp_path, text).run()
    assert caught.value.hint == "`type(<n: long>)` reads it, and the others"
    late[1][0].unlink()
    pq.write_table(pa.table({"k": [1], "n": [2]}), tmp_path / "events" / "0009.parquet")
    for n, source in enumerate(('stream(parquet, "events")', 'stream(parquet, "events", allowMissingColumns)')):
        stream = Stream(tmp_path, f"select x from x in {source};", checkpoint_name=f"c{n}", output=f"o{n}")
        with pytest.raises(UserError, match="`k` that is of type long, where string was expected") as caught:
            stream.run()
        assert caught.value.hint is None


@pytest.mark.wide
def test_the_process_dies_at_any_moment(tmp_path: Path) -> None:
    """A stream that dies at a file operation while its type is widened goes on to the same answers."""
    late = fill(tmp_path)
    stream = Stream(tmp_path, QUERY)
    counting = Counting()
    running = stream.job
    for file, aside in late:
        aside.rename(file)
    run_stream(running, counting)
    expected = stream.answers()
    for at in range(1, counting.count, 4):
        for moment in (Moment.BEFORE, Moment.AFTER):
            stream.clear()
            with pytest.raises(Crash):
                run_stream(running, Failing(at=at, moment=moment))
            Stream(tmp_path, QUERY).run()
            found = stream.answers()
            assert list(found) == list(expected)
            assert all(close(found[name], expected[name]) for name in found), (at, moment)


def test_a_stream_that_was_widened_before_a_restart(tmp_path: Path) -> None:
    """A stream that was widened keeps its type when another stream is widened after a restart, though the first rows of
    its files do not show that type."""
    text = """
    a = stream(json, "a");
    b = stream(json, "b");
    (sum(select x.n from x in a), sum(select x.n from x in b));
    """
    for number, directory in enumerate("ab"):
        write(tmp_path / directory / "1.json", '{"n": 1}\n' * 2000, number)
    late = [(tmp_path / directory / "2.json", tmp_path / directory / "_2.json") for directory in "ba"]
    for number, (file, aside) in enumerate(late, start=2):
        write(file, '{"n": 0.5}\n', number)
        file.rename(aside)
    for arriving in late:
        started(Stream(tmp_path, text), [arriving])
    assert [*Stream(tmp_path, text).answers().values()][-1] == Bag([(2000.5, 2000.5)])


def test_changes_do_not_follow_on_those_of_another_type(tmp_path: Path) -> None:
    """With --emit changes a wider type is refused, as changes of doubles do not follow on those of integers."""
    late = fill(tmp_path)
    with pytest.raises(UserError, match="of a wider type than those before"):
        started(Stream(tmp_path, QUERY, emit=Emit.CHANGES), late)


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_fits_no_wider_type_is_malformed(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """A row that fits no wider type is quarantined, once, and the stream goes on, also after a restart."""
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    write(tmp_path / "events" / "0.json", '{"k": "a", "n": 1}\n', 0)
    stream = Stream(tmp_path, QUERY, engine=engine, spark=spark, quarantine="kept")
    stream.run()
    write(tmp_path / "events" / "1.json", '{"k": "a", "n": "x", "m": 1}\n{"k": "a", "n": 2.5}\n', 1)
    Stream(tmp_path, QUERY, engine=engine, spark=spark, quarantine="kept").run()
    write(tmp_path / "events" / "2.json", '{"k": "a", "n": 2}\n', 2)
    Stream(tmp_path, QUERY, engine=engine, spark=spark, quarantine="kept").run()
    assert list(stream.answers()["batch-000002"]) == [("a", 5.5, 3, 2.5)]
    files = (tmp_path / "kept").glob("*/malformed.json")
    kept = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [row["line"] for row in kept] == [1]
    shutil.rmtree(tmp_path / "checkpoint")


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from([2**63, -(2**70)])
    | st.floats(allow_nan=False, width=16)
    | st.just("x")
)
OBJECTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("aAb`"), inner, max_size=2)
)


def line(row: dict[str, object]) -> str:
    """A row as a line of JSON, with numbers of infinite size for infinities."""
    return json.dumps(row).replace("Infinity", "1e999") + "\n"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.dictionaries(st.sampled_from("aAb`"), OBJECTS, max_size=3), min_size=1, max_size=4))
def test_a_wider_type_holds_what_the_narrower_one_held(
    rows: list[dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A type that was widened for some rows is wide enough for them, and for those before; widening it again changes
    nothing."""
    file = tmp_path_factory.mktemp("rows") / "rows.json"
    file.write_text("".join(map(line, rows)))
    first = tmp_path_factory.mktemp("rows") / "rows.json"
    first.write_text(line(rows[0]))
    known = infer_row([first])
    assert known is not None
    wide = widened(known, [file])
    assert widened(wide, [file]) == wide
    assert widened(wide, [first]) == wide
    for row in rows:
        wider = widened_by(wide, type_of(row))
        assert wider is None or wider == wide


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        (["9223372036854775808", "9223372036854775809"], "decimal(38, 0)"),
        (["1", "-9223372036854775809"], "decimal(38, 0)"),
        (["9223372036854775808", "1.5"], "double"),
        (["1" * 39, "1"], "double"),
    ],
)
def test_whole_numbers_that_no_long_has(tmp_path: Path, numbers: list[str], found: str) -> None:
    """Whole numbers that are no longs are decimals, so that two of them are not the same double; beside fractions, or
    with more than 38 digits, they are doubles."""
    (tmp_path / "f.json").write_text("".join(f'{{"n": {number}}}\n' for number in numbers))
    row = infer_row([tmp_path / "f.json"])
    assert str(row) == f"<n: {found}>"
    (tmp_path / "g.json").write_text('{"n": 1}\n')
    known = infer_row([tmp_path / "g.json"])
    assert known is not None
    assert widened(known, [tmp_path / "f.json"]) == row
