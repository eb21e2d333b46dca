"""Names of files and directories with any characters: each path is one file, in both engines and in every format."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, same
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import Malformed, Quarantine
from mrql.runtime.sources.files import list_files, read_source
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.readers import read
from mrql.runtime.spark.relation.frame import ColumnNames, flat
from tests.runtime.checkpoint.streams import Stream, rows, write
from tests.runtime.spark.test_equivalence import few

ODD = [*"*?[]{}\\:%#&=+ \n\t\"'`$~!;,|<>é😀", "%20", "[1]", "{a,b}", "..", "://", "file:", "${x}"]
NAME = st.lists(st.sampled_from([*ODD, "a", "1", os.fsdecode(b"\xff")]), min_size=1, max_size=5).map("".join)
"""Names with special characters; some are not UTF-8."""


def plain(name: str) -> str:
    """A name of a file that is read: not hidden, without a slash, and not `..`."""
    return "n" + name.replace("/", "|")


def csv(file: Path, number: int) -> None:
    file.write_text(f"{number},x\n")


def json(file: Path, number: int) -> None:
    file.write_text(f'{{"A": {number}}}\n')


def xml(file: Path, number: int) -> None:
    file.write_text(f"<t><a>{number}</a></t>")


def parquet(file: Path, number: int) -> None:
    with file.open("wb") as out:  # Arrow itself opens no file whose name is not UTF-8
        pq.write_table(pa.table({"A": [number]}), out)


def orc_file(file: Path, number: int) -> None:
    with file.open("wb") as out:
        orc.write_table(pa.table({"A": [number]}), out)


FORMATS: list[tuple[str, Callable[[Path, int], None]]] = [
    ('csv, "{}", ",", type((int, string))', csv),
    ('csv, "{}", ",", type((int, string)), multiline', csv),
    ('json, "{}", type(<A: long>)', json),
    ('text, "{}"', csv),
    ('xml, "{}", {{"a"}}', xml),
    ('parquet, "{}"', parquet),
    ('orc, "{}"', orc_file),
]


def rows_of(spark: SparkSession | None, source: str, base: Path) -> Bag:
    """The rows of a source; on Spark they are the same with a quarantine and without."""
    spec = next(iter(compile_over_files(f"count(source({source.format('d')}));", base=base).sources.values()))
    if spark is None:
        return read_source(spec)
    (base.parent / "q").mkdir(exist_ok=True)
    kept, found = (
        collect_value(flat(read(spark, spec, quarantine=q), ColumnNames()).df.dataframe(spark), spec.type)
        for q in (Quarantine(base.parent / "q"), None)
    )
    assert isinstance(found, Bag)
    assert same(kept, found)
    return found


def filled(tmp_path_factory: pytest.TempPathFactory, directory: str, names: list[str], write: object) -> Path:
    base = tmp_path_factory.mktemp("names") / plain(directory)
    (base / "d").mkdir(parents=True)
    for number, name in enumerate(names):
        write(base / "d" / plain(name), number)  # type: ignore[operator]
    return base


NAMES = st.lists(NAME, min_size=1, max_size=6, unique=True)


@seed(2026)
@settings(few, max_examples=20)
@given(NAME, NAMES, st.sampled_from(FORMATS))
def test_each_file_is_read_once(
    tmp_path_factory: pytest.TempPathFactory,
    directory: str,
    names: list[str],
    format: tuple[str, Callable[[Path, int], None]],
) -> None:
    """Each file is read once, whatever its name and that of its directory."""
    base = filled(tmp_path_factory, directory, names, format[1])
    assert len(rows_of(None, format[0], base)) == len(names)


@pytest.mark.spark
@seed(2026)
@settings(few, max_examples=2)
@given(NAME, NAMES)
def test_on_spark(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, directory: str, names: list[str]
) -> None:
    """On Spark, every format has the rows of the reference reader."""
    for source, make in FORMATS:
        base = filled(tmp_path_factory, directory, [*names, "r[1].x", "r1.x", "a:b", "*", "._COPYING_"], make)
        found = rows_of(spark, source, base)
        assert len(found) == len({*names, "r[1].x", "r1.x", "a:b", "*", "._COPYING_"})
        assert same(found, rows_of(None, source, base))


@pytest.mark.spark
def test_malformed_rows_have_the_names_of_their_files(spark: SparkSession, tmp_path: Path) -> None:
    """Malformed rows have the names of their files on disk, also if Spark has read these under others."""
    (tmp_path / "d").mkdir()
    names = ["a[1].csv", "a:b.csv", "a b%20.csv", os.fsdecode(b"\xff.csv"), "plain.csv"]
    for name in names:
        (tmp_path / "d" / name).write_text("x\n1\n")
    spec = next(iter(compile_over_files('count(source(csv, "d", ",", type(int)));', base=tmp_path).sources.values()))
    rejected: list[Malformed] = []
    assert len(read_source(spec, rejected.append)) == len(names)
    quarantine = Quarantine(tmp_path)
    assert read(spark, spec, quarantine=quarantine).df.dataframe(spark).count() == len(names)
    assert set(quarantine.waiting.values()) == set(rejected)
    assert {row.file.name for row in rejected} == {*names}


@pytest.mark.spark
def test_compressed_files_are_known_by_their_extension(spark: SparkSession, tmp_path: Path) -> None:
    """Compressed files are known by their extension, also if they are read through a link."""
    (tmp_path / "a[1].csv.gz").write_bytes(gzip.compress(b"1\n2\n"))
    spec = next(iter(compile_over_files('count(source(csv, "*.gz", ",", type(int)));', base=tmp_path).sources.values()))
    assert read(spark, spec).df.dataframe(spark).count() == 2


def test_patterns(tmp_path: Path) -> None:
    """A path that exists as it is written is not taken for a pattern."""
    base = tmp_path / "b[1]*"
    base.mkdir()
    for name in ("r1.csv", "r2.csv", "s*.csv", "s1.csv", "t[1].csv"):
        (base / name).write_text("1\n")

    def names(path: str) -> list[str]:
        source = f'stream(csv, "{path}", ",", type(int))'
        spec = next(iter(compile_over_files(f"count({source});", base=base).sources.values()))
        return [file.name for file in list_files(spec)]

    assert names("r*") == ["r1.csv", "r2.csv"]
    assert names("r[12]") == []
    assert names("{r[13],s?}.csv") == ["r1.csv", "s*.csv", "s1.csv"]
    assert names("s*.csv") == ["s*.csv"]
    assert names("t[1].csv") == ["t[1].csv"]
    assert names("t[1]*") == []
    assert names("t[[]1]*") == ["t[1].csv"]


SUMS = """
edges = stream(csv, "edges", ",", type((long, long)));
select (x, sum(y), max(y)) from (x, y) in edges group by x;
"""


ON_SPARK = pytest.mark.spark


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("reference", "a [1]{b,c}*?:%20#\\\n😀"),
        ("reference", os.fsdecode(b"n\xff\xfe")),
        pytest.param("spark", "a [1]{b,c}*?:%20#\\\n😀", marks=ON_SPARK),
    ],
)
def test_a_stream(request: pytest.FixtureRequest, tmp_path: Path, engine: str, name: str) -> None:
    """A stream may have its data, checkpoint, output and malformed rows in directories with such names."""
    home = tmp_path / name
    write(home / "edges" / "a[1].csv", rows([(1, 2), (1, 3)]), 1)
    spark = request.getfixturevalue("spark") if engine == "spark" else None
    stream = Stream(home, SUMS, engine, spark=spark, quarantine="kept")
    stream.run()
    write(home / "edges" / "a1.csv", rows([(1, 5), (2, 5)]), 2)
    write(home / "edges" / f"b:{name}.csv", "x\n" + rows([(2, 7)]), 3)
    again = Stream(home, SUMS, engine, spark=spark, quarantine="kept")
    again.run()
    assert sorted(list(again.answers().values())[-1]) == [(1, 10, 5), (2, 12, 7)]
    assert [kept.name for kept in (home / "kept").glob("[!.]*")] == ["batch-000002"]


@pytest.mark.spark
def test_names_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads files with such names, and cannot write to a directory with one."""
    odd = os.fsdecode(b"n\xff\xfe")
    write(tmp_path / "edges" / f"{odd}.csv", rows([(1, 2), (1, 3)]), 1)
    stream = Stream(tmp_path, SUMS, "spark", spark=spark)
    stream.run()
    stream.run()
    assert list(stream.answers().values()) == [Bag([(1, 5, 3)])]
    with pytest.raises(UserError, match="has a name that is not UTF-8, and Spark cannot write there"):
        Stream(tmp_path, SUMS, "spark", spark=spark, checkpoint_name="other", output=odd).run()
