"""Tables of Iceberg: at which snapshots they are read, and the errors where they are not."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType

from mrql.algebra.errors import UserError
from mrql.algebra.values.decimals import EXACT
from mrql.algebra.values.values import Bag, Record
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from tests.support.followed_tables import ROWS as ROWS_OF_DELTA
from tests.support.followed_tables import Followed
from tests.support.iceberg_tables import (
    add_file,
    append,
    catalog,
    compact,
    content,
    create,
    delete_rows,
    edit,
    table_at,
    without_deletes,
)

ROWS = ROWS_OF_DELTA.replace("delta", "iceberg")
COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def grow(home: Path, *ks: int, name: str = "t") -> Table:
    """Adds a snapshot with a row for each key; returns the table."""
    append(home / name, [{"k": k, "v": k} for k in ks])
    return table_at(home / name)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty table `t`."""
    create(tmp_path / "t", COLUMNS)
    return tmp_path


def value_of(home: Path, text: str) -> object:
    program = compile_over_files(text, base=home)
    return ReferenceBatchJob(program).answer(program.queries[-1])


def keys(home: Path) -> object:
    return value_of(home, 'select k from <k: k> in source(iceberg, "t", type(<k: long>));')


def data_files(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


# --- snapshots ----------------------------------------------------------------------------------


def test_a_table_as_it_was(home: Path) -> None:
    """`version(n)` reads a snapshot; without it, and for a stream that is read as a whole, the newest one is read. A
    table without a snapshot is empty."""
    assert value_of(home, 'source(iceberg, "t");') == Bag()
    first = grow(home, 1).current_snapshot()
    grow(home, 2)
    assert first is not None
    assert value_of(home, f'source(iceberg, "t", version({first.snapshot_id}));') == Bag([Record({"k": 1, "v": 1})])
    assert value_of(home, 'count(source(iceberg, "t"));') == 2
    assert value_of(home, 'select k from <k: k> in stream(iceberg, "t", type(<k: long>));') == Bag([1, 2])
    with pytest.raises(UserError, match=r"the Iceberg table .*/t has no snapshot 7 \(any more\): its newest one is"):
        value_of(home, 'source(iceberg, "t", version(7));')


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('source(iceberg, "u")', "there is no Iceberg table in .*/u"),
        ('source(parquet, "t")', "t is an Iceberg table, of which the files are not the rows"),
        ('stream(parquet, "t", type(<k: long>))', "t is an Iceberg table, of which the files are not the rows"),
        ('source(parquet, "t/data")', "data is a part of an Iceberg table, of which the files are not the rows"),
        (
            'source(iceberg, "t", type(<k: int>))',
            "the column `k` of .* is of type long, where int was expected",
        ),
        ('source(iceberg, "t", type(<x: int>))', r"t has no column `x` at snapshot \d+; its columns: k, v"),
    ],
)
def test_what_is_no_table(home: Path, source: str, message: str) -> None:
    """A source that is no readable table has an error that says why."""
    grow(home, 1)
    with pytest.raises(UserError, match=message):
        value_of(home, f"count({source});")


@pytest.mark.parametrize("name", ["a b%20c#", "ü*?[1]", "x=1", "s3:", "k=5"])
def test_odd_paths(tmp_path: Path, name: str) -> None:
    """A table may be in a directory of any name, which is not taken for a partition."""
    (tmp_path / name).mkdir()
    create(tmp_path / name / "t", COLUMNS)
    grow(tmp_path / name, 1)
    assert keys(tmp_path / name) == Bag([1])


def test_only_changes_are_read(home: Path) -> None:
    """A compaction changes no rows, and rows that come and go between two looks are not read. A file that is added,
    compacted and added again counts once."""
    grow(home, 1)
    followed = Followed.by(home, ROWS)
    assert followed.step() == 1
    grow(home, 2)
    compact(table_at(home / "t"))
    assert followed.step() == 1
    before = followed.watched[0].offset
    compact(table_at(home / "t"))
    assert followed.step() == 0
    assert followed.watched[0].offset != before
    known = {*data_files(grow(home, 3))}
    table_at(home / "t").delete("k = 3")
    assert followed.step() == 0
    (file,) = {*data_files(grow(home, 4))} - known
    compact(table_at(home / "t"))
    add_file(table_at(home / "t"), Path(file))
    table, offset = followed.watched[0].table, followed.watched[0].offset  # type: ignore[union-attr]
    assert sorted(one.weight for one in table.changes(offset, table.latest(offset, None))) == [-1, 1, 1]
    followed.step()
    assert followed.answer == Bag(Record({"k": k, "v": k}) for k in (1, 2, 4, 4))


