"""Types that are found in CSV and other files: a type holds the data that it was found in, and no part of a field is
lost."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.values import Bag, Record
from mrql.jobs.loading import compile_over_files
from mrql.runtime.checkpoint.identity import identities
from mrql.runtime.sources.files import read_source
from mrql.runtime.sources.formats import columnar
from mrql.runtime.sources.formats.csv_types import column_types, field_type
from mrql.runtime.sources.formats.csv_values import value_of
from tests.runtime.checkpoint.streams import Stream, write

NUMBERS = ["1", "-1", "+7", "007", "-0", "00", "9223372036854775807", "9223372036854775808", "1.5", ".5", "5.", "1e3"]
NUMBERS += [
    "-0.25",
    "01.5",
    "0x1p3",
    "NaN",
    "Infinity",
    "1d",
    "1_000",
    "٣",
    "1" * 30,
    "0.1234567890123456789",
    "-",
    ".",
]
OTHERS = ["true", "FALSE", "yes", "null", "2024-01-01", "2024-02-30", "2024-1-1", "2024-01-01 10:20", "0000-01-01"]
OTHERS += ["2024-01-01T10:20:30.123456", "2024-01-01 10:20:30+02:00", "2024-01-01 25:00", "a", "é", "12:30", "€5"]
FIELD = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(OTHERS), st.text("0123456789.-+eE:T ", max_size=20))


@given(FIELD.map(str.strip))
def test_a_field_is_a_value_of_its_type(field: str) -> None:
    """A field is a value of the type that is found for it, and the text of a whole number is kept."""
    found = field_type(field)
    value = value_of(field, found, "A")
    if found == ty.LONG:
        assert show_atom(value) == field or field == "-0"


@given(st.lists(st.lists(FIELD.map(str.strip), min_size=2, max_size=2), min_size=1, max_size=6))
def test_a_column_holds_all_its_fields(rows: list[list[str]]) -> None:
    records = [[(field, False) for field in row] for row in rows]
    for place, t in enumerate(column_types(records, ["a", "b"])):
        for row in rows:
            if row[place]:
                value_of(row[place], t, "A")


NAME = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\uffff"), min_size=1, max_size=6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NAME.filter(str.strip), min_size=1, max_size=4, unique_by=str.strip), st.lists(FIELD, min_size=4))
def test_headers(tmp_path: Path, names: list[str], fields: list[str]) -> None:
    """Whatever the columns are called, all rows are read."""
    rows = [fields[i : i + len(names)] for i in range(0, len(fields) - len(names) + 1, len(names))]
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *rows])
    (tmp_path / "f.csv").write_text(text.getvalue())
    spec = next(iter(compile_over_files('count(source(csv, "f.csv", header));', base=tmp_path).sources.values()))
    assert isinstance(spec.row, ty.RecordType)
    assert list(spec.row.names) == names
    assert len(read_source(spec)) == len(rows)


@pytest.mark.parametrize(
    ("files", "source", "row"),
    [
        ({"f": "1,a\n2.5,\n"}, 'csv, "f"', "<_1: double, _2: string>"),
        ({"f": "NA,-\n1,NA\n"}, 'csv, "f", nullValue("NA", "-")', "<_1: long, _2: string>"),
        ({"f": "# a, b\na,b\n#\n1,2\n"}, 'csv, "f", header, comment("#")', "<a: long, b: long>"),
        ({"f": "01.02.2024,2024-02-01\n"}, 'csv, "f", dateFormat("dd.MM.yyyy")', "<_1: date, _2: string>"),
        (
            {"f": "a,b,c\n1.2.2024,2024-02-01,2 Mar 2024\n"},
            'csv, "f", header, dateFormat("d.M.yyyy", "a"), dateFormat("d MMM yyyy", "c")',
            "<a: date, b: date, c: date>",
        ),
        (
            {"f": "1.2.2024 9:00,1.2.2024 9:00\n"},
            'csv, "f", timestampFormat("d.M.yyyy H:mm", "_2")',
            "<_1: string, _2: timestamp>",
        ),
        ({"f": "20240201\n01.02.2024\n"}, 'csv, "f", dateFormat("yyyyMMdd")', "<_1: string>"),
        ({"f": "01.02.2024\n2024-02-01 10:00\n"}, 'csv, "f", dateFormat("dd.MM.yyyy")', "<_1: string>"),
        ({"f": "2024-02-01,12h\n"}, """csv, "f", timestampFormat("yyyy-MM-dd','HH'h'")""", "<_1: date, _2: string>"),
        ({"f": '"2024-02-01,12h"\n'}, """csv, "f", timestampFormat("yyyy-MM-dd','HH'h'")""", "<_1: timestamp>"),
        ({"f": 'NA,"NA"\n'}, 'csv, "f", nullValue("NA")', "<_1: string, _2: string>"),
        ({"f": "1.234;1,5;1.5\n-7;NaN;x\n"}, 'csv, "f", ";", locale("de")', "<_1: long, _2: double, _3: string>"),
        ({"f": "1|a|\n2|b|\n"}, 'line, "f", "|"', "<_1: long, _2: string>"),
        ({"f": "1,\n,\n"}, 'csv, "f"', "<_1: long>"),
        ({"f": '"1","2024-01-01"\n2,2024-01-01 10:00:00\n'}, 'csv, "f"', "<_1: long, _2: timestamp>"),
        ({"f": 'a,b\n1,"x\n1"\n'}, 'csv, "f", header, multiline', "<a: long, b: string>"),
        ({"f": "a,,b\n1,2,3\n"}, 'csv, "f", header', "<a: long, b: long>"),
        ({"f": "a,b\n"}, 'csv, "f", header', "<a: string, b: string>"),
        ({"d/0": "", "d/1": "a,b\n1,2\n", "d/2": "b,a\nx,3\n"}, 'csv, "d", header', "<a: long, b: string>"),
        ({"d/k=1/0": "a\n1\n"}, 'csv, "d", header', "<a: long, k: string>"),
        ({"d/0": "+,1\n-,1\n"}, 'csv, "d", tagged', "<_1: long>"),
    ],
)
def test_rows(tmp_path: Path, files: dict[str, str], source: str, row: str) -> None:
    """The types that are found for the rows of some files."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    kind = "stream" if "tagged" in source else "source"
    spec = next(iter(compile_over_files(f"count({kind}({source}));", base=tmp_path).sources.values()))
    assert str(spec.row) == row
    read_source(spec)


