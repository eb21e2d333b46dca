"""Files as values: what each format holds, and how missing and malformed parts are read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, Record
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.files import count_rows, read_source


def spec_of(text: str, base: Path) -> SourceSpec:
    """The description of a source written in the language."""
    return next(iter(compile_over_files(f"count({text});", base=base).sources.values()))


CSV_CASES = [
    ('1,"a"\n2,b\n', ",", "type((int, string))", [(1, "a"), (2, "b")]),
    (',""\n', ",", "type((int, string))", [(None, "")]),
    ('1,"a, ""b"""\n', ",", "type((int, string))", [(1, 'a, "b"')]),
    ("1; x \n\n2;y\n", ";", "type((int, string))", [(1, "x"), (2, "y")]),
    ("1,9,x\n", ",", "type((int, any, string))", [(1, "x")]),
    ("true,1e3\n", ",", "type((bool, double))", [(True, 1000.0)]),
    ("7\n", ",", "type(long)", [7]),
    ("0x1p9999\n-0x1p9999\n", ",", "type(double)", [float("inf"), float("-inf")]),
]


@pytest.mark.parametrize(("text", "delimiter", "row", "expected"), CSV_CASES)
def test_csv(tmp_path: Path, text: str, delimiter: str, row: str, expected: list[object]) -> None:
    """Fields may be quoted, an empty unquoted field is missing, blanks around a field are not part of it."""
    (tmp_path / "f.csv").write_text(text)
    assert read_source(spec_of(f'source(csv, "f.csv", "{delimiter}", {row})', tmp_path)) == Bag(expected)


BEHIND = [
    ("csv", "1,a,\n2,b , \n", [(1, "a"), (2, "b")]),
    ("csv", '1,"a,",\n2,"",\n\n', [(1, "a,"), (2, "")]),
    ("csv", "1,\n2,\n", [(1, None), (2, None)]),
    ("csv", "", []),
    ("line", "1,a,\n2,b\n3,c,d,e\n,,,\n", [(1, "a"), (2, "b"), (3, "c"), (None, None)]),
    ("line", '1,"a","b,c\n2,,"d",\n', [(1, "a"), (2, None)]),
]


@pytest.mark.parametrize(("format", "text", "expected"), BEHIND)
def test_fields_behind_the_columns(tmp_path: Path, format: str, text: str, expected: list[object]) -> None:
    """A delimiter may end all records, and with `line` further fields are ignored: also in records with a tag, with a
    header, and over several lines."""
    row = "type(<A: int, B: string>)"
    (tmp_path / "f.csv").write_text(text)
    assert read_source(spec_of(f'source({format}, "f.csv", ",", type((int, string)))', tmp_path)) == Bag(expected)
    rows = Bag(Record({"A": a, "B": b}) for a, b in expected)  # type: ignore[misc]
    (tmp_path / "f.csv").write_text("A,B\n" + text)
    for options in ("header", *(["header, multiline"] if text.count('"') % 2 == 0 else [])):
        assert read_source(spec_of(f'source({format}, "f.csv", ",", {row}, {options})', tmp_path)) == rows
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "f.csv").write_text("".join(f"+,{line}\n" for line in text.splitlines() if line))
    assert read_source(spec_of(f'stream({format}, "s", ",", {row}, tagged)', tmp_path)) == rows


HEADER = 'source(csv, "d", ",", type(<A: int, B: string>), header)'
HEADER_CASES = [
    ("B,A\ny,2\n", [(2, "y")], None),
    ('C, "B" , A ,A b\n0,"é\ufffd",3,\n', [(3, "é\ufffd")], None),
    ("", [], None),
    ("\n\nA,B\n", [], None),
    ("A,B\n1,x,2\n", [], "3 fields, where 2 were expected"),
    ("A,C\n1,x\n", [], "the header has no column `B`; its columns: A, C"),
    ("a,B\n1,x\n", [], "the header has no column `A`; it has `a`"),
    ('" A",B\n1,x\n', [], "the header has no column `A`; it has ` A`"),
    ("A,B,A\n1,x,2\n", [], "the header has the column `A` twice"),
    ("A,B,C,C\n1,x,2,3\n", [(1, "x")], None),
]


@pytest.mark.parametrize(("text", "found", "reason"), HEADER_CASES)
def test_csv_header(tmp_path: Path, text: str, found: list[tuple[int, str]], reason: str | None) -> None:
    """With a header, columns are found by their names, in each file by its own; columns that are not asked for are not
    read."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "0.csv").write_text("A,B\n0,first\n")
    (tmp_path / "d" / "1.csv").write_text(text)
    rejected: list[Malformed] = []
    expected = [Record({"A": a, "B": b}) for a, b in [(0, "first"), *found]]
    assert read_source(spec_of(HEADER, tmp_path), rejected.append) == Bag(expected)
    assert [row.reason for row in rejected] == ([] if reason is None else [reason])
    if reason is not None:
        with pytest.raises(UserError, match=r"1\.csv:[12]:1: error: malformed row: "):
            read_source(spec_of(HEADER, tmp_path))


def test_columns_that_may_be_missing(tmp_path: Path) -> None:
    """With `allowMissingColumns`, columns that a file lacks are null; its records have the fields of its own header."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "0.csv").write_text("B\nx\n")
    (tmp_path / "d" / "1.csv").write_text("C,A\n7,1\n")
    spec = spec_of(HEADER.replace("header", "header, allowMissingColumns"), tmp_path)
    assert read_source(spec) == Bag([Record({"A": None, "B": "x"}), Record({"A": 1, "B": None})])