def test_snapshots_that_do_not_hang_together(home: Path) -> None:
    """After a rollback, or where a snapshot in between has expired, the files of two snapshots are compared; it is an
    error if the snapshot that was read has expired."""
    first = grow(home, 1).current_snapshot()
    assert first is not None
    followed = Followed.by(home, ROWS)
    followed.step()
    grow(home, 2)
    followed.step()
    table_at(home / "t").manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert followed.step() == 1
    between = grow(home, 3).current_snapshot()
    grow(home, 4)
    assert between is not None
    table_at(home / "t").maintenance.expire_snapshots().by_id(between.snapshot_id).commit()
    assert followed.step(1) == 2
    now = grow(home, 5).snapshots()
    for snapshot in now[:-1]:
        table_at(home / "t").maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    with pytest.raises(UserError, match=r"snapshot \d+ of .*/t was expired, and those after it are not known") as gone:
        followed.step()
    assert gone.value.hint is not None
    assert gone.value.hint.startswith("start with a new --checkpoint, from the table as it is now")
    table, offset = followed.watched[0].table, followed.watched[0].offset  # type: ignore[union-attr]
    with pytest.raises(UserError, match="was expired"):  # it may expire between the look and the reading
        table.changes(offset, table.latest(None, None))


def test_some_snapshots_at_a_time(home: Path) -> None:
    """A batch has as many snapshots as have the given number of files, and at least one."""
    grow(home, 9)
    followed = Followed.by(home, ROWS)
    followed.step()
    for k in range(5):
        grow(home, k)
    assert [followed.step(2) for _ in range(4)] == [2, 2, 1, 0]


def test_another_table_in_its_place(home: Path) -> None:
    """Another table in the same place is an error."""
    grow(home, 1)
    followed = Followed.by(home, ROWS)
    followed.step()
    catalog(home).drop_table("d.t")
    shutil.rmtree(home / "t")
    create(home / "t", COLUMNS)
    with pytest.raises(UserError, match="is another table than the one that was read"):
        followed.step()


def test_a_file_that_is_gone(home: Path) -> None:
    """A file that is gone is an error if it has to be read, here for the deletion of its rows."""
    (file,) = data_files(grow(home, 1))
    followed = Followed.by(home, ROWS)
    followed.step()
    table_at(home / "t").delete("k = 1")
    Path(file).unlink()
    with pytest.raises(UserError, match=r"is gone, and what has come since snapshot \d+ of .* cannot be read without"):
        followed.step()


# --- rows that are deleted by delete files ------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({}, "position deletes"),
        ({"content": DataFileContent.EQUALITY_DELETES, "equality_ids": [1]}, "equality deletes"),
        ({"file_format": FileFormat.PUFFIN}, "a deletion vector"),
    ],
)
def test_deleted_rows_are_not_read_over(home: Path, said: dict[str, Any], kind: str) -> None:
    """Delete files are an error; once the files have been rewritten, the same stream goes on."""
    grow(home, 1, 2)
    followed = Followed.by(home, ROWS)
    followed.step()
    table = grow(home, 3)
    delete_rows(table, data_files(table)[0], [0], **said)
    if kind == "position deletes":
        assert content(home / "t") == Bag([Record({"k": 1, "v": 1}), Record({"k": 2, "v": 2})])
    message = rf"rows of .*/t are deleted by {kind}, which are not read here: .*deletes-1"
    with pytest.raises(UserError, match=message):
        followed.step()
    assert followed.step(1) == 1
    with pytest.raises(UserError, match=message):
        followed.step(1)
    with pytest.raises(UserError, match=f"are deleted by {kind}"):
        keys(home)
    if kind == "position deletes":
        compact(table_at(home / "t"))
        without_deletes(table_at(home / "t"))
        followed.step(1)
        assert keys(home) == Bag([1, 2])