@pytest.mark.parametrize(
    ("header", "said"),
    [("a,b,a", "has the column `a` twice"), (",", "has no names")],
)
def test_headers_that_say_nothing(tmp_path: Path, header: str, said: str) -> None:
    (tmp_path / "f").write_text(f"{header}\n1,2,3\n")
    with pytest.raises(UserError, match=re.escape(said)):
        compile_over_files('count(source(csv, "f", header));', base=tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_headers_that_are_not_utf8(tmp_path: Path, encoding: str) -> None:
    """A header that is not UTF-8 is an error, except for a type that names the other columns."""
    (tmp_path / "f").write_bytes("café,b\n1,2\n".encode(encoding))
    with pytest.raises(UserError, match="is not text in UTF-8"):
        compile_over_files('count(source(csv, "f", header));', base=tmp_path)
    if encoding == "latin-1":
        query = 'count(source(csv, "f", ",", header, type(<b: int>)));'
        (spec,) = compile_over_files(query, base=tmp_path).sources.values()
        assert [row.fields["b"] for row in read_source(spec)] == [2]


def test_a_stream_keeps_its_type(tmp_path: Path) -> None:
    """A stream keeps its type whatever files arrive later, also files with smaller names; a row of another type is
    malformed."""
    query = 'select x from x in stream(csv, "d", header);'
    write(tmp_path / "d" / "5.csv", "n\n1\n", 0)
    stream = Stream(tmp_path, query)
    stream.run()
    write(tmp_path / "d" / "1.csv", "n\n2\n", 1)
    Stream(tmp_path, query).run()
    write(tmp_path / "d" / "0.csv", "n\n0.5\n", 2)
    with pytest.raises(UserError, match="is not a value of type long"):
        Stream(tmp_path, query).run()
    assert len(Bag([*stream.answers()])) == 2


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        ("1,2024-01-01", "0.5,", "<a: double, b: date>"),
        ("1,2024-01-01", "x,", "<a: string, b: date>"),
        ("1,2024-01-01", "1,2024-01-01 10:00", "<a: long, b: timestamp>"),
        ("1,true", "1,0", "<a: long, b: string>"),
        ("1,x", "1e999999999x,x", "<a: string, b: string>"),
        ("1,2,3,4,5,6,7", "1,2,3,4,5,6,.5", "<g: double, …>"),
    ],
)
def test_the_type_that_reads_a_later_row(tmp_path: Path, first: str, later: str, said: str) -> None:
    """If a row does not fit the type that was found, the hint is a type that reads it; with a given type there is no
    hint."""
    header = ",".join("abcdefg"[: first.count(",") + 1])
    write(tmp_path / "d" / "1.csv", f"{header}\n{first}\n", 1)
    text = 'select x.a from x in stream(csv, "d", header);'
    Stream(tmp_path, text).run()
    write(tmp_path / "d" / "2.csv", f"{header}\n{later}\n", 2)
    with pytest.raises(UserError) as caught:
        Stream(tmp_path, text).run()
    assert caught.value.hint == f"`type({said})` reads it: what was found in the first rows stays"
    if "…" not in said:
        Stream(tmp_path, text.replace("header", f"header, type({said})")).run()
    (given,) = compile_over_files('count(source(csv, "d", header, type(<a: bool>)));', base=tmp_path).sources.values()
    with pytest.raises(UserError) as caught:
        read_source(given)
    assert caught.value.hint is None


