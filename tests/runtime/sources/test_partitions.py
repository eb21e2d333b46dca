"""Directories such as `dt=2024-01-01`: their files are read, with a column `dt` if the type names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, Record, same
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.files import count_rows, list_files, read_source
from tests.runtime.sources.formats.test_files import spec_of
from tests.support.partitioned import WRITERS, table, tables


def write(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


@seed(2026)
@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from([*WRITERS]))
def test_generated_values(tmp_path_factory: pytest.TempPathFactory, given: tuple, format: str) -> None:  # type: ignore[type-arg]
    """The rows that are read are those that were written, even if the files have a column with the partition's name."""
    home = tmp_path_factory.mktemp("home")
    source, expected = table(home, *given, format)
    assert same(read_source(spec_of(f"source({source})", home)), expected)


@pytest.mark.parametrize("kind", ["source", "stream"])
def test_a_type_that_does_not_name_it_does_not_read_it(tmp_path: Path, kind: str) -> None:
    """A type without the partition's column reads the files without it, also by a pattern for the partitions."""
    write(tmp_path, {"d/dt=1/a.csv": "1\n", "d/dt=x/b.csv": "2\n", "d/_dt=1/c.csv": "3\n", "d/.dt=1/d.csv": "4\n"})
    for path in ("d", "d/dt=*"):
        assert read_source(spec_of(f'{kind}(csv, "{path}", ",", type(int))', tmp_path)) == Bag([1, 2])
        assert read_source(spec_of(f'{kind}(text, "{path}")', tmp_path)) == Bag(["1", "2"])


def test_a_value_that_does_not_fit(tmp_path: Path) -> None:
    """A file in a partition whose value does not fit the type is malformed as a whole, and counts as one row."""
    write(tmp_path, {"d/dt=1/a.csv": "1\n2\n", "d/dt=x/b.csv": "2\n3\n", "d/dt=%FF/c.csv": "1\n"})
    spec = spec_of('source(csv, "d", ",", type(<dt: int, x: int>))', tmp_path)
    with pytest.raises(
        UserError, match=r"c\.csv lies in a partition that cannot be read: not text in UTF-8 \(column dt"
    ):
        read_source(spec)
    found: list[Malformed] = []
    assert read_source(spec, found.append) == Bag([Record({"dt": 1, "x": 1}), Record({"dt": 1, "x": 2})])
    reason = 'lies in a partition that cannot be read: "x" is not a value of type int (column dt)'
    assert found[1] == Malformed(tmp_path / "d/dt=x/b.csv", None, reason)
    assert [count_rows(spec, file) for file in list_files(spec)] == [1, 2, 1]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["dt=1/a", "b"], r"b is in no partition, and .*dt=1/a is in partitions of `dt`"),
        (["dt=1/a", "dt=1/h=1/a"], r"dt=1/a is in partitions of `dt`, and .*dt=1/h=1/a is in partitions of `dt`, `h`"),
        (["dt=1/h=1/a", "h=1/dt=1/a"], r"`dt`, `h`, and .* in partitions of `h`, `dt`"),
        (["dt=1/a", "DT=1/a"], r"DT=1/a is in partitions of `DT`, and .*dt=1/a is in partitions of `dt`"),
        (["dt=1/dt=2/a"], r"in two partitions of the name `dt`"),
        (["dt=/a"], r"in a partition without a value"),
        (["=1/a"], r"in a partition without a name"),
        (["dt=1/b/a"], r"dt=1/b is a directory in a partition, and none itself"),
    ],
)
@pytest.mark.parametrize("kind", ["source", "stream"])
def test_files_that_lie_otherwise(tmp_path: Path, kind: str, files: list[str], message: str) -> None:
    """Files in different or invalid partitions are an error that names them."""
    write(tmp_path, {f"d/{name}": "1\n" for name in files})
    with pytest.raises(UserError, match=message):
        read_source(spec_of(f'{kind}(csv, "d", ",", type(int))', tmp_path))


def test_what_is_above_the_directory_is_no_column(tmp_path: Path) -> None:
    """Only directories inside the one that a source names are its partitions."""
    write(tmp_path, {"dt=1/d/h=2/a.csv": "7\n", "env=x/a.csv": "5,y\n"})
    spec = spec_of('source(csv, "dt=1/d", ",", type(<h: int, dt: int>))', tmp_path)
    assert read_source(spec) == Bag([Record({"h": 2, "dt": 7})])
    for path in ("env=x", "env=x/a.csv", "env=*"):
        spec = spec_of(f'source(csv, "{path}", ",", type(<x: int, env: string>))', tmp_path)
        assert read_source(spec) == Bag([Record({"x": 5, "env": "y"})])


def test_a_type_that_is_found(tmp_path: Path) -> None:
    """The column of a partition is a string if no type is given."""
    write(tmp_path, {"d/dt=01/a.json": '{"x": 1, "dt": 5}\n', "d/dt=2/b.json": '{"x": 2}\n'})
    spec = spec_of('source(json, "d")', tmp_path)
    assert str(spec.row) == "<x: long, dt: string>"
    assert read_source(spec) == Bag([Record({"x": 1, "dt": "01"}), Record({"x": 2, "dt": "2"})])


def test_all_columns_in_the_path(tmp_path: Path) -> None:
    """A type with columns of the path only is accepted if the files have a header; otherwise it is an error."""
    write(tmp_path, {"d/dt=1/a.csv": "x\n1\n2\n"})
    spec = spec_of('source(csv, "d", ",", type(<dt: int>), header)', tmp_path)
    assert read_source(spec) == Bag([Record({"dt": 1})] * 2)
    with pytest.raises(UserError, match="has columns of its own, and the type has none but those of its path"):
        read_source(spec_of('source(csv, "d", ",", type(<dt: int>))', tmp_path))


def test_deletions_in_partitions(tmp_path: Path) -> None:
    """Deletions have the partition's column from their own path, or in their files."""
    write(tmp_path, {"d/dt=1/a.csv": "5\n6\n", "d/dt=2/b.csv": "5\n", "gone/dt=2/c.csv": "5\n", "flat/a.csv": "5,1\n"})
    text = 'stream(csv, "d", ",", type(<x: int, dt: int>), deletions("{}"))'
    left = [Record({"x": 6, "dt": 1})]
    assert read_source(spec_of(text.format("gone"), tmp_path)) == Bag([*left, Record({"x": 5, "dt": 1})])
    assert read_source(spec_of(text.format("flat"), tmp_path)) == Bag([*left, Record({"x": 5, "dt": 2})])


def test_a_stream_that_is_read_at_once_from_a_directory_of_directories(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream over a directory with subdirectories only is reported once, whatever the number of queries that read
    it."""
    (tmp_path / "d" / "in").mkdir(parents=True)
    (tmp_path / "d" / "in" / "1.csv").write_text("1")
    program = compile_over_files(f's = stream(csv, "{tmp_path / "d"}", ",", type(long)); count(s); count(s);')
    runner = ReferenceBatchJob(program)
    assert [runner.answer(query) for query in program.queries] == [0, 0]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'd'} has no file that is read, but the directory in, which is not looked at"
    ]