# --- columns ------------------------------------------------------------------------------------


def test_columns_that_come(home: Path) -> None:
    """A column that is newer than a file is null there; a stream keeps the columns that it began with."""
    first = grow(home, 1).current_snapshot()
    followed = Followed.by(home, ROWS)
    followed.step()
    with table_at(home / "t").update_schema() as schema:
        schema.add_column("w", StringType())
    assert str(compile_over_files('source(iceberg, "t");', base=home).queries[0].type) == (
        "{<k: long, v: long, w: string>}"
    )
    append(home / "t", [{"k": 2, "v": 2, "w": "x"}])
    followed.step()
    assert value_of(home, 'select (k, w) from <k: k, w: w> in source(iceberg, "t");') == Bag([(1, None), (2, "x")])
    assert first is not None
    was = f'source(iceberg, "t", version({first.snapshot_id}));'
    assert str(compile_over_files(was, base=home).queries[0].type) == "{<k: long, v: long>}"


def test_types_that_widen(tmp_path: Path) -> None:
    """Files that are older than a wider type are read as of the wider one; a stream keeps the type that it began
    with."""
    create(tmp_path / "t", pa.schema([("i", pa.int32()), ("f", pa.float32()), ("l", pa.list_(pa.int32()))]))
    append(tmp_path / "t", [{"i": 1, "f": 0.5, "l": [1]}])
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    with table_at(tmp_path / "t").update_schema() as schema:
        schema.update_column("i", LongType())
        schema.update_column("f", DoubleType())
        schema.update_column(("l", "element"), LongType())
    append(tmp_path / "t", [{"i": 2**40, "f": 1e300, "l": [2**40]}])
    found = value_of(tmp_path, 'select (i, f, l) from <i: i, f: f, l: l> in source(iceberg, "t");')
    assert found == Bag([(1, 0.5, [1]), (2**40, 1e300, [2**40])])
    with pytest.raises(UserError, match=r"the column `i` of .* is of type long, where int was expected"):
        followed.step()


def test_decimals(tmp_path: Path) -> None:
    """Decimals have all their digits, also in files that are older than the precision that a column has by now."""
    first, most = Decimal("-0.05"), Decimal(10**38 - 1).scaleb(-10, EXACT)
    money, many = pa.decimal128(4, 2), pa.decimal128(38, 10)
    create(tmp_path / "t", pa.schema([("d", money), ("m", many)]))
    append(tmp_path / "t", [{"d": first, "m": most}, {"d": Decimal("99.99"), "m": None}])
    with table_at(tmp_path / "t").update_schema() as schema:
        schema.update_column("d", DecimalType(20, 2))
    append(tmp_path / "t", [{"d": Decimal(10**17), "m": most.copy_negate()}])
    text = 'rows = source(iceberg, "t"); (rows, sum(select d from <d: d> in rows), sum(select m from <m: m> in rows));'
    assert str(compile_over_files(text, base=tmp_path).queries[0].type).startswith(
        "({<d: decimal(20, 2), m: decimal(38, 10)>}, decimal(30, 2), "
    )
    rows, d, m = value_of(tmp_path, text)  # type: ignore[misc]
    assert {row["m"] for row in rows} == {most, None, most.copy_negate()}
    assert (d, m) == (Decimal(10**17) + Decimal("99.94"), 0)


def renamed(home: Path) -> None:
    with table_at(home / "t").update_schema() as schema:
        schema.rename_column("v", "w")


def swapped(home: Path) -> None:
    for old, new in (("k", "x"), ("v", "k"), ("x", "v")):
        with table_at(home / "t").update_schema() as schema:
            schema.rename_column(old, new)


def dropped_and_added(home: Path) -> None:
    with table_at(home / "t").update_schema() as schema:
        schema.delete_column("v")
    with table_at(home / "t").update_schema() as schema:
        schema.add_column("v", LongType())