def test_the_tag_of_a_row_is_its_first_field(tmp_path: Path) -> None:
    """The first field of a tagged row is its tag, whatever the header calls it."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "0.csv").write_text("B,B,A\n+,x,1\n+,y,2\n-,x,1\n")
    spec = spec_of(HEADER.replace("source", "stream").replace("header", "header, tagged"), tmp_path)
    assert read_source(spec) == Bag([Record({"A": 2, "B": "y"})])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('csv, "d", ",", type((int, string)), header', "a header has names, and so must the columns"),
        ('csv, "d", ",", type(int), header', "a header has names, and so must the columns"),
        ('csv, "d", ",", type(<A: int>), allowMissingColumns', "only a header says that columns are missing"),
    ],
)
def test_what_has_no_names(tmp_path: Path, source: str, message: str) -> None:
    """A header needs a type with names, and `allowMissingColumns` needs a header."""
    with pytest.raises(UserError, match=message):
        spec_of(f"source({source})", tmp_path)


def test_a_replacement_character_is_text(tmp_path: Path) -> None:
    """The replacement character is valid text; bytes that are not UTF-8 are malformed, and shown as that character."""
    (tmp_path / "f.csv").write_bytes(b"1,\xef\xbf\xbd\n2,\xff\n3,\xed\xa0\x80\n")
    rejected: list[Malformed] = []
    spec = spec_of('source(csv, "f.csv", ",", type((int, string)))', tmp_path)
    assert read_source(spec, rejected.append) == Bag([(1, "\ufffd")])
    assert [row.reason for row in rejected] == ["not text in UTF-8 (column _2)"] * 2
    assert rejected[0].text == "2,\ufffd"


def test_json(tmp_path: Path) -> None:
    """A field that is not there is null; nested records and collections are read as they are."""
    (tmp_path / "f.json").write_text('{"A": 1, "T": [{"U": "x"}]}\n{"T": []}\n')
    spec = spec_of('source(json, "f.json", type(<A: int, T: {<U: string>}>))', tmp_path)
    expected = [
        Record({"A": 1, "T": Bag([Record({"U": "x"})])}),
        Record({"A": None, "T": Bag()}),
    ]
    assert read_source(spec) == Bag(expected)


@pytest.mark.parametrize("line", ['{"A": "x"}', "[1]", "{", '{"A": 3000000000}'])
def test_malformed_json(tmp_path: Path, line: str) -> None:
    """A line that is no object of the type is an error with the file and the line."""
    (tmp_path / "f.json").write_text('{"A": 1}\n' + line + "\n")
    with pytest.raises(UserError, match=r"f\.json:2:1: error: malformed row"):
        read_source(spec_of('source(json, "f.json", type(<A: int>))', tmp_path))


def test_parquet_knows_its_type(tmp_path: Path) -> None:
    """The type of parquet rows is read from the file."""
    table = pa.table({"A": pa.array([1, None], pa.int64()), "L": pa.array([[1.5], []], pa.list_(pa.float64()))})
    pq.write_table(table, tmp_path / "f.parquet")
    spec = spec_of('source(parquet, "f.parquet")', tmp_path)
    assert str(spec.type) == "{<A: long, L: [double]>}"
    assert read_source(spec) == Bag([Record({"A": 1, "L": [1.5]}), Record({"A": None, "L": []})])


def test_hidden_files_are_not_read(tmp_path: Path) -> None:
    """Names that begin with `.` or `_` are not looked at."""
    for name in ("a.csv", ".b.csv", "_c.csv"):
        (tmp_path / name).write_text("1\n")
    assert len(read_source(spec_of(f'source(csv, "{tmp_path}", ",", type(int))', tmp_path))) == 1


FOUND = [
    (['{"a": 1, "b": "x"}', '{"a": 2.5, "c": true}'], "{<a: double, b: string, c: bool>}"),
    (['{"a": 1}', '{"a": "x"}'], "{<a: any>}"),
    (['{"a": null}', "{}"], "{<a: any>}"),
    (['{"a": []}', '{"a": [{"b": 1}, {"c": null}]}'], "{<a: [<b: long, c: any>]>}"),
    (['{"a": {"b": 1}}', '{"a": [1]}'], "{<a: any>}"),
    (['{"a": 12345678901234567890}'], "{<a: decimal(38, 0)>}"),
    (["1", "2.5"], "{double}"),
    (['{"a": 1}', "[1]"], "{any}"),
    (["no json", '{"a": 1}'], "{<a: long>}"),
    (['{"a": 1}'] * 1000 + ['{"a": "later", "b": 1}'], "{<a: long>}"),
    ([f'{{"k{n}": 1}}' for n in range(201)], "{any}"),
    (['{"a\\"b": 1}'], "{any}"),
]


@pytest.mark.parametrize(("rows", "expected"), FOUND)
def test_the_type_of_json_rows_is_found(tmp_path: Path, rows: list[str], expected: str) -> None:
    """The type that is found in JSON is the least one that holds the first rows; a part without a type is `any`."""
    (tmp_path / "f.json").write_text("\n".join(rows) + "\n")
    assert str(spec_of('source(json, "f.json")', tmp_path).type) == expected


def test_a_large_sample_is_bounded(tmp_path: Path) -> None:
    """Of long rows fewer than a thousand are sampled."""
    row = json.dumps({"a": "x" * 10_000})
    (tmp_path / "f.json").write_text("\n".join([*[row] * 120, '{"a": 1}']))
    assert str(spec_of('source(json, "f.json")', tmp_path).type) == "{<a: string>}"


def test_patterns_name_files_and_directories(tmp_path: Path) -> None:
    """A pattern may name directories, whose files are read, except for hidden ones."""
    for name in ("d1/a.csv", "d2/b.csv", "d2/_c.csv", "_d3/d.csv", "d4.csv", "e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name[-5]}\n")
    found = read_source(spec_of('source(csv, "*d*", ",", type(string))', tmp_path))
    assert sorted(found) == ["4", "a", "b"]
    assert sorted(read_source(spec_of('source(csv, "d[!1]/{a,b}.csv", ",", type(string))', tmp_path))) == ["b"]


def damaged(file: Path) -> None:
    """Writes a gzip file with corrupt data."""
    data = bytearray(gzip.compress(b"1,2\n" * 1000))
    data[15] ^= 0xFF
    data[18] ^= 0xFF
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("source", "write", "message"),
    [
        ('csv, "f.gz", ",", type((int, int))', damaged, "f.gz is not a whole .gz file: Error -3"),
        (
            'xml, "f.xml", {"a"}',
            lambda file: file.write_text('<?xml version="1.0" encoding="foo"?><a>1</a>'),
            "f.xml:1:1: error: malformed row: the file is written in foo, and only UTF-8 is read",
        ),
        (
            'parquet, "f.parquet", type(<A: date>)',
            lambda file: pq.write_table(pa.table({"A": pa.array([2**31 - 1], pa.int32()).view(pa.date32())}), file),
            "f.parquet has a value that is out of range",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, source: str, write: Callable[[Path], object], message: str) -> None:
    """A file that the readers of Python or Arrow fail at is an error that names it."""
    write(tmp_path / source.split('"')[1])
    with pytest.raises(UserError) as caught:
        read_source(spec_of(f"source({source})", tmp_path))
    assert message in str(caught.value)


@pytest.mark.parametrize("other", ["in/a.csv", "_a.csv", ".a.csv", ".a.csv.gz"])
def test_a_directory_with_nothing_that_is_read(tmp_path: Path, other: str) -> None:
    """A directory whose files are all skipped is an error, but not for a stream; what Spark leaves beside an empty
    answer does not count."""
    place = tmp_path / "d" / other
    place.parent.mkdir(parents=True)
    for nothing in ("_SUCCESS", "._SUCCESS.crc", ".gitkeep", ".part-0.csv.crc"):
        (tmp_path / "d" / nothing).write_text("")
    (tmp_path / "d" / ".batch-1.tmp").mkdir()
    text = 'source(csv, "d", ",", type(int))'
    assert read_source(spec_of(text, tmp_path)) == Bag() if place.parent.name == "d" else True
    place.write_text("1\n")
    with pytest.raises(UserError, match=r"d has no file that is read, but (in|_a\.csv|\.a\.csv)"):
        read_source(spec_of(text, tmp_path))
    assert read_source(spec_of(text.replace("source", "stream"), tmp_path)) == Bag()


@pytest.mark.parametrize(
    "text",
    [
        'count(source(csv, "a\\u0000", ",", type(int)));',
        'count(stream(csv, "a", ",", type(int), deletions("a\\u0000")));',
        'dump "a\\u0000" from {1};',
        'include "a\\u0000";',
    ],
)
def test_no_file_is_called_so(tmp_path: Path, text: str) -> None:
    """A path with the character 0 is an error with its place."""
    with pytest.raises(UserError, match="no path has the character") as caught:
        compile_over_files(text, base=tmp_path)
    assert caught.value.span is not None


def test_a_file_that_is_malformed_as_a_whole_counts_as_one(tmp_path: Path) -> None:
    """A file that is malformed as a whole counts as one row, so that no rows are left without the malformed ones."""
    for name, source in {
        "f.parquet": 'parquet, "f.parquet", type(<A: int>)',
        "f.xml": 'xml, "f.xml", {"a"}',
        "f.csv": 'csv, "f.csv", ",", type(<A: int>), header',
    }.items():
        (tmp_path / name).write_text("<r><a/><a/><b></r>\n\n")
        assert count_rows(spec_of(f"source({source})", tmp_path), tmp_path / name) == 1