@pytest.mark.parametrize("names", [("a = ", "b = "), ("", "")])
def test_streams_over_one_directory(tmp_path: Path, names: tuple[str, str]) -> None:
    """Streams that read one directory in different ways have different types, also after a restart."""
    sources = 'stream(csv, "d", header)', 'stream(csv, "d", "|")'
    read = [name.removesuffix(" = ") or source for name, source in zip(names, sources, strict=True)]
    said = "".join(f"{name}{source};\n" for name, source in zip(names, sources, strict=True) if name)
    query = f"{said} (sum(select x.n from x in {read[0]}), max(select y._1 from y in {read[1]}));"
    for number in range(3):
        write(tmp_path / "d" / f"{number}.csv", f"n,m\n{number + 1},0\n", number)
        stream = Stream(tmp_path, query, max_files=None)
        stream.run()
        rows = [source.row for source in stream.job.program.sources.values()]
        assert list(map(str, rows)) == ["<n: long, m: long>", "<_1: string>"]
    assert list(stream.answers().values())[-1] == Bag([(6, "n,m")])


def test_what_was_left_out_is_known_after_a_restart(tmp_path: Path) -> None:
    """After a restart, a query that asks for a column that was left out is told so, even if later files lack the
    column."""
    (tmp_path / "d").mkdir()
    inner = {"x": 1, "raw": time(1)}
    pq.write_table(pa.table({"n": [1], "raw": [time(1)], "r": [inner]}), tmp_path / "d" / "1.parquet")
    text = 'd = stream(parquet, "d"); select {0} from x in d;'
    Stream(tmp_path, text.format("x.n")).run()
    pq.write_table(pa.table({"n": [2], "r": [{"x": 1}]}), tmp_path / "d" / "0.parquet")
    for asked in ("x.raw", "x.r.raw"):
        with pytest.raises(
            UserError, match=r"the field `raw` is of type time64\[us\], which the language does not have"
        ):
            Stream(tmp_path, text.format(asked)).run()


def test_times_of_day(tmp_path: Path) -> None:
    """A time of day has no type, and the hint says what to do."""
    pq.write_table(pa.table({"n": [1], "at": [time(10, 20)], "all": [[time(1)]]}), tmp_path / "f.parquet")
    for asked in ("at", "all"):
        with pytest.raises(UserError, match=r"is of type .*time64.*, which the language does not have") as caught:
            compile_over_files(f'select x.{asked} from x in source(parquet, "f.parquet");', base=tmp_path)
        assert caught.value.hint is not None
        assert caught.value.hint.startswith("cast it to a text where the data come from")


