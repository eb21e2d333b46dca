"""`mrql infer`: what it prints can be pasted into a query, and reads the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyarrow import orc

from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import Malformed
from mrql.runtime.sources.files import read_source


def infer(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["infer", *map(str, args)])


FILES = {
    "a.csv": "id,unit price,when\n1,2.5,2024-01-01\n",
    "b.csv": "when,id,unit price\n2024-01-01 10:00:00,x,3\n",
    "c.csv": "id\n1\n",
    "d.tbl": "1|a|\n2|b|\n",
    "e.tsv": "1\ta\n",
    "f.json": '{"a`b": 1}\n{"a`b": 2.5, "c": [1]}\n',
    "date.csv": "31.01.2024\n",
    "time.csv": "10:20 31/01/2024\n",
    "j.csv": "#x\n1,-\n NA ,2024-01-01\n",
    "k.csv": "31.01.2024,10:20 31/01/2024,2024-01-31\n",
    "n.csv": "'1,5',5\" x\n",
    "o.csv": '"a\\",b",2\n',
    "l.json": '[{"a": 1},\n{"a":\n1.5}]',
    "p/k=1/g.csv": "1\n",
    "r.csv": "a;1,5\n\nb;2,5\n",
    "s.csv": "id\tname\n1\tx, y\n2\tz\n",
    "t.csv": "1;2\n3\n",
    "u.csv": '"a,b";2\n"c,d";3\n',
    "v.csv": '"x;y",1\n"z;w",2\n',
    "w.tsv": "1,a\n2,b\n",
    "x.json": '{"": 1, "a": {}}\n{"a": {"": 2}}\n',
    "y.json": "1\n2.5\n",
    "z.json": '{"a": {}, "b": [{}]}\n',
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    table = pa.table({"a b": [1], "blob": [b"x"]})
    pq.write_table(table.append_column("left out", [[time(10)]]), tmp_path / "h.parquet")
    orc.write_table(table, tmp_path / "i.orc")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "options", "row"),
    [
        (["a.csv"], ["--header"], "<id: long, `unit price`: double, when: date>"),
        (["a.csv", "b.csv"], ["--header"], "<id: string, `unit price`: double, when: timestamp>"),
        (["a.csv", "c.csv"], ["--header"], "<id: long>"),
        (["d.tbl"], [], "<_1: long, _2: string>"),
        (["e.tsv"], [], "<_1: long, _2: string>"),
        (["e.tsv"], ["--delimiter", ";"], "<_1: string>"),
        (["j.csv"], ["--null-value", "NA", "--null-value", "-", "--comment", "#"], "<_1: long, _2: date>"),
        (
            ["k.csv"],
            ["--date-format", "dd.MM.yyyy", "--timestamp-format", "HH:mm dd/MM/yyyy"],
            "<_1: date, _2: timestamp, _3: string>",
        ),
        (
            ["date.csv", "time.csv"],
            ["--date-format", "dd.MM.yyyy", "--timestamp-format", "HH:mm dd/MM/yyyy"],
            "<_1: string>",
        ),
        (["n.csv"], ["--quote", "'"], "<_1: string, _2: string>"),
        (["n.csv"], ["--quote", ""], "<_1: string, _2: string, _3: string>"),
        (["o.csv"], ["--escape", "\\"], "<_1: string, _2: long>"),
        (["r.csv"], [], "<_1: string, _2: long>"),
        (["r.csv"], ["--locale", "de-DE"], "<_1: string, _2: double>"),
        (["s.csv"], ["--header"], "<id: long, name: string>"),
        (["t.csv"], [], "<_1: string>"),
        (["l.json"], ["--multiline"], "<a: double>"),
        (["f.json"], [], "<`a``b`: double, c: list(long)>"),
        (["p"], [], "<_1: long, k: string>"),
        (["u.csv"], [], "<_1: string, _2: long>"),
        (["v.csv"], [], "<_1: string, _2: long>"),
        (["w.tsv"], [], "<_1: long, _2: string>"),
        (["x.json"], [], "any"),
        (["y.json"], [], "double"),
        (["z.json"], [], "<a: any, b: list(any)>"),
        (["h.parquet"], [], "<`a b`: long, blob: binary>"),
        (["i.orc"], [], "<`a b`: long, blob: binary>"),
    ],
)
def test_what_is_printed_reads_the_files(home: Path, files: list[str], options: list[str], row: str) -> None:
    done = infer(*options, *(home / file for file in files))
    assert done.exit_code == 0, done.output
    written, *sources = done.stdout.splitlines()
    assert written == f"type row = {row};"
    assert len(sources) == len(files)
    for source in sources:
        spec = next(iter(compile_over_files(f"{written} count({source});", base=Path("/")).sources.values()))
        assert len(read_source(spec)) > 0


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        (["a.csv", "c.csv"], [], "one file has 3 columns, another 1"),
        (["c.csv", "a.csv"], ["--header", "--delimiter", ";"], "the files have no column in common"),
        (["m.json"], [], 'the first line is no JSON, but "["'),
        (["f.json"], ["--header"], "a json source has no option `header`: it is for csv"),
        (["h.parquet"], ["--sample", "3"], "a parquet source has no option `sample`: it is for csv and json"),
        (["f.json"], ["--delimiter", ";"], "--delimiter is for csv"),
        (["j.csv"], ["--date-format", "d.M.y"], "`y` has no meaning in a pattern"),
        (["j.csv"], ["--null-value", " "], "a null value has no blanks around it"),
        (["a.csv"], ["--quote", "", "--escape", "/"], "where there are no quotes, nothing escapes them"),
        (["a.csv", "f.json"], ["--header"], "f.json is json: --source says which, if one is not"),
        (["a.csv"], ["--delimiter", ";;"], "a delimiter is one character"),
        (["a.csv"], ["--delimiter", "\n"], "a delimiter is no line end"),
        (["a.csv"], ["--delimiter", '"'], "a delimiter is not the quote"),
        (["a.csv"], ["--source", "parquet"], "a.csv is not a Parquet file"),
        (["q.txt"], [], "q.txt does not say of which format it is"),
    ],
)
def test_what_has_no_type(home: Path, files: list[str], options: list[str], said: str) -> None:
    (home / "q.txt").write_text(json.dumps(1))
    (home / "m.json").write_text(json.dumps([1], indent=1))
    done = infer(*options, *(home / file for file in files))
    assert done.exit_code != 0
    assert said in done.output


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("f.csv", '1,5\n"x;y"\n', "f.csv:2:1: error: malformed row: 1 field, where 2 were expected"),
        ("f.json", '{"a": 1}\nnull\n', "f.json:2:1: error: malformed row: null is not a value of type"),
        ("f.json", '[\n{"a": 1}]\n', "hint: add `--multiline`, which reads files that are one document each"),
        ("f.csv", "", "f.csv to take the type of the rows from\n"),
    ],
)
def test_rows_that_are_of_no_type(tmp_path: Path, name: str, text: str, said: str) -> None:
    """The error is about the first such row, and in the terms of this command, not of a query."""
    (tmp_path / name).write_text(text)
    done = infer(tmp_path / name)
    assert said in done.stderr
    assert "type(" not in done.stderr


FIELDS = (
    *("1", "-0", "2.5", "007", "x", "", " ", "true", "TRUE", "2024-01-01", "2024-01-01 10:00", "2024-13-01", "NaN"),
    *("1e400", "9" * 20, '"a,b"', '"x;y"', '"a|b"', '"a\tb"', '"a ""q"" b"', 'a"b', "é", "null", "1,5", "5.", "+1"),
    *('"1"', '""', " 7 ", "0x1", "1e5", "Infinity", "1_0", "2024-01-01T00:00:00Z", "12:00", "31.01.2024"),
)
KEYS = ("", "a", "b", "a b", "`", '"', "\\", "\n", "select", "type", "é", "A")
OPTIONS = ((), ("--header",), ("--date-format", "dd.MM.yyyy"), ("--null-value", "x"), ("--locale", "de-DE"))
ATOMS = (None, True, 0, -5, 2**31, 2**63, 10**40, 0.5, 1e300, 1.0, "", "x", "2024-01-01")
COLUMNS = {
    "a": pa.array([1, None]),
    "b c": pa.array([1.5, 2], pa.float32()),
    "d": pa.array([{"x": 1}, {"x": None}]),
    "e": pa.array([[1], []]),
    "f": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int32())),
    "g": pa.array([b"x", None]),
    "h`": pa.array([True, False]),
}

Made = tuple[str, bytes, Sequence[str]]
"""The name of a file, its content, and options for it."""


def csv_file(rng: Random) -> Made:
    """A CSV file, in which each column has fields of a few kinds."""
    delimiter, options = rng.choice(",;\t|"), rng.choice(OPTIONS)
    columns = [rng.sample(FIELDS, rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]
    rows = [[rng.choice(column) for column in columns] for _ in range(rng.randint(1, 4))]
    if "--header" in options:
        rows = [[f"c{place}" for place, _ in enumerate(columns)], *rows]
    quoted = ([field if '"' in field or delimiter not in field else f'"{field}"' for field in row] for row in rows)
    text = "".join(delimiter.join(row) + "\n" for row in quoted)
    return f"f.{rng.choice(('csv', 'tsv', 'tbl'))}", text.encode(), options


def json_value(rng: Random, depth: int = 0) -> object:
    match rng.choice("alo" if depth < 3 else "a"):
        case "l":
            return [json_value(rng, depth + 1) for _ in range(rng.randint(0, 2))]
        case "o":
            return {rng.choice(KEYS): json_value(rng, depth + 1) for _ in range(rng.randint(0, 2))}
        case _:
            return rng.choice(ATOMS)


def json_file(rng: Random) -> Made:
    rows = [json_value(rng) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.2:
        return "f.json", json.dumps(rows).encode(), ["--multiline"]
    return "f.json", "".join(json.dumps(row) + "\n" for row in rows).encode(), []


def parquet_file(rng: Random) -> Made:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({name: COLUMNS[name] for name in rng.sample([*COLUMNS], 2)}), out)
    return "f.parquet", out.getvalue().to_pybytes(), []


@pytest.mark.parametrize("made", [csv_file, json_file, parquet_file])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_printed_reads_all_rows_or_says_which_not(
    tmp_path: Path, made: Callable[[Random], Made], seed: int
) -> None:
    name, content, options = made(Random(seed))
    (tmp_path / name).write_bytes(content)
    done = infer(*options, tmp_path / name)
    if done.exit_code != 0:
        assert "to take the type of the rows from" in done.stderr
        return
    (spec,) = compile_over_files(f"{done.stdout};").sources.values()
    malformed: list[Malformed] = []
    read_source(spec, malformed.append)
    assert bool(malformed) == ("not all rows are of that type" in done.stderr)


def test_a_document_in_one_line(tmp_path: Path) -> None:
    """A line with an array is one row of that type; a hint names `--multiline`, which makes its elements the rows."""
    (tmp_path / "d.json").write_text('[{"a": 1}]')
    done = infer(tmp_path / "d.json")
    assert "type row = list(<a: long>);" in done.stdout
    assert done.stderr == "each line is an array; --multiline reads files that are one document each\n"
    done = infer(tmp_path / "d.json", "--multiline")
    assert ("type row = <a: long>;" in done.stdout, done.stderr) == (True, "")


def test_columns_that_a_file_of_a_directory_lacks(home: Path) -> None:
    """If files of a directory lack columns, the printed source has `allowMissingColumns`, and reads them all."""
    (home / "q").mkdir()
    pq.write_table(pa.table({"a": [1]}), home / "q" / "1.parquet")
    pq.write_table(pa.table({"a": [0.5], "b": ["x"]}), home / "q" / "2.parquet")
    said = infer(home / "q").stdout
    assert said.splitlines()[0] == "type row = <a: double, b: string>;"
    assert said.splitlines()[1] == f'source(parquet, "{home / "q"}", type(row), allowMissingColumns)'
    (spec,) = compile_over_files(f"{said};").sources.values()
    assert len(read_source(spec)) == 2


NAMES = (
    "f.csv: the first record looks like names of columns; `header`, or `--header` of `mrql infer`, "
    "says that it has these"
)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("id,name\n1,x\n", [], True),
        ("id,name\n1,x\n", ["--header"], False),
        ("ann,x\nbob,y\n", [], False),
        ("id,id\n1,x\n", [], False),
        ("7,x\n1,x\n", [], False),
        ("id,name\n", [], False),
    ],
)
def test_a_first_record_of_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, options: list[str], said: bool
) -> None:
    """A first record that looks like names, and makes columns texts, is reported; otherwise nothing is."""
    (tmp_path / "f.csv").write_text(text)
    assert infer(tmp_path / "f.csv", *options).exit_code == 0
    assert [message.replace(f"{tmp_path}/", "") for message in caplog.messages] == [NAMES] * said
