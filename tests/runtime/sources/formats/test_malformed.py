"""Malformed data of each kind: one exact message and exit code 1, or no row lost in quarantine."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow import orc
from pyspark.sql import SparkSession

from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.compression import TO_UTF8, UNPACKED_ARE
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.files import read_file, read_source
from mrql.runtime.sources.formats.csv import OPEN_QUOTE


@attrs.frozen
class Bad:
    """A file with malformed data, the source by which it is read, and the message.

    `rows` is the number of well-formed rows, and `kept` that of the rows in quarantine.
    """

    file: str
    data: bytes
    source: str
    message: str
    rows: int = 1
    kept: int = 1


def csv(
    data: str | bytes, message: str, row: str = "(int, string)", options: str = "", rows: int = 1, kept: int = 1
) -> Bad:
    raw = data.encode() if isinstance(data, str) else data
    return Bad("f.csv", raw, f'csv, "f.csv", ",", type({row}){options}', f"f.csv:{message}", rows, kept)


def line(data: str, message: str, rows: int = 1) -> Bad:
    return Bad("f.csv", data.encode(), 'line, "f.csv", ",", type((int, string))', f"f.csv:{message}", rows)


def lines(
    data: str | bytes, message: str, row: str = "<A: int>", options: str = "", rows: int = 1, kept: int = 1
) -> Bad:
    raw = data.encode() if isinstance(data, str) else data
    return Bad("f.json", raw, f'json, "f.json", type({row}){options}', f"f.json:{message}", rows, kept)


def document(data: str | bytes, message: str, row: str = "<A: int>", rows: int = 0, kept: int = 1) -> Bad:
    raw = data.encode() if isinstance(data, str) else data
    return Bad("f.json", raw, f'json, "f.json", type({row}), multiline', f"f.json:{message}", rows, kept)


def xml(data: str | bytes, message: str) -> Bad:
    raw = data.encode() if isinstance(data, str) else data
    return Bad("f.xml", raw, 'xml, "f.xml", {"a"}', f"f.xml:{message}", rows=0)


def parquet(table: pa.Table, row: str, message: str, options: str = "") -> Bad:
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    source = f'parquet, "f.parquet", type({row}){options}'
    return Bad("f.parquet", out.getvalue().to_pybytes(), source, f"f.parquet {message}", 0)


def orc_file(table: pa.Table, row: str, message: str, options: str = "") -> Bad:
    out = pa.BufferOutputStream()
    orc.write_table(table, out)
    return Bad("f.orc", out.getvalue().to_pybytes(), f'orc, "f.orc", type({row}){options}', f"f.orc {message}", 0)


LONGS = pa.table({"A": pa.array([1], pa.int64()), "T": pa.array([[1]], pa.list_(pa.int64()))})
ROW = "error: malformed row: "

BAD: dict[str, Bad] = {
    "csv, too few fields": csv("1,a\n2\n", f"2:1: {ROW}1 field, where 2 were expected"),
    "csv, too many fields": csv("1,a\n2,b,c\n", f"2:1: {ROW}3 fields, where 2 were expected"),
    "csv, a delimiter behind a record": csv("1,a,\n2,b\n3,c,\n", f"1:1: {ROW}3 fields, where 2 were expected", kept=2),
    "csv, a delimiter behind all records": csv("1,a,\n2,\n", f"2:1: {ROW}2 fields, where 3 were expected"),
    "line, too few fields": line("1,a,x\n2\n3,b,\n", f"2:1: {ROW}1 field, where 2 were expected", rows=2),
    "line, no integer before fields that are not read": line(
        '1,a,"x,y",\nx,a,1\n', f'2:1: {ROW}"x" is not a value of type int (column _1)'
    ),
    "csv, no integer": csv("x,a\n1,a\n", f'1:1: {ROW}"x" is not a value of type int (column _1)'),
    "csv, a fraction for an integer": csv("1.0,a\n1,a\n", f'1:1: {ROW}"1.0" is not a value of type int (column _1)'),
    "csv, out of range": csv("1,a\n3000000000,a\n", f'2:1: {ROW}"3000000000" is not a value of type int (column _1)'),
    "csv, no number": csv("1\n1,5\n", f"2:1: {ROW}2 fields, where 1 were expected", "<P: double>"),
    "csv, no double": csv("1e3\n1x\n", f'2:1: {ROW}"1x" is not a value of type double (column P)', "<P: double>"),
    "csv, too many digits": csv(
        "1.50\n1.505\n", f'2:1: {ROW}"1.505" is not a value of type decimal(5, 2) (column P)', "<P: decimal(5, 2)>"
    ),
    "json, too many digits": lines(
        '{"A": 1.500}\n{"A": 1000}\n',
        f"2:1: {ROW}1000 is not a value of type decimal(5, 2) (at A)",
        "<A: decimal(5, 2)>",
    ),
    "json, an exponent": lines(
        '{"A": "1.5"}\n{"A": 1e0}\n', f"2:1: {ROW}1.0 is not a value of type decimal(5, 2) (at A)", "<A: decimal(5, 2)>"
    ),
    "csv, no bool": csv("TRUE\nyes\n", f'2:1: {ROW}"yes" is not a value of type bool (column B)', "<B: bool>"),
    "csv, no date": csv(
        "2026-01-31\n2026-02-30\n", f'2:1: {ROW}"2026-02-30" is not a value of type date (column D)', "<D: date>"
    ),
    "csv, no timestamp": csv(
        "2026-01-31 24:00\n\n2026-01-31\n",
        f'1:1: {ROW}"2026-01-31 24:00" is not a value of type timestamp (column T)',
        "<T: timestamp>",
    ),
    "csv, an empty text for a number": csv('"",a\n,a\n', f'1:1: {ROW}"" is not a value of type int (column _1)'),
    "csv, a null value in quotes": csv(
        'NA,a\n"NA",a\n', f'2:1: {ROW}"NA" is not a value of type int (column _1)', options=', nullValue("NA")'
    ),
    "csv, behind comments": csv(
        "# a\n1,a\n\n#\n#,b\n2\n #,b\n", f"6:1: {ROW}1 field, where 2 were expected", options=', comment("#")', kept=2
    ),
    "csv, a comment in a record over lines": csv(
        '#"a\n1,"a\n#,b"\n#\n2\n', f"5:1: {ROW}1 field, where 2 were expected", options=', multiline, comment("#")'
    ),
    "csv, no day of that month": csv(
        "01.03.2026\n31.02.2026\n",
        f'2:1: {ROW}"31.02.2026" is not a value of type date, written as dd.MM.yyyy (column D)',
        "<D: date>",
        ', dateFormat("dd.MM.yyyy")',
    ),
    "csv, not written by the pattern": csv(
        "31.01.2026 1000\n2026-01-31 10:00\n",
        f'2:1: {ROW}"2026-01-31 10:00" is not a value of type timestamp, written as dd.MM.yyyy HHmm (column T)',
        "<T: timestamp>",
        ', timestampFormat("dd.MM.yyyy HHmm")',
    ),
    "csv, not written as in the locale": csv(
        '"1.234,5"\n"1,234.5"\n',
        f'2:1: {ROW}"1,234.5" is not a value of type double, written as in de-DE (column D)',
        "<D: double>",
        ', locale("de-DE")',
    ),
    "csv, one field, which is a null value": csv(
        "NA\n1,NA\n", f"1:1: {ROW}1 field, where 2 were expected", options=', nullValue("NA")'
    ),
    "csv, not UTF-8": csv(b"1,a\n2,\xff\n", f"2:1: {ROW}not text in UTF-8 (column _2)"),
    "csv, a column that is left out is there": csv(
        "1,a\n1\n", f"2:1: {ROW}1 field, where 2 were expected", "(int, any)"
    ),
    "csv, a header for data": csv("n,a\n1,a\n", f'1:1: {ROW}"n" is not a value of type int (column _1)'),
    "csv, a line end in quotes": csv('2,b\n1,"a\nb"\n', f"3:1: {ROW}1 field, where 2 were expected", rows=2),
    "csv, a quote never closed": csv(
        '1,a\n2,"b\n3,c\n', f"2:1: {ROW}a quote that is not closed", options=", multiline", rows=0
    ),
    "csv, text behind a quote": csv('1,a\n"2"x,b\n', f'2:1: {ROW}""2"x" is not a value of type int (column _1)'),
    "json, no JSON": lines('{"A": 1}\n{"A": 1\n', f"2:1: {ROW}not JSON"),
    "json, something behind the value": lines('{"A": 1}\n{"A": 1} x\n', f"2:1: {ROW}not JSON"),
    "json, two values in a line": lines('{"A": 1}\n{"A": 1}, {"A": 2}\n', f"2:1: {ROW}not JSON"),
    "json, single quotes": lines("{\"A\": 1}\n{'A': 1}\n", f"2:1: {ROW}not JSON"),
    "json, NaN": lines('{"A": 1}\n{"A": NaN}\n', f"2:1: {ROW}NaN is not a value of JSON", "<A: double>"),
    "json, a key twice": lines('{"A": 1}\n{"A": 1, "A": 2}\n', f'2:1: {ROW}the key "A" is there twice'),
    "json, half a character": lines('{"A": 1}\n{"A": 1, "B": "\\ud800"}\n', f"2:1: {ROW}half of a pair of surrogates"),
    "json, not UTF-8": lines(b'{"A": 1}\n{"A": 2, "B": "\xff"}\n', f"2:1: {ROW}not text in UTF-8"),
    "json, a text for a number": lines('{"A": 1}\n{"A": "1"}\n', f'2:1: {ROW}"1" is not a value of type int (at A)'),
    "json, a fraction for an integer": lines(
        '{"A": 1}\n{"A": 1.0}\n', f"2:1: {ROW}1.0 is not a value of type int (at A)"
    ),
    "json, out of range": lines(
        '{"A": 1}\n{"A": 3000000000}\n', f"2:1: {ROW}3000000000 is not a value of type int (at A)"
    ),
    "json, null for a record": lines('{"A": 1}\nnull\n', f"2:1: {ROW}null is not a value of type <A: int>"),
    "json, an array for a record": lines(
        '[{"A": 1}]\n{"A": 1}\n', f'1:1: {ROW}[{{"A":1}}] is not a value of type <A: int>'
    ),
    "json, no date": lines(
        '{"D": ["2026-01-31", null]}\n{"D": ["31.1.2026"]}\n',
        f'2:1: {ROW}"31.1.2026" is not a value of type date (at D[0])',
        "<D: [date]>",
    ),
    "csv, a new column": csv(
        "A,B,C\n1,2,x\n",
        f"1:1: {ROW}the header has a new column `C`",
        "<A: long, B: any>",
        ", header, failOnNewColumns",
        rows=0,
    ),
    "json, a new field": lines(
        '{"A": 1}\n{"A": 1, "B.c": null}\n', f"2:1: {ROW}a new field `B.c`", "<A: long>", ", failOnNewColumns"
    ),
    "parquet, a new column": parquet(LONGS, "<A: long>", "has a new column `T`", ", failOnNewColumns"),
    "orc, a new column": orc_file(LONGS, "<A: long>", "has a new column `T`", ", failOnNewColumns"),
    "json, not written by the pattern": lines(
        '{"D": ["31.01.2026", null]}\n{"D": ["2026-01-31"]}\n',
        f'2:1: {ROW}"2026-01-31" is not a value of type date, written as dd.MM.yyyy (at D[0])',
        "<D: [date]>",
        ', dateFormat("dd.MM.yyyy")',
    ),
    "json, a number for a timestamp": lines(
        '{"T": 5}\n{"T": "2026-01-31T10:20Z"}\n',
        f"1:1: {ROW}5 is not a value of type timestamp (at T)",
        "<T: timestamp>",
    ),
    "json, a text for a double": lines(
        '{"A": "NaN"}\n{"A": "nan"}\n', f'2:1: {ROW}"nan" is not a value of type double (at A)', "<A: double>"
    ),
    "json, wrong inside": lines(
        '{"T": [{"U": true}, {"U": 1}]}\n{"T": null}\n',
        f"1:1: {ROW}1 is not a value of type bool (at T[1].U)",
        "<T: {<U: bool>}>",
    ),
    "json, a value for a collection": lines(
        '{"T": 1}\n{"T": []}\n', f"1:1: {ROW}1 is not a value of type [int] (at T)", "<T: [int]>"
    ),
    "json, a document without multiline": lines(
        '[\n{"A": 1}\n]\n',
        f"1:1: {ROW}not JSON in one line: `multiline` reads files that are one document each",
        kept=2,
    ),
    "json, an element of another type": document(
        '[{"A": 1},\n{"A": "x"}\n, {"A": 2}, null]',
        f'2:1: {ROW}"x" is not a value of type int (at A) (element 2)',
        rows=2,
        kept=2,
    ),
    "text, not UTF-8": Bad("f.txt", b"a\n\xe4\n", 'text, "f.txt"', f"f.txt:2:1: {ROW}not text in UTF-8"),
    "xml, the wrong end": xml("<r>\n<a>1</a><a></b></r>", f"2:1: {ROW}not well-formed XML: mismatched tag"),
    "xml, cut off": xml("<r><a>1</a>\n<a>", f"2:1: {ROW}not well-formed XML: no element found"),
    "xml, an entity": xml(
        '<!DOCTYPE r [<!ENTITY e "x">]>\n<r><a>&e;</a></r>', f"1:1: {ROW}an entity is declared, which is not read"
    ),
    "xml, an entity of another file": xml(
        '<!DOCTYPE r SYSTEM "r.dtd">\n<r><a>M&uuml;ller</a></r>',
        f"2:1: {ROW}the entity `uuml` is not declared here, and no other file is read",
    ),
    "xml, an entity of another file in an attribute": xml(
        '<!DOCTYPE r SYSTEM "r.dtd">\n<r><b x="&amp;&#65;"/>\n<a n="1 > 0" k=\'M&uuml;ller\'/></r>',
        f"3:1: {ROW}an entity in an attribute, which is not declared here",
    ),
    "xml, an entity behind parameters": xml(
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "p">%p;]>\n<r><a>&x;</a></r>',
        f"1:1: {ROW}an entity is declared, which is not read",
    ),
    "xml, an entity that is not declared": xml(
        "<r><a>&uuml;</a></r>", f"1:1: {ROW}not well-formed XML: undefined entity"
    ),
    "xml, the default of an attribute": xml(
        '<!DOCTYPE r [\n<!ATTLIST a k CDATA "1">]>\n<r><a/></r>',
        f"2:1: {ROW}the attribute `k` of `a` has a default, which is not read",
    ),
    "xml, the type of an attribute": xml(
        '<!DOCTYPE r [\n<!ATTLIST a k NMTOKENS #IMPLIED>]>\n<r><a k=" x  y "/></r>',
        f"2:1: {ROW}the attribute `k` of `a` is of type NMTOKENS, which is not read",
    ),
    "xml, two elements": xml("<a/>\n<a/>", f"2:1: {ROW}not well-formed XML: junk after document element"),
    "xml, an attribute twice": xml('<r><a k="1" k="2"/></r>', f"1:1: {ROW}not well-formed XML: duplicate attribute"),
    "xml, not the encoding": xml(
        b"<r>\n<a>\xff</a></r>", f"2:1: {ROW}not well-formed XML: not well-formed (invalid token)"
    ),
    "xml, a comment in a text": xml(
        "<r>\n<a>x<!-- y -->z</a></r>", f"2:1: {ROW}a comment or an instruction inside a text, which is not read"
    ),
    "xml, nothing": xml("", f"1:1: {ROW}not well-formed XML: no element found"),
    "parquet, something else": Bad(
        "f.parquet", b"A,B\n", 'parquet, "f.parquet", type(<A: long>)', "f.parquet is not a Parquet file", 0
    ),
    "parquet, no such column": parquet(LONGS, "<A: long, B: long>", "has no column `B`; its columns: A, T"),
    "parquet, another type": parquet(
        LONGS, "<A: string>", "has a column `A` that is of type long, where string was expected"
    ),
    "parquet, too wide a type": parquet(
        LONGS, "<A: int>", "has a column `A` that is of type long, where int was expected"
    ),
    "parquet, another type inside": parquet(
        LONGS, "<T: [bool]>", "has a part `T[]` that is of type long, where bool was expected"
    ),
    "orc, something else": Bad("f.orc", b"A,B\n", 'orc, "f.orc", type(<A: long>)', "f.orc is not an ORC file", 0),
    "orc, no such column": orc_file(LONGS, "<B: long>", "has no column `B`; its columns: A, T"),
}

DOCUMENTS: dict[str, Bad] = {
    "json, a document that is no JSON": document('[{"A": 1},\n {"A": 2}\n {"A": 3}]', f"3:1: {ROW}not JSON (column 2)"),
    "json, two documents": document('{"A": 1}\r\n{"A": 2}', f"2:1: {ROW}something behind the value (column 1)"),
    "json, a document that ends too soon": document('[\n{"A": 1}', f"2:1: {ROW}not JSON (column 9)"),
    "json, a document that is a number": document("\n 5", f"2:1: {ROW}neither an array nor an object (column 2)"),
    "json, a document with a key twice": document(
        '[\n{"A": 1,\n "A": 2}]', f'2:1: {ROW}the key "A" is there twice (column 1)'
    ),
    "json, a document that is not UTF-8": document(b'[{"A":\n "\xff"}]', f"2:1: {ROW}not text in UTF-8 (column 3)"),
}
"""Documents that both engines find malformed before there are any rows: the driver reads the file."""


def run(home: Path, source: str, *options: str) -> Result:
    (home / "q.mrql").write_text(f"source({source});\n")
    return CliRunner().invoke(main, ["run", str(home / "q.mrql"), "--data", str(home), "--format", "json", *options])


def check_fails(home: Path, bad: Bad, engine: str) -> None:
    (home / bad.file).write_bytes(bad.data)
    done = run(home, bad.source, "--engine", engine)
    shown = done.stderr.replace(f"{home}/", "").splitlines()
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    place = bad.message if ": error: " in bad.message else f"error: {bad.message}"
    assert shown[0] == place


def zstandard(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("name", "text", "type", "hint"),
    [
        (
            "f.csv",
            "id,unit price\n1,2\n",
            "(long, long)",
            "if the first record has the names of the columns, `header` says so",
        ),
        ("f.csv", "id,id\n1,2\n", "(long, long)", None),
        ("f.csv", '1,"a\nb",2\n', "(long, string, long)", OPEN_QUOTE),
        ("f.csv", '1,"a"\n', "(long, string, long)", None),
        ("f.csv", "31.01.2026\n", "date", 'an option says how it is written: `dateFormat("dd.MM.yyyy")`, for example'),
        ("f.csv", "20260131\n", "date", 'an option says how it is written: `dateFormat("dd.MM.yyyy")`, for example'),
        (
            "f.csv",
            "31/01/2026 10:00\n",
            "timestamp",
            'an option says how it is written: `timestampFormat("dd.MM.yyyy HH:mm")`, for example',
        ),
        ("f.csv", "2026-02-30\n", "date", None),
        ("f.csv", "1769817600\n", "timestamp", None),
        ("f.csv", "1,2\nid,n\n", "(long, long)", None),
        ("f.json", '[{"A": 1}, {"A": 2}]', "<A: long>", "`multiline` reads files that are one document each"),
        ("f.json", '{"A": 1}\n[{"A": 2}]', "<A: long>", None),
        ("f.csv", "A\n1\n", "<A: long, B: long>; header", "with `allowMissingColumns` its values are missing there"),
        ("f.csv", "b,A\n1,2\n", "<A: long, B: long>; header", None),
        ("f.csv", "Zo\udcebl,1\n", "(string, long)", TO_UTF8),
        ("f.json", '{"A": "Zo\udcebl"}', "<A: string>", TO_UTF8),
        ("f.text", "Zo\udcebl", "", TO_UTF8),
        ("f.json", '{"A": "2026-01-31T10:20:30Z"}', "<A: date>", "with a time of day it is of type `timestamp`"),
        (
            "f.json",
            '[{"A": "31.01.2026"}]',
            "<A: date>; multiline",
            'an option says how it is written: `dateFormat("dd.MM.yyyy")`, for example; `string` reads it as it is',
        ),
        (
            "f.json",
            '{"A": "31/01/2026 10:00"}',
            "<A: timestamp>",
            'an option says how it is written: `timestampFormat("dd.MM.yyyy HH:mm")`, for example; '
            "`string` reads it as it is",
        ),
        ("f.json", '{"A": 1769817600}', "<A: timestamp>", None),
    ],
)
def test_what_may_have_been_forgotten(tmp_path: Path, name: str, text: str, type: str, hint: str | None) -> None:
    """If an option may have been forgotten, such as `header` or `multiline`, the hint names it."""
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    more = ['","'] if name.endswith("csv") else []
    row, _, option = type.partition("; ")
    arguments = [name[2:], f'"{name}"', *more, *([f"type({row})"] if row else []), *([option] if option else [])]
    done = run(tmp_path, ", ".join(arguments), "--engine", "reference")
    last = done.stderr.splitlines()[-1]
    assert last.strip() == f"= hint: {hint}" if hint else "hint" not in done.stderr


@pytest.mark.parametrize(
    ("pack", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2"), (zstandard, ".zst")], ids=lambda _: ""
)
@pytest.mark.parametrize("source", ['csv, "f", ",", type((long, long))', 'json, "f", type(<A: long>)', 'json, "f"'])
def test_a_compressed_file_without_its_extension(
    tmp_path: Path, source: str, pack: Callable[[bytes], bytes], suffix: str
) -> None:
    """A compressed file without its extension is malformed in its first line, and its first bytes give the hint."""
    (tmp_path / "f").write_bytes(pack(b'{"A": 1}\n' * 100))
    done = run(tmp_path, source, "--engine", "reference")
    assert f"hint: the file is compressed, and read so if its name ends in {suffix}\n" in done.stderr


def test_columns_of_the_path_in_the_files_too(tmp_path: Path) -> None:
    """A record that also has the column of a partition has one field too many, which the hint explains."""
    (tmp_path / "in" / "day=2026-01-31").mkdir(parents=True)
    (tmp_path / "in" / "day=2026-01-31" / "f.csv").write_text("1,2026-01-31\n")
    done = run(tmp_path, 'csv, "in", ",", type(<a: long, day: date>)', "--engine", "reference")
    assert "2 fields, where 1 were expected" in done.stderr
    hint = "the path has `day`: a record is to have the other columns, or all are found by a `header`"
    assert f"hint: {hint}\n" in done.stderr


def check_keeps(home: Path, bad: Bad, engine: str) -> None:
    (home / bad.file).write_bytes(bad.data)
    kept = home / "aside"
    done = run(home, bad.source, "--engine", engine, "--malformed", "quarantine", "--quarantine", str(kept))
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["value"]) == bad.rows
    rows = [json.loads(line) for line in (kept / "run" / "malformed.json").read_text().splitlines()]
    many = f"{len(rows)} malformed row{'' if len(rows) == 1 else 's'} kept aside in {kept}/run\n"
    assert (len(rows), done.stderr) == (bad.kept, many)
    first = rows[0]
    assert first["file"] == str(home / bad.file)
    assert bad.message.endswith(first["reason"])
    if first["line"] is not None:
        assert bad.message.startswith(f"{bad.file}:{first['line']}:")
        whole = bad.data.decode(errors="replace").splitlines() or [""]
        assert first["text"].split("\n")[0] == whole[first["line"] - 1]


@pytest.mark.parametrize("name", [*BAD, *DOCUMENTS])
def test_the_first_malformed_row_is_an_error(tmp_path: Path, name: str) -> None:
    """The first malformed row is an error with one message, with file, line and reason, and there is no answer."""
    check_fails(tmp_path, {**BAD, **DOCUMENTS}[name], "reference")


@pytest.mark.parametrize("name", [*BAD, *DOCUMENTS])
def test_malformed_rows_are_kept_aside(tmp_path: Path, name: str) -> None:
    """With a quarantine, the answer is that to the well-formed rows; malformed rows are counted, and kept with their
    text."""
    check_keeps(tmp_path, {**BAD, **DOCUMENTS}[name], "reference")


@pytest.mark.spark
def test_spark_finds_the_same(tmp_path: Path, spark: SparkSession) -> None:
    """The same rows are malformed on Spark, with the same messages, kind by kind."""
    for number, (name, bad) in enumerate(BAD.items()):
        for check in (check_fails, check_keeps):
            home = tmp_path / f"{number}{check.__name__}"
            home.mkdir()
            try:
                check(home, bad, "spark")
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error


# --- the source itself --------------------------------------------------------------------------

FORMATS = (
    "formats that are read: line, csv, json, text, xml, parquet, orc, adapter, postgresql, postgresql_cdc, delta, "
    "iceberg, socket, spark, table"
)

ADD = "add type(<A: long>), say"
SEVERAL = 'several files are a pattern: `"in/{a,b}.csv"`, or one source for each, joined by `union`'

SOURCES: list[tuple[str, str, str]] = [
    ('csv, "none.csv", ",", type(int)', "no such file or directory: none.csv", ""),
    ('csv, "none*.csv", ",", type(int)', "no such file or directory: none*.csv", ""),
    (
        'csv, "no/**/a.csv", ",", type(int)',
        "no such file or directory: no/**/a.csv",
        "`**` is what `*` is, one directory: the files of each depth have a pattern of their own",
    ),
    ('csv, "non?/{a,b}.csv", ",", type(int)', "no such file or directory: non?/{a,b}.csv", ""),
    ('csv, "nothing"', "no file in nothing to take the type of the rows from", "add type(<A: long>), say"),
    ('csv, "empty.json", header', "no row in empty.json to take the type of the rows from", "add type(<A: long>), say"),
    ('csv, "f.csv", ";;", type(int)', "a delimiter is one character", ""),
    ('csv, "f.csv", ",", type([int])', "a column of a csv file holds an atomic value, not [int]", ""),
    ('csv, "f.csv", ",", type(<A: XML>)', "a column of a csv file holds an atomic value, not XML", ""),
    ('csv, "f.csv", ",", type(int), {"a"}', "a csv source has no tags", f"they are for xml; {SEVERAL}"),
    (
        'json, "d.json"',
        'the first line is no JSON, but "{"',
        "add multiline, which reads files that are one document each",
    ),
    (
        'json, "two.json", multiline',
        "no row in two.json to take the type of the rows from: two.json:2: something behind the value (column 1)",
        ADD,
    ),
    ('json, "nothing.json", multiline', "no row in nothing.json to take the type of the rows from", ADD),
    ('json, "f.csv", header, type(<A: int>)', "a json source has no option `header`", "it is for csv"),
    ('json, "f.csv", type((int, int))', "rows of json are records, not (int, int)", ""),
    ('json, "f.csv", type(<A: XML>)', "a json file holds records and collections, no XML", ""),
    ('json, "empty.json"', "no row in empty.json to take the type of the rows from", "add type(<A: long>), say"),
    ('json, "nothing"', "no file in nothing to take the type of the rows from", "add type(<A: long>), say"),
    (
        'json, "lines.json"',
        "no row in lines.json to take the type of the rows from: lines.json:1: not JSON",
        "a line is a row: where a document goes over several, add `multiline`; else add type(<A: long>), say",
    ),
    ('parquet, "nothing"', "no file in nothing to take the type of the rows from", "add type(<A: long>), say"),
    ('parquet, "f.csv"', "f.csv is not a Parquet file", ""),
    ('parquet, "d.parquet"', "d.parquet has no column of a type that the language has, but <D: time64[us]>", ""),
    ('parquet, "d.parquet", type(<D: any>)', "the columns of a parquet file have types of their own", ""),
    ('xml, "f.csv"', "an xml source needs the tags of the elements that are its rows", 'source(xml, "path", {"tag"})'),
    ('xml, "f.csv", {"a b"}', '"a b" is not the tag of an element', ""),
    ('xml, "f.csv", {"a"}, type(<A: int>)', "the rows of an xml source are XML elements", "leave the type out"),
    ('text, "f.csv", type(string)', "the rows of a text source are strings", "leave the type out"),
    ('text, "f.lz4"', "f.lz4 is compressed in a way that is not read", UNPACKED_ARE),
    ('text, "f.zst"', "f.zst is not a whole .zst file: ZSTD decompress failed: Unknown frame descriptor", ""),
    ('text, "cut.zst"', "cut.zst is not a whole .zst file: Truncated compressed stream", ""),
    ('text, "f.gz"', "f.gz is not a whole .gz file: Not a gzipped file (b'no')", ""),
    (
        'text, "cut.gz"',
        "cut.gz is not a whole .gz file: Compressed file ended before the end-of-stream marker was reached",
        "",
    ),
    ('text, "f.bz2"', "f.bz2 is not a whole .bz2 file: Invalid data stream", ""),
    ('abc, "f.csv"', "unknown format `abc`", FORMATS),
]


@pytest.mark.parametrize(("source", "message", "hint"), SOURCES)
def test_a_wrong_source(tmp_path: Path, source: str, message: str, hint: str) -> None:
    """A wrong source has one message, which names the file or what is wrong."""
    (tmp_path / "f.csv").write_text("1\n")
    (tmp_path / "empty.json").write_text("\n \n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "d.json").write_text('\n{\n"A": 1}')
    (tmp_path / "nothing.json").write_text("[]")
    (tmp_path / "lines.json").write_text('[{"A": 1},\n{"A": 2}]')
    (tmp_path / "two.json").write_text('{"A": 1}\n{"A": 2}')
    (tmp_path / "f.zst").write_text("no")
    (tmp_path / "f.lz4").write_text("no")
    (tmp_path / "cut.zst").write_bytes(pa.compress(b"a\n" * 1000, "zstd", asbytes=True)[:-2])
    (tmp_path / "f.gz").write_text("no gzip")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:-12])
    (tmp_path / "f.bz2").write_text("no bzip2")
    pq.write_table(pa.table({"D": pa.array([1], pa.time64("us"))}), tmp_path / "d.parquet")
    done = run(tmp_path, source, "--engine", "reference")
    shown = done.stderr.replace(f"{tmp_path}/", "")
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert f"error: {message}\n" in shown
    assert f"hint: {hint}\n" in shown if hint else "hint" not in shown


def test_a_quarantine_needs_its_directory(tmp_path: Path) -> None:
    """`--malformed quarantine` and `--quarantine` go together, and the directory must be empty."""
    (tmp_path / "f.csv").write_text("1\n")
    source = 'csv, "f.csv", ",", type(int)'
    alone = run(tmp_path, source, "--malformed", "quarantine")
    assert (alone.exit_code, alone.stdout) == (2, "")
    assert "--malformed quarantine needs --quarantine DIR" in alone.stderr
    unused = run(tmp_path, source, "--quarantine", str(tmp_path / "q"))
    assert (unused.exit_code, unused.stdout) == (2, "")
    full = run(tmp_path, source, "--malformed", "quarantine", "--quarantine", str(tmp_path), "--engine", "reference")
    assert (full.exit_code, full.stdout) == (1, "")
    assert full.stderr.startswith(f"error: {tmp_path} is not empty")


# --- streams ------------------------------------------------------------------------------------

STREAM = """
s = stream(csv, "s", ",", type((int, int)), tagged);
t = source(csv, "t", ",", type((int, int)));
select (x, z) from (x, y) in s, (y, z) in t;
"""


def check_stream(home: Path, engine: str) -> None:
    (home / "q.mrql").write_text(STREAM)
    for name, text in {
        "s/0.csv": "+,1,2\n+,x,2\n",
        "s/1.csv": "-,1,2\n*,1,2\n+,5\n+,3,2\n",
        "s/2.csv": "+,4,2\n",
    }.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    (home / "t").mkdir()
    (home / "t" / "t.csv").write_text("2,7\n2\n")
    aside = home / "aside"
    arguments = ["--once", "--max-files", "1", "--data", str(home), "--output", str(home / "out"), "--engine", engine]
    options = ["--malformed", "quarantine", "--quarantine", str(aside)]
    done = CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *arguments, *options])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    said = [line for line in done.stderr.splitlines() if "kept aside" in line]
    assert said == [
        f"1 malformed row kept aside in {aside}/tables",
        f"1 malformed row kept aside in {aside}/batch-000000",
        f"2 malformed rows kept aside in {aside}/batch-000001",
    ]
    kept = {
        path.parent.name: [(row["line"], row["reason"]) for row in map(json.loads, path.read_text().splitlines())]
        for path in sorted(aside.glob("*/malformed.json"))
    }
    assert kept == {
        "tables": [(2, "1 field, where 2 were expected")],
        "batch-000000": [(2, '"x" is not a value of type int (column _1)')],
        "batch-000001": [(2, '"*" where + or - was expected'), (3, "1 field, where 2 were expected")],
    }
    answer = [
        line for part in (home / "out" / "batch-000002").glob("part-*.json") for line in part.read_text().splitlines()
    ]
    assert sorted(map(json.loads, answer), key=str) == [{"_1": 3, "_2": 7}, {"_1": 4, "_2": 7}]


def test_a_directory_for_each_batch(tmp_path: Path) -> None:
    """Malformed rows of a stream are kept in a directory for each batch, those of static tables in one of their own."""
    check_stream(tmp_path, "reference")


@pytest.mark.spark
def test_a_directory_for_each_batch_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    """The same on Spark."""
    check_stream(tmp_path, "spark")


def test_a_failed_batch_keeps_nothing(tmp_path: Path) -> None:
    """The malformed rows of a batch that fails are not kept."""
    (tmp_path / "q.mrql").write_text('s = stream(csv, "s", ",", type(int));\nselect 1 / x from x in s;\n')
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "0.csv").write_text("0\nx\n")
    options = ["--malformed", "quarantine", "--quarantine", str(tmp_path / "aside"), "--engine", "reference"]
    done = CliRunner().invoke(main, ["stream", str(tmp_path / "q.mrql"), "--once", "--data", str(tmp_path), *options])
    assert done.exit_code == 1
    assert "division by zero" in done.stderr
    assert list((tmp_path / "aside").iterdir()) == []


def test_compressed_files(tmp_path: Path) -> None:
    """A compressed file is read like the one that was compressed, and its lines are numbered like its lines."""
    for name, data in {
        "a.csv.gz": gzip.compress(b"1\nx\n"),
        "b.csv.bz2": bz2.compress(b"2\n"),
        "c.csv": b"3\n",
        "d.csv.zst": pa.compress(b"4\n", "zstd", asbytes=True) * 2,
    }.items():
        (tmp_path / name).write_bytes(data)
    spec = next(iter(compile_over_files(f'source(csv, "{tmp_path}", ",", type(int));').sources.values()))
    found: list[Malformed] = []
    assert sorted(read_source(spec, found.append)) == [1, 2, 3, 4, 4]
    assert [(row.file.name, row.line, row.text) for row in found] == [("a.csv.gz", 2, "x")]
    assert list(read_file(spec, tmp_path / "b.csv.bz2")) == [2]