@pytest.mark.parametrize(
    ("change", "of_file", "of_stream"),
    [
        (renamed, "`w` is called `v`", "has no column `v`"),
        (swapped, "`v` is called `k`", "others than those that were read: `k` is called `v`"),
        (dropped_and_added, "`v` is another column, which had that name", "`v` is another column, which had that name"),
    ],
)
def test_columns_that_are_called_otherwise(
    home: Path, change: Callable[[Path], None], of_file: str, of_stream: str
) -> None:
    """It is an error if a name refers to another column than in a file, or than when the stream began; columns that
    keep their names are read."""
    grow(home, 1)
    followed = Followed.by(home, ROWS)
    followed.step()
    change(home)
    names = table_at(home / "t").schema().column_names
    append(home / "t", [dict.fromkeys(names, 2)])
    with pytest.raises(UserError, match=f"the columns of .*parquet are called otherwise .*: {of_file}"):
        value_of(home, 'source(iceberg, "t");')
    with pytest.raises(UserError, match=of_stream):
        followed.step()
    if change is not swapped:
        assert keys(home) == Bag([1, 2])


def test_names_that_files_cannot_have(tmp_path: Path) -> None:
    """A column whose name Iceberg changes in Parquet files is an error; other columns are read."""
    create(tmp_path / "t", pa.schema([("k", pa.int64()), ("a b", pa.int64())]))
    append(tmp_path / "t", [{"k": 1, "a b": 2}])
    with pytest.raises(UserError, match="`a b` is called `a_x20b`"):
        value_of(tmp_path, 'source(iceberg, "t");')
    assert keys(tmp_path) == Bag([1])


def test_files_that_were_there_before(home: Path) -> None:
    """Files that were added to a table have no ids of columns: the table's name mapping says which columns they
    have."""
    pq.write_table(pa.table({"v": [1], "k": [5]}), home / "f.parquet")
    table_at(home / "t").add_files([str(home / "f.parquet")])
    assert keys(home) == Bag([5])
    with table_at(home / "t").update_schema() as schema:
        schema.rename_column("k", "x")
    with pytest.raises(UserError, match="`x` is called `k`"):
        value_of(home, 'source(iceberg, "t");')

    def forget(metadata: dict[str, Any]) -> None:
        del metadata["properties"]["schema.name-mapping.default"]

    edit(table_at(home / "t"), forget)
    with pytest.raises(UserError, match=r"f.parquet does not say which columns of .*/t its own are"):
        value_of(home, 'source(iceberg, "t");')


def test_values_that_are_in_no_file(home: Path) -> None:
    """A value that is only in the partition, or is the default of a column, is an error, and not taken for missing."""
    with table_at(home / "t").update_spec() as spec:
        spec.add_identity("k")
    (file,) = data_files(grow(home, 1))
    pq.write_table(pq.read_table(file).select(["v"]), file)
    with pytest.raises(UserError, match="has no column `k`, but the value of its partition, which is not read here"):
        keys(home)
    grow(home, 2, name="t")
    table_at(home / "t").delete("k = 1")

    def with_default(metadata: dict[str, Any]) -> None:
        column = {"id": 9, "name": "d", "type": "long", "required": False, "initial-default": 7}
        metadata["schemas"][-1]["fields"].append(column)

    edit(table_at(home / "t"), with_default)
    with pytest.raises(UserError, match="has no column `d`, but the value 7 that it has by default"):
        value_of(home, 'source(iceberg, "t");')
    assert keys(home) == Bag([2])


def test_directories_say_nothing(home: Path) -> None:
    """The name of a directory is no value: a missing value in `k=null` is missing. The directories of a table cannot be
    read as plain files."""
    with table_at(home / "t").update_spec() as spec:
        spec.add_identity("k")
    append(home / "t", [{"k": None, "v": 1}, {"k": 2, "v": 2}])
    assert sorted(Path(file).parent.name for file in data_files(table_at(home / "t"))) == ["k=2", "k=null"]
    assert keys(home) == Bag([None, 2])
    shutil.copytree(home / "t" / "data", home / "plain")
    for source in ('source(parquet, "t/data/k=2")', 'source(parquet, "t/data")'):
        with pytest.raises(UserError, match="is a part of an Iceberg table"):
            value_of(home, f"{source};")


