"""Files on Spark against the reference reader: the same rows, and the same rows malformed."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.values.json_text import read as strictly
from mrql.algebra.values.values import Bag, Record, same
from mrql.algebra.values.xml_elements import to_xml
from mrql.jobs.loading import compile_over_files
from mrql.output.tables import show_value
from mrql.runtime.files.quarantine import Malformed, Quarantine
from mrql.runtime.sources.arrived import static_files
from mrql.runtime.sources.files import read_source
from mrql.runtime.sources.formats.nanoseconds import at_nanosecond
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.readers import find_malformed, read
from mrql.runtime.spark.io.schema import conformed
from mrql.runtime.spark.relation.frame import ColumnNames, flat
from mrql.runtime.spark.session.errors import translated
from tests.runtime.sources.formats.test_inference import FIELD as INFERRED
from tests.runtime.spark.test_equivalence import few

pytestmark = pytest.mark.spark


def assert_same(spark: SparkSession, source: str, base: Path) -> Bag:
    """Both engines read the same rows and reject the same ones. Returns the rows."""
    spec = next(iter(compile_over_files(f"count({source});", base=base).sources.values()))
    rejected: list[Malformed] = []
    expected = read_source(spec, rejected.append)
    quarantine = Quarantine(base)
    frame = read(spark, spec, quarantine=quarantine)
    found = collect_value(flat(frame, ColumnNames()).df.dataframe(spark), spec.type)
    assert same(found, expected), f"{show_value(found)}, not {show_value(expected)}"
    assert set(quarantine.waiting.values()) == set(rejected)
    return expected


NUMERALS = ["1", "-1", "+7", "007", "2147483648", "99999999999999999999", "1.5", ".5", "5.", "1e3", "1E-5", "0x1p3"]
NUMERALS += ["16777217", "1.000000178813934326171875001", "0x1.000003p0", "-0x1.0000010000000001p0"]
NAMED = ["NaN", "nan", "inf", "Inf", "-Infinity", "1d", "1f", "0x10", "1_000", "true", "FALSE", "t", "null", "'1'"]
QUOTED = ["", '""', '"a,b"', '"a""b"', '"a"b', 'a"b"', '"open', " x ", '" x "', "é", "\ufffd", "a\tb", "  ", '"']
QUOTED += ['" 1.5"', '"NaN "', '"Inf "', '" 7"', '"\t1e3 "', '"true "']
NULS = ['"\0null"', '"null\0"', '"\0"', "\0a", "a\0b", '"a\0b"', '" \0"', '"a""\0"', '"\0a"x', '"\0']
NULLS = ["null", '"null"', " null\t", '" null"', "null x", "-", '"-"', "é", '"é"', '"null"x', "NULL"]
COMMENTS = ["#", "#a", '#"a', " #", '"#"', "a#"]
ESCAPED = [r'"a\"b"', r'"\\"', r'"a\b\"', r'"\""', "\\", r"\'", "'a,b'", "'a''b'", "'a\" ' ", r"'\\\''", "'a'b", "'"]
FIELD = st.one_of(
    *map(st.sampled_from, (NUMERALS, NAMED, QUOTED, NULS, NULLS, COMMENTS, ESCAPED)), st.text('ab1.,"- e', max_size=5)
)
RECORD = st.lists(FIELD, min_size=1, max_size=4).map(",".join)
END = st.sampled_from(["\n", "\n", "\r\n", "\t\n", ", \r\n"])
NULL_VALUES = ', nullValue("null", "é", "1", "-")'
QUOTES = [
    "",
    """, quote("'")""",
    ', quote("")',
    r', escape("\\")',
    r""", quote("'"), escape("\\"), nullValue("null")""",
]
OPTIONS = st.sampled_from([*QUOTES, NULL_VALUES, ', comment("#")', f'{NULL_VALUES}, comment("1")'])


@seed(2026)
@settings(few, max_examples=6)
@given(
    st.lists(st.tuples(RECORD, END), min_size=20, max_size=60),
    st.sampled_from(["string", "int", "float", "double", "bool", "decimal(6, 2)"]),
    st.sampled_from(["csv", "line"]),
    st.sampled_from(["", ","]),
    st.sampled_from(["(T, string, T)", "T"]),
    OPTIONS,
)
def test_csv(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[str, str]],
    t: str,
    format: str,
    behind: str,
    row: str,
    options: str,
) -> None:
    """Both engines read fields with and without quotes, numbers of every spelling, and too many or too few fields
    alike; also in files whose records all end with the delimiter, and with fields that are not read."""
    rows = [(record + behind, end) for record, end in written]
    base = tmp_path_factory.mktemp("csv")
    (base / "f.csv").write_bytes("".join(record + end for record, end in rows).encode())
    assert_same(spark, f'source({format}, "f.csv", ",", type({row.replace("T", t)}){options})', base)
    first = [(f"{options[-3]}comment", "\n")] if "comment" in options else []
    first.append(("C,A,b,x", "\n"))
    (base / "f.csv").write_bytes("".join(record + end for record, end in [*first, *rows]).encode())
    assert_same(spark, f'source({format}, "f.csv", ",", type(<A: {t}, B: any, C: long>), header{options})', base)


LAST = st.sampled_from(["", " ", "\t ", '""', '" "', '"x" ', "x"])
BEFORE = st.sampled_from(["", " ", "x", '"x"', '"x" ', '""', '"x"y', '"x""y"', *ESCAPED])


@seed(2026)
@settings(few, max_examples=2)
@given(st.lists(st.tuples(BEFORE, LAST, END), min_size=80, max_size=120), st.sampled_from(QUOTES), st.booleans())
def test_blanks_at_the_end_of_csv(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    options: str,
    multiline: bool,
) -> None:
    """A record that ends in blanks is read alike. Spark's parser remembers the quotes of the field or record before it,
    and would take the blanks for an empty text, and the row for malformed if the column is of numbers."""
    base = tmp_path_factory.mktemp("blanks")
    text = "".join(f"{before},{last}{end.lstrip(', ')}" for before, last, end in rows)
    (base / "f.csv").write_text(text.removesuffix("\n"), newline="")
    more = f"{options}, multiline" if multiline else options
    for t in ("string", "int"):
        assert_same(spark, f'source(csv, "f.csv", ",", type((string, {t})){more})', base)


TIMES = st.sampled_from(
    [
        *("2026-01-31", "2026-02-30", "0001-01-01", "9999-12-31", "2026-1-31", " 2024-02-29 ", "2026-01-31T10:20"),
        *("2026-01-31 10:20:30.5", "2026-01-31T23:59:59.999999Z", "2026-01-31 10:20:30+02:00", "2026-01-31 24:00"),
        *(
            "0001-01-01 00:00+01:00",
            "0001-01-01 01:00+01:00",
            "9999-12-31 23:59-00:01",
            "1970-01-01 00:00:60",
            "20260131",
            "1769817600",
            "",
            "now",
        ),
    ]
)


PARTS = {
    "MMM": ["Jan", "FEB", "dec", "Mai", "\u017fep", "June", "1"],
    "yyyy": ["2024", "2023", "0001", "9999", "0000", "24", "20240"],
    "MM": ["01", "02", "12", "13", "00", "2"],
    "dd": ["01", "28", "29", "30", "31", "32", " 1"],
    "HH": ["00", "23", "24"],
    "mm": ["00", "59", "60"],
    "ss": ["00", "59", "60"],
    "SSS": ["000", "999", "12"],
    "d": ["1", "31", "05", "0", "32", "001", ""],
    "M": ["2", "11", "04", "0", "13"],
    "H": ["9", "23", "00", "24", ""],
}
PATTERNS = {  # one for dates and one for timestamps
    ("dd.MM.yyyy", "dd.MM.yyyy HH:mm"),
    ("yyyyMMdd", "yyyyMMddHHmmssSSS"),
    ("yyyy年MM月dd", "HH'h é'mm'', dd.MM.yyyy"),
    ("MM/dd/yyyy", "MM/dd/yyyy"),
    ("M/d/yyyy", "M/d/yyyy, H.mm"),
    ("d-MMM-yyyy", "ddMMMyyyy H:mm"),
}


@st.composite
def written_by(draw: st.DrawFn) -> tuple[tuple[str, str], list[tuple[str, str]]]:
    """Patterns, and texts that mostly follow them, some with days and hours that do not exist."""
    patterns = draw(st.sampled_from(sorted(PATTERNS)))

    def text(pattern: str) -> str:
        made = pattern.replace("'h é'", "h é").replace("''", "'")
        for field, parts in PARTS.items():
            if field in made:
                made = made.replace(field, draw(st.sampled_from([*parts[:2] * 4, *parts])))
        return made

    rows = draw(st.integers(20, 40))
    texts = [tuple(draw(TIMES) if draw(st.integers(0, 5)) == 0 else text(one) for one in patterns) for _ in range(rows)]
    return patterns, texts


@seed(2026)
@settings(few, max_examples=4)
@given(written_by())
@example((("d-MMM-yyyy", "M/d/yyyy, H.mm"), [("5-jAn-2024", "1/2/2024, 9.05"), ("05-Sep-2024", "01/31/2024, 10.05")]))
@example((("d-MMM-yyyy", "M/d/yyyy, H.mm"), [("5-\u017fep-2024", "1/2/2024, 9.05"), ("1-Feb-2024", "1/2/2024, 9.5")]))
@example((("M/d/yyyy", "ddMMMyyyy H:mm"), [("2/30/2024", "01JAN2024 0:00"), ("2/29/2024", "1JAN2024 0:00")]))
@example(
    (
        ("MMMM d, yyyy", "M/d/yyyy h:mm a"),
        [("May 5, 2024", "1/2/2024 12:05 am"), ("June 31, 2024", "1/2/2024 13:05 am")],
    )
)
@example(
    (
        ("yyyy[-MM[-dd]]", "yyyy-MM-dd'T'HH:mm[:ss[.SSS]][XXX]"),
        [
            ("2024", "2024-03-01T00:30+02:00"),
            ("2024-02", "2024-02-29T23:59:59.500Z"),
            ("2024-2", "2024-02-29T23:59.500"),
        ],
    )
)
def test_patterns_of_times(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[tuple[str, str], list[tuple[str, str]]],
) -> None:
    """Dates and timestamps by patterns, in CSV and in JSON: a text that does not fit, or is no day, is malformed."""
    base = tmp_path_factory.mktemp("patterns")
    (day, moment), rows = drawn
    (base / "f.csv").write_text("".join(f'"{a}","{b}"\n' for a, b in rows))
    options = f'dateFormat("{day}"), timestampFormat("{moment}")'
    assert_same(spark, f'source(csv, "f.csv", ",", type((date, timestamp)), {options})', base)
    assert_same(spark, f'source(csv, "f.csv", ",", {options}, nullValue("01.01.2024"))', base)
    values = [{"d": a, "l": [{"t": b}, None]} for a, b in rows] + [{"d": None, "l": [{"t": rows[0][1]}]}]
    (base / "f.json").write_text("\n".join(map(json.dumps, values)))
    assert_same(spark, f'source(json, "f.json", type(<d: date, l: {{<t: timestamp>}}>), {options})', base)


def test_columns_of_all_files(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet files with different columns are read with the inferred type, and with a given one whose columns may be
    missing."""
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "l": [[{"x": 1}]]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["x"], "a": pa.array([2], pa.int64())}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": [0.5], "l": [[{"y": 1, "x": 2.5}]]}), tmp_path / "3.parquet")
    found = assert_same(spark, 'source(parquet, "*.parquet")', tmp_path)
    assert sorted((row["l"] or [None])[0]["x"] for row in found if row["l"]) == [1.0, 2.5]
    given = "type(<b: string, a: double, c: date>), allowMissingColumns"
    assert len(assert_same(spark, f'source(parquet, "*.parquet", {given})', tmp_path)) == 3