def test_bytes_that_were_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint from before there was a type for bytes goes on with the same columns and states; asking for a column
    that was left out is an error."""
    text = 'd = stream(parquet, "d"); {0};'
    (tmp_path / "d").mkdir()
    table = pa.table({"n": [1], "raw": [b"a"], "all": [[b"a"]]})
    counted = "select (n, count(x)) from x in d group by n: x.n"
    with monkeypatch.context() as before:
        before.delitem(columnar._ARROW, "binary")
        pq.write_table(table, tmp_path / "d" / "1.parquet")
        first = Stream(tmp_path, text.format(counted))
        first.run()
    pq.write_table(table, tmp_path / "d" / "2.parquet")
    second = Stream(tmp_path, text.format(counted))
    known, same = (identities(s.job.plan, s.job.program.sources) for s in (first, second))
    assert same == known
    second.run()
    assert list(second.answers().values())[-1] == Bag([(1, 2)])
    for asked, found in (("raw", "binary"), ("all", r"\[binary\]")):
        message = f"the field `{asked}`, of type {found}, was left out when the checkpoint was written"
        with pytest.raises(UserError, match=message):
            Stream(tmp_path, text.format(f"select x.{asked} from x in d")).run()


def test_a_stream_without_files(tmp_path: Path) -> None:
    """The type of a stream without files cannot be found."""
    (tmp_path / "d").mkdir()
    with pytest.raises(UserError, match=r"no file in .* to take the type of the rows from"):
        compile_over_files('count(stream(csv, "d"));', base=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("d.csv", "n\n" + "1\n" * 1500 + "0.5\n", 'csv, "{}", header'),
        ("d.json", '{"n": 1}\n' * 1500 + '{"n": 0.5}\n', 'json, "{}"'),
        ("m.json", "[" + '{"n": 1}, ' * 1500 + '{"n": 0.5}]', 'json, "{}", multiline'),
    ],
)
def test_a_sample(tmp_path: Path, name: str, text: str, source: str) -> None:
    """`sample` sets the number of first rows in which the type is found."""
    (tmp_path / name).write_text(text)

    def found(more: str) -> str:
        query = f"select x.n from x in source({source.format(tmp_path / name)}{more});"
        return str(compile_over_files(query).queries[0].type)

    assert found("") == "{long}"
    assert found(", sample(1500)") == "{long}"
    assert found(", sample(1501)") == "{double}"
    assert found(", Sample(100 * 20)") == "{double}"


@pytest.mark.parametrize(
    ("name", "row", "last", "source"),
    [
        ("d.csv", f"1,{'x' * 2000}\n", f"y,{'x' * 2000}\n", 'csv, "{}"'),
        ("d.json", f'{{"_1": 1, "b": "{"x" * 2000}"}}\n', '{"_1": "y"}\n', 'json, "{}"'),
    ],
)
def test_a_sample_of_long_rows(tmp_path: Path, name: str, row: str, last: str, source: str) -> None:
    """With `sample`, the given number of rows is sampled however long they are."""
    (tmp_path / name).write_text(row * 700 + last)

    def found(more: str) -> str:
        query = f"select x._1 from x in source({source.format(tmp_path / name)}{more});"
        return str(compile_over_files(query).queries[0].type)

    assert found("") == "{long}"
    assert found(", sample(1000)") in ("{string}", "{any}")


def test_a_sample_is_fixed_with_the_type(tmp_path: Path) -> None:
    """The type in a checkpoint stays, whatever `sample` is later."""
    write(tmp_path / "d" / "1.csv", "n\n" + "1\n" * 5 + "x\n", 0)
    query = 'select x.n from x in stream(csv, "d", header, sample({}));'
    Stream(tmp_path, query.format(9)).run()
    write(tmp_path / "d" / "2.csv", "n\ny\n", 1)
    Stream(tmp_path, query.format(5)).run()
    assert Bag([*Stream(tmp_path, query.format(5)).answers()["batch-000001"]]) == Bag([(text,) for text in "11111xy"])


def parquet(file: Path, **columns: object) -> None:
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), file)


INT, LONG, HALF = pa.array([1], pa.int32()), pa.array([2], pa.int64()), pa.array([0.5], pa.float32())


@pytest.mark.parametrize(
    ("files", "row"),
    [
        ([{"a": INT}, {"a": LONG}], "<a: long>"),
        ([{"a": LONG}, {"a": INT}], "<a: long>"),
        ([{"a": INT}, {"a": HALF}], "<a: double>"),
        ([{"a": INT}, {"a": pa.array([Decimal("1.50")])}], "<a: decimal(12, 2)>"),
        ([{"a": INT, "b": ["x"]}, {"b": ["y"], "c": [True]}], "<a: int, b: string, c: bool>"),
        ([{"a": [[1]]}, {"a": pa.array([[0.5]], pa.list_(pa.float32()))}], "<a: [double]>"),
        ([{"a": [{"x": 1, "y": 2}]}, {"a": [{"y": 0.5, "x": 2, "z": 3}]}], "<a: <x: long, y: double, z: long>>"),
        (
            [{"a": [{"x": {"y": 1}}]}, {"a": [{"z": [{"u": 1}]}]}, {"a": [{"x": {"v": True}, "z": [{"w": 0.5}]}]}],
            "<a: <x: <y: long, v: bool>, z: [<u: long, w: double>]>>",
        ),
        ([{"a": [{"x": 1}]}, {"a": [{"x": 2, "t": time(1)}]}], "<a: <x: long>>"),
        ([{"a": [1], "b": [time(1)]}, {"a": [2], "b": [3]}], "<a: long>"),
        ([{"a": [1]}, {"a": [2], "b": [time(1)]}], "<a: long>"),
    ],
)
def test_columns_of_all_files(tmp_path: Path, files: list[dict[str, object]], row: str) -> None:
    """The type holds the rows of all files, in any order; if there is no such type, that of the first file stays."""
    for number, columns in enumerate(files):
        parquet(tmp_path / f"{number}.parquet", **columns)
    program = compile_over_files(f'source(parquet, "{tmp_path}");')
    (spec,) = program.sources.values()
    assert str(spec.row) == row
    assert len(read_source(spec)) == len(files)


def test_a_file_that_fits_no_wider_type(tmp_path: Path) -> None:
    """A file that fits no wider type does not change the type, and is malformed when it is read; so is one that is no
    Parquet."""
    parquet(tmp_path / "d" / "1.parquet", a=["x"])
    for number, wrong in enumerate(({"a": [1]}, {"a": [{"x": 1}]}, None)):
        file = tmp_path / "d" / f"2{number}.parquet"
        file.write_text("no Parquet") if wrong is None else parquet(file, **wrong)
        (spec,) = compile_over_files(f'source(parquet, "{tmp_path / "d"}");').sources.values()
        assert str(spec.row) == "<a: string>"
        with pytest.raises(UserError, match=r"has a column|is not a Parquet file"):
            read_source(spec)
        file.unlink()


@pytest.mark.parametrize(
    ("given", "there", "hint"),
    [
        ("<a: <x: long, y: int>>", [{"x": 1}], "with `allowMissingColumns` its values are missing there"),
        ("<a: <x: long>>", [{"x": 0.5, "z": 1}], "`type(<a: <x: double>>)` reads it, and the others"),
        (
            "<a: <x: long, y: int>>",
            [{"x": 0.5}],
            "`type(<a: <x: double, y: int>>), allowMissingColumns` reads it, and the",
        ),
        ("<a: [<x: long>]>", [[{"x": "a"}]], None),
    ],
)
def test_fields_that_may_be_missing(tmp_path: Path, given: str, there: list[object], hint: str | None) -> None:
    """With `allowMissingColumns`, fields of structs may be missing, too; the hint says what reads the file."""
    parquet(tmp_path / "1.parquet", a=there)

    def rows(t: str, option: str) -> Bag:
        (spec,) = compile_over_files(
            f'source(parquet, "1.parquet", type({t}){option});', base=tmp_path
        ).sources.values()
        return read_source(spec)

    with pytest.raises(UserError) as caught:
        rows(given, "")
    assert (caught.value.hint or "").startswith(hint or "")
    assert (caught.value.hint is None) == (hint is None)
    if hint is not None:
        asked, option = given.replace("x: long", "x: double"), ", allowMissingColumns"
        (row,) = rows(asked, option)
        assert row["a"]["x"] == there[0]["x"]  # type: ignore[index]
        assert row["a"].fields.get("y") is None


def test_columns_that_may_be_missing(tmp_path: Path) -> None:
    """With `allowMissingColumns`, columns of a given type may be missing; without it, this is an error that names the
    option."""
    parquet(tmp_path / "d" / "1.parquet", a=[1])
    parquet(tmp_path / "d" / "2.parquet", b=[1.5])

    def rows(option: str) -> Bag:
        query = f'source(parquet, "{tmp_path / "d"}", type(<a: long, b: double>){option});'
        (spec,) = compile_over_files(query).sources.values()
        return read_source(spec)

    assert rows(", allowMissingColumns") == Bag([Record({"a": 1, "b": None}), Record({"a": None, "b": 1.5})])
    with pytest.raises(UserError, match="has no column `b`") as caught:
        rows("")
    assert caught.value.hint == "with `allowMissingColumns` its values are missing there"


NANOSECONDS = [None, -1, 1_999, 1_700_000_000_123_456_789]
CUT_OFF = [None, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1, 0, 0, 0, 1)]
CUT_OFF += [datetime(2023, 11, 14, 22, 13, 20, 123456)]


def rows_of(query: str) -> Bag:
    """The rows of the only source of a query."""
    return read_source(*compile_over_files(query).sources.values())


def test_timestamps_of_nanoseconds(tmp_path: Path) -> None:
    """Timestamps of nanoseconds are left out, or refused with a hint; with `truncateTimestamps` they are truncated to
    microseconds, also inside other values and with a zone."""
    ns, zoned = pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin")
    columns = {
        "k": [0, 1, 2, 3],
        "t": pa.array(NANOSECONDS, ns),
        "z": pa.array(NANOSECONDS, zoned),
        "l": pa.array([[n] for n in NANOSECONDS], pa.list_(ns)),
        "s": pa.array([{"x": n} for n in NANOSECONDS], pa.struct([("x", ns)])),
    }
    parquet(tmp_path / "t.parquet", **columns)

    def rows(more: str) -> Bag:
        (spec,) = compile_over_files(f'source(parquet, "{tmp_path / "t.parquet"}"{more});').sources.values()
        return read_source(spec)

    assert rows("") == Bag([Record({"k": n}) for n in range(4)])
    for source, message in (
        ('select x.t from x in source(parquet, "{}")', "the field `t` is of type timestamp"),
        ('source(parquet, "{}", type(<t: timestamp>))', "has a column `t` that is of type timestamp"),
        ('source(parquet, "{}", type(<l: [timestamp]>))', r"has a part `l\[\]` that is of type timestamp"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            rows_of(source.format(tmp_path / "t.parquet") + ";")
        assert "with `truncateTimestamps`" in (caught.value.hint or "")
    whole = [Record({"k": n, "t": t, "z": t, "l": [t], "s": Record({"x": t})}) for n, t in enumerate(CUT_OFF)]
    assert rows(", truncateTimestamps") == Bag(whole)
    assert rows(", truncatetimestamps, type(<z: timestamp>)") == Bag([Record({"z": t}) for t in CUT_OFF])


def test_nothing_but_nanoseconds(tmp_path: Path) -> None:
    """A file with no other column than timestamps of nanoseconds has no type, and the error names the option."""
    parquet(tmp_path / "t.parquet", t=pa.array([1], pa.timestamp("ns")))
    with pytest.raises(UserError, match="has no column of a type that the language has") as caught:
        compile_over_files(f'source(parquet, "{tmp_path / "t.parquet"}");')
    assert caught.value.hint == "with `truncateTimestamps` it is read to the microsecond"