def test_a_file_that_is_there_twice(home: Path) -> None:
    """A file that is in a table twice is an error, as others count its rows twice."""
    (file,) = data_files(grow(home, 1))
    add_file(table_at(home / "t"), Path(file))
    with pytest.raises(UserError, match=r"t has the file .*parquet twice \(snapshot"):
        keys(home)


def test_files_of_other_formats(home: Path) -> None:
    """Files of other formats than Parquet are an error, and so are files that are not on this machine."""
    (file,) = data_files(grow(home, 1))
    Path(file).write_text("x")
    with pytest.raises(UserError, match="is not a Parquet file"):
        keys(home)
    (home / "f.orc").write_text("x")
    add_file(table_at(home / "t"), home / "f.orc", file_format=FileFormat.ORC)
    with pytest.raises(UserError, match="which is of the format ORC, and not of Parquet"):
        keys(home)

    def elsewhere(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["manifest-list"] = "s3://bucket/list.avro"

    edit(table_at(home / "t"), elsewhere)
    with pytest.raises(UserError, match=r"t has the file s3://bucket/list.avro, which is not on this machine"):
        keys(home)


# --- files of metadata --------------------------------------------------------------------------


def test_the_first_format(tmp_path: Path) -> None:
    """Tables of format version 1 are read: their snapshots have no numbers, and the table may have no id."""
    create(tmp_path / "t", COLUMNS, {"format-version": "1"})
    grow(tmp_path, 1)
    followed = Followed.by(tmp_path, ROWS)
    followed.step()
    table_at(tmp_path / "t").overwrite(pa.table({"k": [2], "v": [3]}, COLUMNS))
    followed.step()
    newest = Path(table_at(tmp_path / "t").metadata_location)
    said = json.loads(newest.read_text())
    del said["table-uuid"]
    text = json.dumps(said)
    newest.with_name("00009-x.gz.metadata.json").write_bytes(gzip.compress(text.encode()))
    assert value_of(tmp_path, 'source(iceberg, "t");') == Bag([Record({"k": 2, "v": 3})])
    with pytest.raises(UserError, match="is another table than the one that was read: its id is /"):
        followed.step()


def test_the_newest_file_of_metadata(home: Path) -> None:
    """The newest metadata file is the one that `version-hint.text` names, or a later one; without that, the only one
    with the greatest number."""
    files = home / "t" / "metadata"
    for number in range(3):
        newest = Path(grow(home, number).metadata_location)
        shutil.copy(newest, files / f"v{number + 8}.metadata.json")
    assert keys(home) == Bag([0, 1, 2])
    for hint in ("9\n", "v9", "v10.metadata.json"):
        (files / "version-hint.text").write_text(hint)
        assert keys(home) == Bag([0, 1, 2])  # the later file `v10` is found, too
    (files / "v10.metadata.json").unlink()
    (files / "version-hint.text").write_text("9")
    assert keys(home) == Bag([0, 1])
    (files / "version-hint.text").write_text("12")
    with pytest.raises(UserError, match=r"version-hint.text of .*/t names 12, and there is no such file"):
        keys(home)
    for other in (files / "version-hint.text", *files.glob("v*.json")):
        other.unlink()
    shutil.copy(newest, files / "00003-other.metadata.json")
    with pytest.raises(UserError, match=r"t has two newest files of metadata, 00003-.*metadata.json and 00003-other"):
        keys(home)


def test_metadata_that_are_written_just_now(home: Path) -> None:
    """A metadata file that was just written in part is ignored; after a while it is an error."""
    grow(home, 1)
    half = home / "t" / "metadata" / "00009-x.metadata.json"
    half.write_text('{"format-version": 2, "ta')
    assert keys(home) == Bag([1])
    os.utime(half, (0, 0))
    with pytest.raises(UserError, match=r"00009-x.metadata.json cannot be read: Unterminated string"):
        keys(home)
    half.write_text(json.dumps({"format-version": 9}))
    with pytest.raises(UserError, match=r"00009-x.metadata.json cannot be read: .*"):
        keys(home)