BYTES = [b"", b"a", b"\xff\x00", "ä\n".encode(), bytes(range(256)), None]


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_bytes_of_columns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Columns of bytes are read alone, of fixed size, in lists, structs and maps; with a given type or without."""
    columns = {
        "b": pa.array(BYTES, pa.binary()),
        "l": pa.array(
            [[{"x": b, "y": 1}] for b in BYTES], pa.list_(pa.struct([("x", pa.binary()), ("y", pa.int64())]))
        ),
        "m": pa.array([[("a", b)] for b in BYTES], pa.map_(pa.string(), pa.binary())),
    }
    if name == "parquet":
        columns["f"] = pa.array([None if b is None else b"%3d" % len(b) for b in BYTES], pa.binary(3))
        columns["g"] = pa.array(BYTES, pa.large_binary())
    (pq if name == "parquet" else orc).write_table(pa.table(columns), tmp_path / f"1.{name}")
    found = assert_same(spark, f'source({name}, "1.{name}")', tmp_path)
    assert Bag(row["b"] for row in found) == Bag(BYTES)
    given = "type(<l: {<x: binary>}, m: {(string, binary)}, b: binary>)"
    assert len(assert_same(spark, f'source({name}, "1.{name}", {given})', tmp_path)) == len(BYTES)


def test_bytes_that_are_texts(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes in CSV, in JSON and in paths are base64; other texts are malformed."""
    texts = [
        "",
        '""',
        "AP8=",
        "AP9=",
        "AP8",
        "A===",
        "====",
        "ä",
        '"YQ=="',
        " YQ== ",
        '"YQ== "',
        "YQ==YQ==",
        "YW\u0661h",
    ]
    texts += [b64encode(b).decode() for b in BYTES if b is not None]
    (tmp_path / "f.csv").write_text("".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    found = assert_same(spark, 'source(csv, "f.csv", ",", type((binary, int)))', tmp_path)
    assert {b for b, _ in found} == {*BYTES, b"\0\xff"}
    lines = [json.dumps({"a": text.strip('"'), "l": [text]}) for text in texts] + ['{"a": 1}', '{"a": null}', "{}"]
    (tmp_path / "f.json").write_text("\n".join(lines))
    assert len(assert_same(spark, 'source(json, "f.json", type(<a: binary>))', tmp_path)) >= len(BYTES)
    assert_same(spark, 'source(json, "f.json", type(<l: [binary], a: string>))', tmp_path)
    for value in ("AP8=", "YQ%3D%3D", "%2F%2F%2F%2F", "__HIVE_DEFAULT_PARTITION__"):
        file = tmp_path / "d" / f"k={value}" / "1.csv"
        file.parent.mkdir(parents=True)
        file.write_text("1\n")
    found = assert_same(spark, 'source(csv, "d", ",", type(<k: binary, n: int>))', tmp_path)
    assert {row["k"] for row in found} == {b"\0\xff", b"a", b"\xff\xff\xff", None}


def test_enumerations_are_bytes(spark: SparkSession) -> None:
    """Parquet's ENUM, which Arrow reads as bytes, is a text for Spark."""
    row = ty.RecordType((("e", ty.BYTES), ("l", ty.ListType(ty.BYTES))))
    df = conformed(spark.sql("SELECT array('ä', NULL) AS l, 'b' AS e"), row, "files", enumerations=True)
    assert collect_value(df, ty.BagType(row)) == Bag([Record({"e": b"b", "l": ["ä".encode(), None]})])


def test_times_of_day(spark: SparkSession, tmp_path: Path) -> None:
    """A file with times of day is read without them; so are files with other types that Spark does not have."""
    for i, t in enumerate((pa.time64("us"), pa.time64("ns"), pa.time32("ms"))):
        inner = pa.struct([("a", t), ("b", pa.int64())])
        columns = {
            "k": pa.array([i], pa.int32() if i else pa.int64()),
            "t": pa.array([time(10, 20)], t),
            "s": pa.array([{"a": time(1), "b": i}], inner),
            "l": pa.array([[{"a": time(1), "b": i}, None]], pa.list_(inner)),
            "m": pa.array([[("x", {"a": time(1), "b": None})]], pa.map_(pa.string(), inner)),
            "d": pa.array([datetime(2026, 1, 31, 10)], pa.timestamp("us", "Europe/Berlin")),
            "n": pa.array([i], pa.timestamp("ns")),
            "u": pa.array([2**32 - 1], pa.uint32()),
            "e": pa.array([b"abc"], pa.binary(3)),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet")
    for asked in (
        "",
        ", truncateTimestamps",
        ", type(<k: long>)",
        ", type(<s: <b: double>, x: int>), allowMissingColumns",
    ):
        assert len(assert_same(spark, f'source(parquet, "*.parquet"{asked})', tmp_path)) == 3
    (row,) = assert_same(spark, 'source(parquet, "0.parquet")', tmp_path)
    assert row["s"] == Record({"b": 0})
    assert "t" not in row.fields


def test_nanoseconds_of_orc(spark: SparkSession, tmp_path: Path) -> None:
    """Timestamps of ORC, which all have nanoseconds, are read to the microsecond, with a given type and without. (Spark
    does not read fractions of a second before 1970 as Arrow writes them.)"""
    numbers = [None, -(10**9), 0, 1, 999, 1_999, 1_700_000_000_123_456_789, 2**63 - 1]
    ns = pa.timestamp("ns")
    columns = {
        "t": pa.array(numbers, ns),
        "l": pa.array([[{"x": n}] for n in numbers], pa.list_(pa.struct([("x", ns)]))),
        "m": pa.array([[("a", n)] for n in numbers], pa.map_(pa.string(), ns)),
    }
    orc.write_table(pa.table(columns), tmp_path / "1.orc")
    for asked in ("", ", type(<t: timestamp>)"):
        found = assert_same(spark, f'source(orc, "*.orc"{asked})', tmp_path)
        assert {row["t"] for row in found} == {None if n is None else at_nanosecond(n) for n in numbers}


def test_timestamps_of_nanoseconds(spark: SparkSession, tmp_path: Path) -> None:
    """Timestamps of nanoseconds are truncated to microseconds if the source says so; a file with some is read in any
    case."""
    numbers = [None, -1, -1_000, -1_001, 1_999, 1_700_000_000_123_456_789, 2**63 - 1, -(2**63) + 1]
    ns = pa.timestamp("ns")
    columns = {
        "k": [*range(len(numbers))],
        "t": pa.array(numbers, ns),
        "z": pa.array(numbers, pa.timestamp("ns", "Europe/Berlin")),
        "l": pa.array([[{"x": n, "y": n}] for n in numbers], pa.list_(pa.struct([("x", ns), ("y", pa.int64())]))),
        "m": pa.array([[("a", n)] for n in numbers], pa.map_(pa.string(), ns)),
    }
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    pq.write_table(pa.table({"k": [9], "t": pa.array([1], pa.timestamp("us"))}), tmp_path / "2.parquet")
    assert len(assert_same(spark, 'source(parquet, "*.parquet", truncateTimestamps)', tmp_path)) == len(numbers) + 1
    for found in ("", ", type(<k: long>)"):
        rows = assert_same(spark, f'source(parquet, "*.parquet"{found})', tmp_path)
        assert len(rows) == len(numbers) + 1


def test_patterns_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Each column of CSV, and each field of JSON, may have its own pattern; the others have the general one."""
    (tmp_path / "f.csv").write_text(
        "a,b,c\n1.2.2024,2 Mar 2024,3/4/2024 9:05\n1.2.2024,1.2.2024,3/4/2024 9:05\n"
        "1-2-2024,2 Mar 2024,3/4/2024 9:05\n1.2.2024,2 Mar 2024,2024-01-01\n,,\n"
    )
    options = 'header, dateFormat("d MMM yyyy", "b"), dateFormat("d.M.yyyy"), timestampFormat("M/d/yyyy H:mm", "c")'
    rows = assert_same(spark, f'source(csv, "f.csv", ",", type(<a: date, b: date, c: timestamp>), {options})', tmp_path)
    assert len(rows) == 2
    values = [
        {"a": ["1.2.2024", "29.2.2024"], "b": "2 Mar 2024", "c": "3/4/2024 9:05"},
        {"a": ["1.2.2024", "30.2.2024"], "b": "2 Mar 2024", "c": "3/4/2024 9:05"},
        {"a": ["2 Mar 2024"], "b": "2 Mar 2024"},
        {"a": [], "b": "1.2.2024"},
        {"a": [], "b": "2024-03-02"},
        {"a": [], "c": "2024-01-01 00:00"},
        {"a": [], "c": 7},
    ]
    (tmp_path / "f.json").write_text(json.dumps(values))
    options = options.replace("header", "multiline")
    rows = assert_same(spark, f'source(json, "f.json", type(<a: [date], b: date, c: timestamp>), {options})', tmp_path)
    assert len(rows) == 1


SIGNS = ["", "", "-", "+"]
SEPARATORS = [".", ",", " ", "\u00a0", "\u202f", "'", "\u2019", ""]


@st.composite
def local_numbers(draw: st.DrawFn) -> str:
    """Numbers with separators, mostly those of one locale, and not always in the right places."""
    point, between = draw(st.sampled_from([",.", ".,", ",\u202f", ".\u2019", ", ", "\u00a0."]))
    groups = [draw(st.sampled_from(["7", "12", "007", "999"]))]
    groups += [draw(st.sampled_from(["000", "999", "808", "80"])) for _ in range(draw(st.integers(0, 7)))]
    separators = [draw(st.sampled_from([*[between] * 9, *SEPARATORS])) for _ in groups]
    whole = "".join(group + sign for group, sign in zip(groups, [*separators[1:], ""], strict=True))
    rest = draw(st.sampled_from(["", "", f"{point}5", f"{point}00", point, f"{point}5e3", "E-2", "e999", "d"]))
    return draw(st.sampled_from(SIGNS)) + draw(st.sampled_from([whole, whole, whole, ""])) + rest


@seed(2026)
@settings(few, max_examples=3)
@given(
    st.lists(local_numbers() | st.sampled_from([*NUMERALS, *NAMED, "+NaN", "-Inf"]), min_size=30, max_size=60),
    st.sampled_from(["de", "de-AT", "de-CH", "en", "fr"]),
    st.sampled_from(["int", "long", "float", "double", "decimal(12, 2)"]),
    st.sampled_from([";", "é"]),
)
def test_numbers_of_a_locale(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, numbers: list[str], tag: str, t: str, between: str
) -> None:
    """Numbers of a locale are read alike, also in a file that is read as UTF-8 and not byte by byte, and with inferred
    types."""
    base = tmp_path_factory.mktemp("locales")
    (base / "f.csv").write_text("".join(f'{number}{between}"{number}"\n' for number in numbers))
    for row in (f", type((string, {t}))", "", f', type(({t}, string)), nullValue("7")'):
        assert_same(spark, f'source(csv, "f.csv", "{between}"{row}, locale("{tag}"))', base)


@seed(2026)
@settings(few, max_examples=3)
@given(st.lists(st.tuples(TIMES, TIMES), min_size=20, max_size=40))
def test_times(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    """Dates and timestamps in CSV and JSON are read alike, also inside lists and records, and so are invalid texts."""
    base = tmp_path_factory.mktemp("times")
    (base / "f.csv").write_text("".join(f'{a},"{b}"\n' for a, b in rows))
    values = [{"d": a, "t": b, "in": [{"t": a}, {"t": None}, None]} for a, b in rows]
    (base / "f.json").write_text("".join(json.dumps(value) + "\n" for value in values))
    for row in ("(date, timestamp)", "(timestamp, any)", "<t: timestamp, d: date>"):
        assert_same(spark, f'source(csv, "f.csv", ",", type({row}))', base)
    for row in ("<d: date>", "<t: timestamp>", "<in: [<t: timestamp>]>", "<in: {<t: date>}, d: any>"):
        assert_same(spark, f'source(json, "f.json", type({row}))', base)


@pytest.mark.parametrize(
    "row", ["any", "long", "double", "bool", "string", "date", "decimal(4, 1)", "[long]", "{<a: int>}"]
)
@pytest.mark.parametrize("multiline", ["", ", multiline"])
def test_rows_of_json_that_are_no_records(spark: SparkSession, tmp_path: Path, row: str, multiline: str) -> None:
    """A JSON row that is no record is malformed if it does not fit its type, as a field would be."""
    rows = ["1", "2.5", "null", "true", '"x"', '"2024-01-31"', "[]", "[1, null]", '["y"]', "{}", '[{"a": 1}, {}]', "[{"]
    text = f"[{', '.join(rows[:-1])}]" if multiline else "\n".join(rows)
    (tmp_path / "a.json").write_text(text)
    assert_same(spark, f'source(json, "a.json", type({row}){multiline})', tmp_path)


def test_a_row_is_malformed_whatever_a_query_uses_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """An error in a column that a query does not use is reported, although Spark converts only the columns that it
    needs."""
    (tmp_path / "f.csv").write_text("1,2\nx,3\n")
    program = compile_over_files('count(source(csv, "f.csv", ",", type((int, int))));', base=tmp_path)
    spec = next(iter(program.sources.values()))

    def again() -> None:
        find_malformed([(spec, static_files(spec))])

    for used in ("count(1)", "sum(_2)"):
        with pytest.raises(UserError, match=r"f\.csv:2:1: error: malformed row"), translated(None, again):
            read(spark, spec).df.table.selectExpr(used).collect()


CELL = st.sampled_from(
    [
        *NULLS,
        *COMMENTS,
        '"\n#"',
        "1",
        "a",
        "",
        " ",
        '""',
        '"x\ny"',
        '"x\\"\n"',
        '"x\\\n\\"',
        "'x\n\"y'",
        '"x\r\ny"',
        '"a ""q"" b"',
        '"\n"',
        '" , "',
        '"\0x\0"',
        '"x""\0"',
    ]
)


@pytest.mark.parametrize("end", ["\n", "", "\n  ", "\n\t\t", "\n\x1a", " "])
@pytest.mark.parametrize("delimiter", [",", "\t", " "])
def test_blank_lines_of_csv_over_lines(spark: SparkSession, tmp_path: Path, delimiter: str, end: str) -> None:
    """A blank line is no record, whether or not it has delimiters, and also as the end of a file."""
    rows = ["1,a", "", ",", " ", '2,"b\nc"', "\t", "3,", ",,"]
    (tmp_path / "f.csv").write_text(("\n".join(rows) + end).replace(",", delimiter))
    sign = {"\t": "\\t"}.get(delimiter, delimiter)
    assert_same(spark, f'source(csv, "f.csv", "{sign}", type((int, string)), multiline)', tmp_path)


@pytest.mark.parametrize(
    ("text", "t"), [("\u0663", "int"), ("\uff11\uff12", "long"), ("fal\u017fe", "bool"), ("TRUE", "bool")]
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_digits_of_other_scripts(spark: SparkSession, tmp_path: Path, text: str, t: str, mark: str) -> None:
    """Numbers have the digits 0 to 9, also in files that Spark reads as UTF-8."""
    (tmp_path / "f.csv").write_text(f"{mark}{text}\u00a7x\n7\u00a7y\n,\u00a7z\n")
    assert_same(spark, f'source(csv, "f.csv", "\u00a7", type(({t}, string)))', tmp_path)
    (tmp_path / "f.csv").write_text(f"{mark}{text}\n7\n")
    assert_same(spark, f'source(csv, "f.csv", ",", type({t}), multiline)', tmp_path)


@seed(2026)
@settings(few, max_examples=5)
@given(st.lists(st.lists(CELL, min_size=1, max_size=3).map(",".join), min_size=10, max_size=40), st.booleans(), OPTIONS)
def test_csv_over_lines(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[str], header: bool, more: str
) -> None:
    """Line ends in quotes belong to the field."""
    base = tmp_path_factory.mktemp("csv")
    first, options = (["B, C ,A"], f"header, multiline{more}") if header else ([], f"multiline{more}")
    (base / "f.csv").write_bytes(("\n".join([*first, *rows]) + "\n").encode())
    assert_same(spark, f'source(csv, "f.csv", ",", type(<A: string, B: string>), {options})', base)


@seed(2026)
@settings(few, max_examples=3)
@given(st.lists(st.lists(st.sampled_from("ABCab "), max_size=4), min_size=2, max_size=6), st.booleans())
def test_headers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, files: list[str], some: bool) -> None:
    """Each file has its own order of columns; some have too many, some too few, some one of them twice."""
    base = tmp_path_factory.mktemp("headers")
    (base / "d").mkdir()
    for number, names in enumerate([*files, "BA"]):
        lines = [",".join(names), ",".join(f"{number}{i}" for i in range(len(names))), "7,é\ufffd"]
        (base / "d" / f"{number}.csv").write_text("".join(line + "\n" for line in lines))
    options = "header, allowMissingColumns" if some else "header"
    assert_same(spark, f'source(csv, "d", ",", type(<A: string, B: string>), {options})', base)


@seed(2026)
@settings(few, max_examples=4)
@given(st.lists(st.tuples(INFERRED, INFERRED), min_size=2, max_size=20), st.booleans())
def test_types_that_are_found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], header: bool
) -> None:
    """Both engines read the fields of CSV by the inferred types."""
    base = tmp_path_factory.mktemp("found")
    lines = [*(["a b,`"] if header else []), *(f'{a},"{b}"' for a, b in rows)]
    (base / "f.csv").write_text("".join(line + "\n" for line in lines))
    assert_same(spark, f'source(csv, "f.csv", ","{", header" if header else ""})', base)


def test_timestamps_of_96_bits(spark: SparkSession, tmp_path: Path) -> None:
    """Timestamps of 96 bits are read as microseconds in both engines."""
    times = [datetime(1700, 1, 1), datetime(2024, 1, 1, 10, 0, 0, 123), None]
    table = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    assert Record({"t": times[1]}) in assert_same(spark, 'source(parquet, "f.parquet")', tmp_path)


def test_unsigned_integers(spark: SparkSession, tmp_path: Path) -> None:
    """Unsigned integers are read as the next wider type, also inside lists."""
    sizes = (8, 16, 32, 64)
    largest = {f"u{bits}": pa.array([2**bits - 1, None, 0], getattr(pa, f"uint{bits}")()) for bits in sizes}
    lists = pa.array([[2**64 - 1, None], [], None], pa.list_(pa.uint64()))
    pq.write_table(pa.table({**largest, "us": lists}), tmp_path / "f.parquet")
    wide = {f"u{bits}": 2**bits - 1 for bits in sizes} | {"u64": Decimal(2**64 - 1), "us": [Decimal(2**64 - 1), None]}
    assert Record(wide) in assert_same(spark, 'source(parquet, "f.parquet")', tmp_path)
    (tmp_path / "two").mkdir()
    for name, integers in (("1", pa.uint64()), ("2", pa.int64())):
        pq.write_table(pa.table({"u64": pa.array([7], integers)}), tmp_path / "two" / f"{name}.parquet")
    for asked in ("", ", type(<u64: decimal(20, 0)>)", ", type(<u64: decimal(22, 2)>)"):
        found = assert_same(spark, f'source(parquet, "two"{asked})', tmp_path)
        assert found == Bag([Record({"u64": Decimal(7)})] * 2)


def test_text_that_is_utf8_and_bytes_that_are_not(spark: SparkSession, tmp_path: Path) -> None:
    """U+FFFD and U+FFFF are text, in contrast to invalid UTF-8; also with delimiters of several bytes, byte order
    marks, and fields over several lines."""
    cases = [
        (b'1,\xff\n2,\xef\xbf\xbd\n3,\xc3\xa9\n"4",""\n,\n5,"\xed\xa0\x80"\n6,\xef\xbf\xbf\n', ","),
        (b"\xef\xbb\xbf1,x\n2,\xc3\xa9\n", ","),
        (b'\xef\xbb\xbf1,\xc3\xa9\xef\xbf\xbd\n,\n2,"\xf0\x9f\x98\x80"\n', ","),
        (b"\xef\xbb\xbf1,\xff\n2,x\n", ","),
        ('1§x\n2§" §é"\n3§ é \n§\n'.encode(), "§"),
        ("1,\u00a0\n2,\u3000 \n3,\u0085\n".encode(), ","),
    ]
    for data, delimiter in cases:
        (tmp_path / "f.csv").write_bytes(data)
        assert_same(spark, f'source(csv, "f.csv", "{delimiter}", type((int, string)))', tmp_path)
        more = 'multiline, nullValue("é", "x")'
        assert_same(spark, f'source(csv, "f.csv", "{delimiter}", type((int, string)), {more})', tmp_path)


SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.builds(lambda digits, exponent: float(f"{digits}e{exponent}"), st.integers(-999, 999), st.integers(-300, 300)),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text('aé"\\\n\t\u2028😀', max_size=4),
)
KEY = st.sampled_from(["A", "b", "é", "😀", "\uffff", "a b"])
JSON = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["A", "b", "é", "😀", "\uffff", "a b"]), inner, max_size=3)
    ),
    max_leaves=6,
)
OBJECT = st.fixed_dictionaries(
    {},
    optional={
        "A": st.integers(-3, 2**33) | st.sampled_from(["NaN", "Infinity", "-Infinity", "inf"]) | JSON,
        "B": JSON,
        "C": st.lists(st.integers(0, 3) | SCALAR),
    },
)
NUMBERS = [
    *('{"A": 1e0}', '{"A": -0e0}', '{"A": 1E5}', '{"A": 2.50e-3}', '{"A": 01}', '{"A": +1}'),
    '{"B": [1e400, -0.0, 1.50, 1e22, 0.1e-6, 1e23, 1e7]}',
]
WRONG = [
    "{}",
    "[]",
    "1",
    "null",
    '{"A": 1}}',
    '{"A": 1}]',
    '{"A": 1}] {"A": 2}',
    "]",
    '{"A": 1}, {"A": 2}',
    '{"A": 1}, "mrql end"] ',
    '{"A": 1}, "mrql end"',
    '{"A": "mrql end"}',
    " ",
    "{'A': 1}",
    '{"A": 1,}',
    '// {"A": 1}',
    '{"A": "\\x41"}',
    '"\\ud83d"',
]
LINE = st.one_of(
    OBJECT.map(json.dumps),
    OBJECT.map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.sampled_from(NUMBERS),
    st.sampled_from(WRONG),
)


@seed(2026)
@settings(few, max_examples=4)
@given(st.lists(LINE, min_size=20, max_size=40))
def test_json(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[str]) -> None:
    """JSON values that fit a type and that do not are read alike, with given types and with the inferred one."""
    base = tmp_path_factory.mktemp("json")
    (base / "f.json").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for row in ("any", "<A: int, B: any>", "<A: double, C: {long}>", "<A: <b: string>, B: bool>", "<C: [any], A: any>"):
        assert_same(spark, f'source(json, "f.json", type({row}))', base)
    for row in ("<A: decimal(10, 2), B: any>", "<C: [decimal(38, 18)]>", "<A: string, B: [string], C: {string}>"):
        assert_same(spark, f'source(json, "f.json", type({row}))', base)
    assert_same(spark, 'source(json, "f.json")', base)


@seed(2026)
@settings(few, max_examples=2)
@given(
    st.lists(LINE, min_size=10, max_size=20),
    st.sampled_from([("", ",", ""), (" \r\n", " ,\n\t", "\n"), ("\ufeff", "\n,", " ")]),
)
def test_json_documents(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[str], signs: tuple[str, str, str]
) -> None:
    """JSON documents are read alike: arrays of values that fit a type and that do not, objects, single values, and
    invalid JSON."""
    base = tmp_path_factory.mktemp("documents")
    (base / "d").mkdir()
    before, between, behind = signs
    values = [row for row in rows if is_json(row)]
    texts = [f"[{between.join(values)}]", f"[{','.join(rows)}]", f"[{','.join(values)}", *rows[:4], "", "[]"]
    for number, text in enumerate([*texts, f"[{json.dumps(json.loads(values[0]), indent=2)}]" if values else "[ ]"]):
        (base / "d" / f"{number}.json").write_text(f"{before}{text}{behind}", encoding="utf-8", newline="")
    for row in ("any", "<A: double, C: {long}>"):
        assert_same(spark, f'source(json, "d", type({row}), multiline)', base)
    assert_same(spark, 'source(json, "d", multiline)', base)


def is_json(row: str) -> bool:
    try:
        strictly(row)
    except ValueError:
        return False
    return True


WORDS = st.sampled_from(
    [
        *(
            "x",
            "two words ",
            " ",
            "\n  ",
            "&lt;&amp;&#65;&#x1D11E;",
            "a&#xFEFF;b",
            "&#65279;&#x10FFFF;",
            "<![CDATA[<raw>&amp;]]>",
            "é",
            "007",
            "true",
            "null",
        ),
        *("]", "'", '"', "a\r\nb\rc", "<![CDATA[<a></a>\n]]>", "<![CDATA[]]>"),
    ]
)
ATTRIBUTES = st.lists(
    st.sampled_from(
        ['k="1"', 'n=""', "q:m='&quot;'", 'xml:lang="de"', "gt = 'x > \"y\" />'", 'lines="a\r\n\tb&#10;[&gt;]"']
    ),
    unique=True,
    max_size=2,
)


def _element(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    parts = st.lists(inner | WORDS, max_size=4).map("".join)
    whole = st.tuples(st.sampled_from(["a", "b", "c", "q:d"]), ATTRIBUTES, parts)
    return whole.map(
        lambda e: (
            f"<{' '.join([e[0], *e[1]])}>{e[2]}</{e[0]}{' ' * (len(e[2]) % 7 == 6)}>"
            if e[2]
            else f"<{' '.join([e[0], *e[1]])}/>"
        )
    )


DTD = "<!DOCTYPE r [<!-- don't <a> --><!ELEMENT a ANY><!ATTLIST a k CDATA #IMPLIED>]>\n"
ELEMENT = st.recursive(st.just("<a/>"), _element, max_leaves=8)


@seed(2026)
@settings(few, max_examples=6)
@given(
    st.lists(ELEMENT, min_size=5, max_size=30),
    st.sampled_from(["", "<!-- a <remark> -->", "<?instruction?>", '<!-- </a> <a> " -->']),
    st.sampled_from(['{"a"}', '{"c", "q:d"}', '{"a", "b"}']),
)
def test_xml(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: list[str], between: str, tags: str
) -> None:
    """XML elements are read alike, with attributes, texts, children in any order, and elements with the same tag
    inside."""
    base = tmp_path_factory.mktemp("xml")
    body = between.join(f"{row}\n" for row in rows)
    (base / "f.xml").write_bytes(f'<?xml version="1.0"?>\n{DTD}<r xmlns:q="urn:q">{body}</r>\n'.encode())
    for element in assert_same(spark, f'source(xml, "f.xml", {tags})', base):
        assert to_xml(element).startswith(("<a", "<b", "<c", "<q:d"))
    # If no such element is inside another one, the file is read in pieces.
    flat = "\n".join(re.sub(r"(</?)a(?=[\s/>])", r"\1z", row) for row in rows)
    body = f"<a k='1'>{flat}</a><a/>" * 3
    (base / "f.xml").write_bytes(f"<r>{between.replace('</a>', '')}{body}</r>".encode())
    assert len(assert_same(spark, 'source(xml, "f.xml", {"a"})', base)) == 6


def test_lines_of_text(spark: SparkSession, tmp_path: Path) -> None:
    """Lines may end in three ways, and keep their blanks; those that are not UTF-8 are malformed."""
    (tmp_path / "f.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n\n \xc3\xa4\n\xe4\nlast")
    (tmp_path / "g.txt.gz").write_bytes(gzip.compress(b"zipped\n"))
    (tmp_path / "m.txt").write_bytes(b"\xef\xbb\xbf")
    packed = pa.compress(b"packed\n", "zstd", asbytes=True)
    (tmp_path / "h.txt.zst").write_bytes(packed)
    found = assert_same(spark, 'source(text, "*.txt*")', tmp_path)
    assert found == Bag(["a", "b", "c", "", " ä", "last", "zipped", "packed"])
    (tmp_path / "h.txt.zst").write_bytes(packed + packed[:-2])
    with pytest.raises(UserError, match=r"h\.txt\.zst is not a whole \.zst file: Truncated"):
        read(spark, next(iter(compile_over_files('source(text, "h.txt.zst");', base=tmp_path).sources.values())))


def test_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet and ORC are read alike, with their own types and with wider ones; a file without the columns is
    quarantined."""
    nested = pa.list_(pa.struct([("u", pa.float32()), ("v", pa.list_(pa.string()))]))
    columns = {
        "a": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([[{"u": 1.5, "v": ["x", None]}], [], None], nested),
        "s": pa.array(["x", "é", None]),
        "d": pa.array([date(2026, 1, 31), None, date(1, 1, 1)], pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    moments = pa.array([datetime(2026, 1, 31, 23, 59, 59, 999_999), None, datetime(1700, 2, 28)], pa.timestamp("us"))
    lists = pa.array([[{"u": datetime(2026, 1, 31)}], [None], None], pa.list_(pa.struct([("u", pa.timestamp("us"))])))
    orc.write_table(
        pa.table(columns | {"t": moments, "z": moments.cast(pa.timestamp("us", "UTC"))}), tmp_path / "f.orc"
    )
    orc.write_table(pa.table({"l": lists}), tmp_path / "lists.orc")
    pq.write_table(pa.table({"b": pa.array([1])}), tmp_path / "g.parquet")
    (tmp_path / "h.parquet").write_text("no parquet")
    for name in ("parquet", "orc"):
        assert len(assert_same(spark, f'source({name}, "f.{name}")', tmp_path)) == 3
        assert_same(spark, f'source({name}, "f.{name}", type(<s: string, a: double>))', tmp_path)
        assert_same(spark, f'source({name}, "f.{name}", type(<d: timestamp>))', tmp_path)
        assert_same(spark, f'source({name}, "f.{name}", type(<l: {{<u: float, v: {{string}}>}}>))', tmp_path)
    assert len(assert_same(spark, 'source(parquet, "*.parquet", type(<a: int>))', tmp_path)) == 3
    assert len(assert_same(spark, 'source(orc, "lists.orc")', tmp_path)) == 3


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("name", ["f.zip", "f.deflate", "f.txt.GZ", "f.Bz2"])
def test_files_that_are_packed_in_other_ways(spark: SparkSession, tmp_path: Path, format: str, name: str) -> None:
    """A name that says that a file is packed, and that Spark does not know, is an error in both engines."""
    (tmp_path / name).write_bytes(gzip.compress(b"1\n"))
    row = ", type(long)" if format == "json" else ""
    spec = next(iter(compile_over_files(f'source({format}, "{name}"{row});', base=tmp_path).sources.values()))
    for reads in (lambda: read_source(spec), lambda: read(spark, spec)):
        with pytest.raises(UserError, match="is compressed in a way that is not read"):
            reads()


DAY = date(2026, 1, 31)


def test_maps(spark: SparkSession, tmp_path: Path) -> None:
    """A map is the bag of its pairs, at any depth, and may be asked for with wider parts."""
    inside = pa.struct([("x", pa.list_(pa.float32())), ("y", pa.map_(pa.date32(), pa.bool_()))])
    columns = {
        "m": pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int32())),
        "n": pa.array([[(7, {"x": [1.5], "y": [(DAY, True)]})], [(8, None)], None], pa.map_(pa.int64(), inside)),
        "l": pa.array([[[("k", "v")], None], [], None], pa.list_(pa.map_(pa.string(), pa.string()))),
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    orc.write_table(pa.table(columns), tmp_path / "f.orc")
    for name in ("parquet", "orc"):
        assert Record({"m": Bag([("a", 1), ("b", None)])}) in {
            Record({"m": row["m"]}) for row in assert_same(spark, f'source({name}, "f.{name}")', tmp_path)
        }
        assert_same(spark, f'source({name}, "f.{name}", type(<m: {{(string, double)}}>))', tmp_path)
        assert_same(spark, f'source({name}, "f.{name}", type(<n: {{(long, <x: {{double}}>)}}>))', tmp_path)


BOM = "\ufeff".encode()
PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("suffix", PACKED)
def test_marks_at_the_beginning(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    """A byte order mark is no part of the first name, row or field, in each of several files, compressed or not."""
    texts = {
        "csv": (["a,b\n1,x\n", "b,a\ny,2\n"], ', ",", header, type(<a: long, b: string>)'),
        "json": (['{"a": 1, "b": "x"}\n', '{"a": 2, "b": "y"}\n'], ", type(<a: long, b: string>)"),
    }
    for format, (files, options) in texts.items():
        for number, text in enumerate(files):
            (tmp_path / f"{number}.{format}{suffix}").write_bytes(PACKED[suffix](BOM + text.encode()))
        rows = assert_same(spark, f'source({format}, "*.{format}{suffix}"{options})', tmp_path)
        assert same(rows, Bag([Record({"a": 1, "b": "x"}), Record({"a": 2, "b": "y"})])), format
    (tmp_path / f"f.txt{suffix}").write_bytes(PACKED[suffix](BOM + b"1\n2\n"))
    assert same(assert_same(spark, f'source(csv, "f.txt{suffix}", ",", type(long))', tmp_path), Bag([1, 2]))


def test_columns_as_arrow_writes_them(spark: SparkSession, tmp_path: Path) -> None:
    """A dictionary-encoded column is read as its values; a column of a type that the language does not have is left
    out, and the others are read."""
    columns = {
        "d": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "n": pa.array([1, 2, 3, 4]),
        "half": pa.array([1.0, 2.0, 0.5, None], pa.float16()),
        "wide": pa.array([1, 2, 3, None], pa.decimal256(50, 2)),
        "span": pa.array([1, 2, 3, None], pa.duration("us")),
        "nothing": pa.nulls(4),
    }
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    rows = assert_same(spark, 'source(parquet, "f.parquet")', tmp_path)
    found = [(row.fields["d"], row.fields["n"]) for row in rows]
    assert sorted(found, key=lambda row: row[1]) == [("x", 1), ("y", 2), (None, 3), ("x", 4)]
    assert_same(spark, 'source(parquet, "f.parquet", type(<d: string, n: long>))', tmp_path)
