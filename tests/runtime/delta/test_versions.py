"""Tables of Delta Lake: at which versions they are read, and the errors where they are not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, Record
from mrql.cli.main import main
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.delta.log import version_file
from mrql.runtime.sources.partitions import MISSING
from mrql.runtime.streaming.stream_loop import Emit
from tests.runtime.checkpoint.streams import Counting, Stream, batch_answer, write
from tests.support.followed_tables import GROUPS, ROWS, Followed, assert_goes_on_where_cut_off, assert_survives_kills

TIME = {"modificationTime": 1}
SUMS = 'T = stream(delta, "t"); select (k, sum(v), max(v)) from <k: k, v: v> in T group by k;'


def append(home: Path, rows: list[tuple[int, int]], name: str = "t", mode: str = "append") -> None:
    table = pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]})
    write_deltalake(home / name, table, mode=mode)  # type: ignore[call-overload]


def grow(home: Path, versions: int, random: Random) -> None:
    """Adds versions to the table, every third of which deletes rows."""
    for number in range(versions):
        if number % 3 == 2:
            DeltaTable(str(home / "t")).delete(f"k = {random.randint(0, 3)}")
        else:
            append(home, [(random.randint(0, 3), random.randint(0, 9)) for _ in range(4)])


def value_of(home: Path, text: str) -> object:
    program = compile_over_files(text, base=home)
    return ReferenceBatchJob(program).answer(program.queries[-1])


# --- versions -----------------------------------------------------------------------------------


def test_a_table_as_it_was(tmp_path: Path) -> None:
    """`version(n)` reads that version; without it, and for a stream that is read as a whole, the newest version is
    read."""
    append(tmp_path, [(1, 1)])
    append(tmp_path, [(2, 2)])
    assert value_of(tmp_path, 'source(delta, "t", version(0));') == Bag([Record({"k": 1, "v": 1})])
    assert value_of(tmp_path, 'count(source(delta, "t"));') == 2
    assert value_of(tmp_path, 'n = 1; count(source(delta, "t", version(n - 1)));') == 1
    assert value_of(tmp_path, 'select k from <k: k> in stream(delta, "t", type(<k: long>));') == Bag([1, 2])


def test_bytes_of_columns_and_of_paths(tmp_path: Path) -> None:
    """Columns of bytes in files are read; a partition column of bytes is left out, and an error where it is asked
    for."""
    table = pa.table({"k": [1, 2], "b": [b"\0\xff", None], "p": [b"abcd", b"YQ=="]})
    write_deltalake(tmp_path / "t", table, partition_by=["p"])
    assert value_of(tmp_path, 'select (x.k, x.b) from x in source(delta, "t");') == Bag([(1, b"\0\xff"), (2, None)])
    for asked in ('source(delta, "t")', 'source(delta, "t", type(<p: binary>))'):
        with pytest.raises(UserError, match="is of type bytes in a path"):
            value_of(tmp_path, f"select x.p from x in {asked};")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('source(delta, "u")', "there is no Delta table in .*/u"),
        ('source(delta, "t", version(7))', "the Delta table .*/t has no version 7: its newest one is 0"),
        ('source(delta, "t", version(0 - 1))', "a version is a whole number from 0 on"),
        ('source(delta, "t", version("1"))', "a version is a whole number"),
        ('stream(delta, "t", version(0))', "a stream begins with the table as it is, and has no version"),
        ('source(delta, "t", ",")', "`delta` is told the directory of a table"),
        ('source(delta, "t", header)', "`delta` takes the directory of a table, a type and version"),
        ('stream(delta, "t", tagged)', "`delta` takes the directory of a table"),
        ('source(parquet, "t")', "t is a Delta table, of which the files are not the rows"),
        ('stream(parquet, "t", type(<k: long>))', "t is a Delta table, of which the files are not the rows"),
        ('source(csv, "t", version(0), type(int))', "a csv source has no versions"),
        ('stream(socket, "a:1", version(0))', "a version is for a stream with a key"),
        ('source(delta, "t", type(<k: int>))', "the column `k` of .* is of type long, where int was expected"),
        ('source(delta, "t", type(<x: int>))', r"t has no column `x` at version 0; its columns: k, v"),
    ],
)
def test_what_is_no_table(tmp_path: Path, source: str, message: str) -> None:
    """A source that is no readable table has an error that says why."""
    append(tmp_path, [(1, 1)])
    with pytest.raises(UserError, match=message):
        value_of(tmp_path, f"count({source});")


@pytest.mark.parametrize("name", ["a b%c#", "ü*?", "x=1", "s3:", "~", "{}`'"])
def test_odd_paths(tmp_path: Path, name: str) -> None:
    """A table may be in a directory of any name, except for some that `deltalake` does not take."""
    (tmp_path / name).mkdir()
    append(tmp_path / name, [(1, 1)])
    assert value_of(tmp_path / name, 'count(source(delta, "t"));') == 1
    for refused in ("[1]", "a%20b", "a\tb"):
        (tmp_path / refused / "t" / "_delta_log").mkdir(parents=True)
        with pytest.raises(UserError, match=r"deltalake has no table in a directory with .* in its path"):
            value_of(tmp_path / refused, 'count(source(delta, "t"));')


def test_a_compaction_is_not_read(tmp_path: Path) -> None:
    """A compaction changes no rows, and rows that come and go between two looks are not read."""
    append(tmp_path, [(1, 1)])
    append(tmp_path, [(2, 2)])
    followed = Followed.by(tmp_path, ROWS)
    assert followed.step() == 2
    table = DeltaTable(str(tmp_path / "t"))
    table.optimize.compact()
    assert followed.step() == 0
    assert followed.watched[0].offset["version"] == table.version()  # type: ignore[union-attr]
    append(tmp_path, [(3, 3)])
    append(tmp_path, [(4, 4)], mode="overwrite")
    assert followed.step() == 2  # the compacted file goes, and that of the last version comes


def test_a_compaction_that_is_taken_back(tmp_path: Path) -> None:
    """A file that is added, compacted and restored, all in one batch, counts once."""
    append(tmp_path, [(0, 0)])
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    append(tmp_path, [(1, 1)])
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    DeltaTable(str(tmp_path / "t")).restore(1)
    assert followed.step() == 1
    DeltaTable(str(tmp_path / "t")).restore(2)
    followed.step()


def test_a_text_that_stands_for_a_missing_value(tmp_path: Path) -> None:
    """`__HIVE_DEFAULT_PARTITION__` is a string where the log says so, though its directory is that of missing
    values."""
    for k, p in ((1, MISSING), (2, None)):  # one after the other: `deltalake` takes them for one partition
        table = pa.table({"k": [k], "p": pa.array([p], pa.string())})
        write_deltalake(str(tmp_path / "t"), table, mode="append", partition_by=["p"])
    found = value_of(tmp_path, 'select (k, p) from <k: k, p: p> in source(delta, "t");')
    assert found == Bag([(1, MISSING), (2, None)])


def test_texts_with_other_ends_of_lines(tmp_path: Path) -> None:
    """The log has texts of the rows, as the least and the greatest of a file, and a text may have any end of a line."""
    followed, texts = None, ["a", "x\u2028y", "x\u0085\u2029", "\r\n\v\f\x1c"]
    for text in texts:
        write_deltalake(str(tmp_path / "t"), pa.table({"s": [text]}), mode="append")
        followed = followed or Followed.by(tmp_path, 'T = stream(delta, "t"); select x.s from x in T;')
        assert followed.step() == 1
    assert value_of(tmp_path, 'select x.s from x in source(delta, "t");') == Bag(texts)


def test_a_table_that_becomes_a_stream(tmp_path: Path) -> None:
    """A changed query reads as a stream, from its beginning, what was a static table until then."""
    append(tmp_path, [(1, 1), (2, 2)])
    write(tmp_path / "in" / "a.csv", "1\n2\n", 0)
    text = 'R = {kind}(delta, "t"); S = stream(csv, "in", ",", type(<k: long>)); '
    text += "select (s.k, r.v) from s in S, r in R where s.k = r.k;"
    for kind in ("source", "stream", "source"):
        stream = Stream(tmp_path, text.replace("{kind}", kind), max_files=None)
        stream.run()
        answers = stream.answers()
        assert answers[max(answers)] == Bag([(1, 1), (2, 2)])


def test_columns_that_come_and_go(tmp_path: Path) -> None:
    """A column that is newer than a file is null there; one that is gone, or has another type, is an error."""
    append(tmp_path, [(1, 1)])
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    more = pa.table({"k": [2], "v": [2], "w": ["x"]})
    write_deltalake(str(tmp_path / "t"), more, mode="append", schema_mode="merge")
    followed.step()
    assert value_of(tmp_path, 'select (k, w) from <k: k, w: w> in source(delta, "t");') == Bag([(1, None), (2, "x")])
    write_deltalake(str(tmp_path / "t"), pa.table({"k": [2.5], "v": [2]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(UserError, match=r"the column `k` .* is of type double, where long was expected at version 2"):
        followed.step()
    write_deltalake(str(tmp_path / "t"), pa.table({"v": [2]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(UserError, match="has no column `k` at version 3"):
        followed.step()


def test_a_stream_keeps_its_columns(tmp_path: Path) -> None:
    """A stream keeps its columns after a restart, even if the table has others by then."""
    append(tmp_path, [(1, 1)])
    stream = Stream(tmp_path, "select r from r in " + 'stream(delta, "t");')
    stream.run()
    more = pa.table({"k": [2], "w": ["x"], "v": [2]})
    write_deltalake(str(tmp_path / "t"), more, mode="append", schema_mode="merge")
    again = Stream(tmp_path, stream.text)
    again.run()
    assert again.answers()["batch-000001"] == Bag([(1, 1), (2, 2)])


# --- versions and files that are gone -----------------------------------------------------------


def test_another_table_in_its_place(tmp_path: Path) -> None:
    """Another table in the same place is an error, however many versions it has, and so is one at an earlier
    version."""
    append(tmp_path, [(1, 1)])
    append(tmp_path, [(2, 2)])
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    shutil.copytree(tmp_path / "t", tmp_path / "kept")
    shutil.rmtree(tmp_path / "t")
    for _ in range(2):
        append(tmp_path, [(3, 3)])
    with pytest.raises(UserError, match="is another table than the one that was read"):
        followed.step()
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "kept", tmp_path / "t")
    version_file(tmp_path / "t", 1).unlink()
    with pytest.raises(UserError, match="is at version 0, and version 1 was read"):
        followed.step()


def test_versions_that_are_gone(tmp_path: Path) -> None:
    """A log that was cleaned, or a file that was vacuumed, before it was read is an error."""
    append(tmp_path, [(1, 1)])
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    append(tmp_path, [(2, 2)])
    table = DeltaTable(str(tmp_path / "t"))
    table.delete("k = 1")
    shutil.copytree(tmp_path / "t", tmp_path / "kept")
    DeltaTable(str(tmp_path / "t")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(UserError, match=r"is gone, and versions 1 to 4 of .* cannot be read without it") as gone:
        followed.step()
    assert gone.value.hint is not None
    assert "was it vacuumed? start with a new --checkpoint, from the table as it is now" in gone.value.hint
    shutil.rmtree(tmp_path / "t")
    shutil.move(tmp_path / "kept", tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    version_file(tmp_path / "t", 1).unlink()
    with pytest.raises(UserError, match=r"version 1 of .* was removed from its log before it was read"):
        followed.step()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}, "needs version 4 of the protocol"),
        (
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"]}},
            "needs the feature catalogManaged, which is not read here",
        ),
        (
            {"remove": {"path": "x", "deletionVector": {"storageType": "u"}, "dataChange": True}},
            "rows of x in .*/t are deleted by a deletion vector, which is not read here",
        ),
        (
            {"add": {"path": "s3://b/x", "partitionValues": {}, "size": 1, "dataChange": True, **TIME}},
            "not on this machine",
        ),
    ],
)
def test_what_the_log_may_ask_for(tmp_path: Path, action: object, message: str) -> None:
    """Whatever the log asks for that is not supported is an error with its place."""
    append(tmp_path, [(1, 1)])
    spec = compile_over_files(ROWS, base=tmp_path).sources["T"]
    source = Followed.by(tmp_path, ROWS).watched[0].table  # type: ignore[union-attr]
    version_file(tmp_path / "t", 1).write_text(json.dumps(action) + "\n")
    start = {"table": "x", "version": 0}
    with pytest.raises(UserError, match=message) as refused:
        source.changes(start, {"table": "x", "version": 1})
    assert refused.value.span == spec.span


def test_columns_that_are_mapped(tmp_path: Path) -> None:
    """A table with mapped columns is an error, as its files have other names for them."""
    append(tmp_path, [(1, 1)])
    first = version_file(tmp_path / "t", 0)
    mapped = first.read_text().replace('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"id"}')
    for n, name in enumerate("kv"):
        known = rf"{{\"delta.columnMapping.id\":{n},\"delta.columnMapping.physicalName\":\"c{n}\"}}"
        field = rf"\"name\":\"{name}\",\"type\":\"long\",\"nullable\":true,\"metadata\":"
        mapped = mapped.replace(field + "{}", field + known)
    first.write_text(mapped.replace('"minReaderVersion":1', '"minReaderVersion":2'))
    with pytest.raises(UserError, match=r"the columns of .* are mapped \(mode id\)"):
        value_of(tmp_path, 'count(source(delta, "t"));')


# --- partitions ---------------------------------------------------------------------------------


def test_files_that_do_not_lie_as_the_log_says(tmp_path: Path) -> None:
    """Files may have any path, also an absolute one, and a removed file need not name its partition: the log says which
    one it was."""
    table = pa.table({"k": [1, 2, 3], "v": [1, 2, 3], "p": ["a b", None, "c"]})
    write_deltalake(str(tmp_path / "t"), table, partition_by=["p"])
    first = version_file(tmp_path / "t", 0)
    lines = []
    for n, line in enumerate(map(json.loads, first.read_text().splitlines())):
        if "add" in line:
            (file,) = (tmp_path / "t").rglob(Path(line["add"]["path"]).name)
            to = tmp_path / ("t/x=y" if n % 2 else "elsewhere") / f"f {n}.parquet"
            to.parent.mkdir(exist_ok=True)
            file.rename(to)
            path = to.as_uri() if "elsewhere" in str(to) else f"x=y/f%20{n}.parquet"
            line["add"]["path"] = path
        lines.append(json.dumps(line))
    first.write_text("\n".join(lines))
    text = 'select (k, p) from <k: k, p: p> in stream(delta, "t");'
    assert value_of(tmp_path, text) == Bag([(1, "a b"), (2, None), (3, "c")])
    followed = Followed.by(tmp_path, 'T = stream(delta, "t"); select r from r in T;')
    added = [json.loads(line)["add"]["path"] for line in lines if '"add"' in line]
    batch = followed.watched[0].next(None)  # type: ignore[union-attr]
    followed.watched[0].commit(batch)  # type: ignore[arg-type]
    removed = {"remove": {"path": added[0], "dataChange": True, "deletionTimestamp": 1}}
    version_file(tmp_path / "t", 1).write_text(json.dumps(removed))
    (gone,) = followed.watched[0].next(None)  # type: ignore[misc,union-attr]
    assert isinstance(gone, type(batch[0]))  # type: ignore[index]
    assert (gone.weight, gone.copy is None) == (-1, False)
    assert gone.copy.parent.name.startswith("p=")


# --- restarts and crashes -----------------------------------------------------------------------


def test_going_on(tmp_path: Path) -> None:
    """A restarted stream reads the versions that were added since, also after a crash at any file operation."""
    grow(tmp_path, 3, Random(1))
    stream = Stream(tmp_path, SUMS, max_files=1)
    whole = Counting()
    stream.run(whole)
    grow(tmp_path, 4, Random(2))
    stream.run()
    expected = stream.answers()
    assert expected[max(expected)] == batch_answer(stream)
    assert len(expected) == 5
    assert_goes_on_where_cut_off(stream, whole.count, 7)


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    """A stream that is killed has each version in one batch, once."""
    grow(tmp_path, 1, Random(3))
    stream = Stream(tmp_path, SUMS, emit=Emit.CHANGES)
    stream.run()
    grow(tmp_path, 8, Random(4))
    assert_survives_kills(stream, 2)


def test_a_changed_query(tmp_path: Path) -> None:
    """The state of a changed query is built from the version that was read; a file of it that is gone is an error."""
    grow(tmp_path, 3, Random(1))
    Stream(tmp_path, SUMS).run()
    grow(tmp_path, 2, Random(2))
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "kept")
    changed = Stream(tmp_path, SUMS.replace("sum(v)", "sum(v * 2)"))
    changed.run()
    answers = changed.answers()
    assert answers[max(answers)] == batch_answer(changed)
    shutil.rmtree(tmp_path / "out")
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "kept", tmp_path / "checkpoint")
    append(tmp_path, [(9, 9)], mode="overwrite")
    DeltaTable(str(tmp_path / "t")).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(UserError, match=r"the query has changed, and .* must be built again, but .* is gone"):
        Stream(tmp_path, SUMS.replace("sum(v)", "sum(v * 2)")).run()


def test_a_static_table_stays(tmp_path: Path) -> None:
    """A static table beside a stream stays at the version at which the stream began, also after a restart, with the
    columns that it had then."""
    append(tmp_path, [(1, 1), (2, 2)])
    append(tmp_path, [(1, 10)], "names")
    text = 'T = stream(delta, "t"); N = source(delta, "names"); select (t.v, n.v) from t in T, n in N where t.k = n.k;'
    Stream(tmp_path, text).run()
    append(tmp_path, [(2, 20)], "names")
    more = pa.table({"k": [2], "v": [30], "w": ["x"]})
    write_deltalake(str(tmp_path / "names"), more, mode="append", schema_mode="merge")
    append(tmp_path, [(1, 3)])
    stream = Stream(tmp_path, text)
    stream.run()
    answers = stream.answers()
    assert answers[max(answers)] == Bag([(1, 10), (3, 10)])


@pytest.mark.parametrize("names", [("A", "N"), ("N", "A")])
def test_a_version_is_of_one_source(tmp_path: Path, names: tuple[str, str]) -> None:
    """Two sources read one table, one of them at a given version: after a restart both are at their versions."""
    append(tmp_path, [(1, 1), (2, 2)])
    append(tmp_path, [(1, 10)], "names")
    append(tmp_path, [(1, 11)], "names")
    said, newest = names
    text = f"""
    T = stream(delta, "t");
    {said} = source(delta, "names", version(0));
    {newest} = source(delta, "names");
    select (t.v, count({said}), count({newest})) from t in T;
    """
    Stream(tmp_path, text).run()
    append(tmp_path, [(1, 3)])
    append(tmp_path, [(1, 12)], "names")
    stream = Stream(tmp_path, text)
    stream.run()
    answers = stream.answers()
    assert answers[max(answers)] == Bag([(1, 1, 2), (2, 1, 2), (3, 1, 2)])


def test_the_command(tmp_path: Path) -> None:
    """`mrql check` finds the type, and `mrql explain` says that deletions are trusted."""
    append(tmp_path, [(1, 1)])
    (tmp_path / "q.mrql").write_text(GROUPS.replace("r.id", "r.k"))
    runner = CliRunner()
    checked = runner.invoke(main, ["check", str(tmp_path / "q.mrql"), "--data", str(tmp_path)])
    assert "bag((long, long, long))" in checked.output
    explained = runner.invoke(main, ["explain", str(tmp_path / "q.mrql"), "--data", str(tmp_path)])
    assert "rows of T may be deleted, and deletions are trusted" in explained.output
