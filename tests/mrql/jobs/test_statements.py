"""Statements that read and write files, and `trace`, in both engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files

Run = Callable[..., Result]
ENGINES = ["reference", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture(params=ENGINES)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a program on one of the engines, with its data and its output in the test's directory."""
    if request.param == "spark":
        request.getfixturevalue("spark")

    def run(text: str, *more: str, command: str = "run") -> Result:
        (tmp_path / "q.mrql").write_text(text)
        options = ["--data", str(tmp_path), "--engine", request.param, "--format", "json", *more]
        return CliRunner().invoke(main, [command, str(tmp_path / "q.mrql"), *options])

    return run


def values(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line)["value"] for line in result.stdout.splitlines()]


def lines(directory: Path) -> list[str]:
    """The lines of the part files of a directory."""
    return sorted(line for part in directory.glob("part-*") for line in part.read_text().splitlines())


# --- include ------------------------------------------------------------------------------------


def test_include(tmp_path: Path) -> None:
    """A path is relative to the including file; definitions are known from there on; a file is included only once."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.mrql").write_text('include "b.mrql"; x = y + 1; 7;')
    (tmp_path / "lib" / "b.mrql").write_text("y = 1;")
    file = tmp_path / "q.mrql"
    program = compile_over_files('include "lib/a.mrql"; include "lib/b.mrql"; x;', str(file))
    assert [query.span.text for query in program.queries] == ["7", "x"]
    assert program.queries[0].span.source.name == str(tmp_path / "lib" / "a.mrql")


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    """An error in an included file has its place in that file, for parse errors and type errors."""
    for text, message in (("x = ;", "expected an expression"), ("function f(n: int): int { m };", "unknown name `m`")):
        (tmp_path / "a.mrql").write_text("\n" + text)
        with pytest.raises(UserError, match=message) as caught:
            compile_over_files('include "a.mrql";', str(tmp_path / "q.mrql"))
        assert str(caught.value).startswith(f"{tmp_path}/a.mrql:2:")


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    """A file that includes itself, through others too, is an error that shows the chain of inclusions."""
    (tmp_path / "a.mrql").write_text('include "b.mrql";')
    (tmp_path / "b.mrql").write_text('x = 1;\ninclude "a.mrql";')
    with pytest.raises(UserError) as caught:
        compile_over_files('include "a.mrql";', str(tmp_path / "q.mrql"))
    assert caught.value.message == f"{tmp_path}/a.mrql includes itself: a.mrql → b.mrql → a.mrql"
    assert str(caught.value).startswith(f"{tmp_path}/b.mrql:2:1: error: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        compile_over_files('include "a.mrql";', str(tmp_path / "q.mrql"))
    assert caught.value.message == f"{tmp_path}/a.mrql cannot be read: No such file or directory"
    assert caught.value.hint == "a path is relative to the file that it is written in; mrql has graph.mrql"


def test_what_fails_in_an_included_function_has_its_place_there(run: Run, tmp_path: Path) -> None:
    """A runtime error in an included function has its place in that file, on both engines and for any file name."""
    (tmp_path / "it's.mrql").write_text("\nfunction third(n: int): int { n / (n - n) };")
    (tmp_path / "s.csv").write_text("1\n2\n")
    result = run('include "it\'s.mrql"; select third(x) from x in source(csv, "s.csv", ",", type(int));')
    assert result.exit_code == 1
    assert f"{tmp_path}/it's.mrql:2:31: error: division by zero" in result.stderr


# --- dump and store -----------------------------------------------------------------------------

ROWS = 'select (i, "r " + (i as string), {i}) from i in 1..3'


def test_dump_is_read_back(run: Run, tmp_path: Path) -> None:
    """A program can read, further down, the JSON that it has dumped."""
    reading = 'source(json, "out/d", type(<A: long, B: string, C: [<U: double>]>))'
    text = f"""
    dump "out/d" from select <A: i, B: if i = 2 then null else "ä, \\"", C: {{<U: i / 2.0>}}> from i in 1..3;
    select (r.A, r.B, r.C) from r in {reading} order by r.A;
    """
    expected = [[1, 'ä, "', [{"U": 0.5}]], [2, None, [{"U": 1.0}]], [3, 'ä, "', [{"U": 1.5}]]]
    assert values(run(text)) == [expected]


def test_dumped_lines(run: Run, tmp_path: Path) -> None:
    """A tuple is an object with `_1`, `_2`, …, an atomic value is `{"value": …}`, and nulls are written."""
    assert values(run(f'dump "d" from {ROWS}; dump "n" from 1 + 2; dump "v" from {{null, "a"}};')) == []
    assert list(map(json.loads, lines(tmp_path / "d"))) == [{"_1": i, "_2": f"r {i}", "_3": [i]} for i in (1, 2, 3)]
    assert list(map(json.loads, lines(tmp_path / "n"))) == [{"value": 3}]
    assert list(map(json.loads, lines(tmp_path / "v"))) == [{"value": "a"}, {"value": None}]


def test_dump_of_json_values_elements_and_times(run: Run, tmp_path: Path) -> None:
    """JSON values are written unchanged, XML elements as data of their constructors, and timestamps as texts."""
    (tmp_path / "d.csv").write_text("1,2026-01-31 10:20:30.5\n")
    text = """
    dump "d" from select <J: <A: [n, null]> as any, X: [xml| <a k="v">t</a> |], T: t, In: [<U: t, V: 1.5 as any>]>
                  from (n, t) in source(csv, "d.csv", ",", type((int, timestamp)));
    select (r.J.A[0], r.X, r.T, r.In) from r in source(json, "d", type(<J: any, X: any, T: timestamp, In: any>));
    """
    at, element = "2026-01-31 10:20:30.5", {"Node": ["a", [["k", "v"]], [{"CData": "t"}]]}
    assert values(run(text)) == [[[1, element, at, [{"U": at, "V": 1.5}]]]]
    written = {"J": {"A": [1, None]}, "X": element, "T": at, "In": [{"U": at, "V": 1.5}]}
    assert list(map(json.loads, lines(tmp_path / "d"))) == [written]


def test_malformed_rows_of_a_program_that_stores(tmp_path: Path, run: Run) -> None:
    """Malformed rows are quarantined once, however many expressions use the stored value."""
    (tmp_path / "s.csv").write_text("1\nx\n2\n")
    text = 'store S := select x + 1 from x in source(csv, "s.csv", ",", type(int)); sum(S); count(S); dump "d" from S;'
    assert values(run(text, "--malformed", "quarantine", "--quarantine", str(tmp_path / "aside"))) == [5, 2]
    assert list(map(json.loads, lines(tmp_path / "d"))) == [{"value": 2}, {"value": 3}]
    (row,) = map(json.loads, (tmp_path / "aside" / "run" / "malformed.json").read_text().splitlines())
    assert (row["line"], row["text"]) == (2, "x")


def test_store_is_read_back(run: Run, tmp_path: Path) -> None:
    """A program can read the CSV that it has stored, in which missing values and empty strings differ."""
    text = 'store "out" + "/s" from select (i, t, 1.5e10 * i) from (i, t) in {(1, ""), (2, null), (3, " a,b\\" ")};'
    assert values(run(text)) == []
    assert lines(tmp_path / "out" / "s") == ['1,"",1.5E10', "2,,3.0E10", '3," a,b"" ",4.5E10']
    reading = 'select r from r in source(csv, "out/s", ",", type((long, string, double))) order by r;'
    assert values(run(reading)) == [[[1, "", 1.5e10], [2, None, 3e10], [3, ' a,b" ', 4.5e10]]]


@pytest.mark.parametrize("name", ["notes.txt", ".notes", "_notes"])
def test_a_target_is_replaced(run: Run, tmp_path: Path, name: str) -> None:
    """A second run replaces the output of the first, but not a directory with other files."""
    run('store "s" from {1, 2};')
    run('store "s" from {3};')
    assert lines(tmp_path / "s") == ["3"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    result = run('dump "mine" from {3};')
    assert result.exit_code == 1
    assert "mine is there already, and was not written by a query" in result.stderr
    assert (tmp_path / "mine" / name).read_text() == "mine"


@pytest.mark.parametrize(
    "files",
    [
        {"part-00000.csv": "1\n", "_SUCCESS": ""},
        {"part-00000.csv": "1\n"},
        {"_SUCCESS": "written by mrql\npart-00000.csv\n", "part-00000.csv": "1\n", "part-00001.csv": "2\n"},
        {"_SUCCESS": "written by mrql\n", "part-mine": "x"},
        {"_SUCCESS": "written by mrql\n\xff", "part-00000.csv": "1\n"},
        {"_SUCCESS": "part-00000.csv\n", "part-00000.csv": "1\n"},
    ],
)
@pytest.mark.parametrize("statement", ["dump", "store"])
def test_what_another_program_has_written_is_not_replaced(
    run: Run, tmp_path: Path, files: dict[str, str], statement: str
) -> None:
    """A directory is not replaced unless its `_SUCCESS` has the mark of a query and lists the other files."""
    (tmp_path / "theirs").mkdir()
    for name, text in files.items():
        (tmp_path / "theirs" / name).write_text(text, encoding="latin-1")
    result = run(f'{statement} "theirs" from {{3}};')
    assert result.exit_code == 1
    assert "theirs is there already, and was not written by a query" in result.stderr
    assert {path.name for path in (tmp_path / "theirs").iterdir()} == {*files}


def test_a_link_is_not_replaced(run: Run, tmp_path: Path) -> None:
    """Neither a symbolic link nor its target is replaced; an empty directory is."""
    run('store "s" from {1};')
    (tmp_path / "link").symlink_to("s")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "empty").mkdir()
    for name in ("link", "dangling"):
        assert "was not written by a query" in run(f'store "{name}" from {{2}};').stderr
    assert lines(tmp_path / "s") == ["1"]
    run('store "empty" from {2};')
    assert lines(tmp_path / "empty") == ["2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('store "s" from {"a\\nb", "c"};', "a line break in a value of a csv file; `dump` keeps it"),
        ('store "s" from {1, null};', "a row whose only value is missing has no line in a csv file; `dump` keeps it"),
    ],
)
def test_what_csv_cannot_hold(run: Run, tmp_path: Path, text: str, message: str) -> None:
    """A value that CSV cannot represent is an error with its place, and leaves no file."""
    result = run(text)
    assert result.exit_code == 1
    assert f"q.mrql:1:1: error: {message}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["q.mrql"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'store "s" from {1 as any};',
            "1:16: error: a row of a csv file holds atomic values, and this one is of type any",
        ),
        ('store "s" from {(1, {2})};', "1:16: error: a row of a csv file holds atomic values, and this one is of type"),
        ('dump "delta:///x" from {1};', "1:6: error: an answer is written to a directory here, and not to an address"),
        ('store "postgresql:/u@h/db" from {1};', "1:7: error: an answer is written to a directory here"),
        ("dump args from {1};", "1:6: error: the path of a file to write must be a string"),
        ('dump "s" from {1} + 2;', "1:15: error: `+` of {int} and int"),
    ],
)
def test_wrong_targets(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        compile_over_files(text, "q")
    assert f"q:{message}" in str(caught.value)


@pytest.mark.parametrize("path", ["data/s", "data", "data/../data/s/"])
@pytest.mark.parametrize("source", ['"data/s"', '"data/s/*.csv"', '"data/t", deletions("data/s")'])
def test_a_query_does_not_replace_what_it_reads(tmp_path: Path, path: str, source: str) -> None:
    """A query may not replace a directory that it reads itself; one that only another query reads may be replaced."""
    path_of, _, more = source.partition(",")
    stream = f'stream(csv, {path_of}, ",", type(long){"," + more if more else ""})'
    with pytest.raises(UserError) as caught:
        compile_over_files(f'dump "{path}" from select x from x in {stream};', "q", base=tmp_path)
    assert f"q:1:1: error: the answer would take the place of {tmp_path}/data/" in str(caught.value)
    compile_over_files(f'x = {stream}; dump "{path}" from {{1}}; x;', "q", base=tmp_path)


def test_a_streaming_query_may_say_where_its_answer_goes(run: Run, tmp_path: Path) -> None:
    """A streaming query with `store` writes its answer to that target, and refuses `--emit changes`."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.csv").write_text("1,2\n1,3\n")
    text = 'store "sums" from select (k, sum(v)) from (k, v) in stream(csv, "s", ",", type((int, int))) group by k;'
    (tmp_path / "q.mrql").write_text(text)
    base = [str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    result = CliRunner().invoke(main, ["stream", *base])
    assert result.exit_code == 0, result.output
    assert lines(tmp_path / "sums") == ["1,5"]
    refused = CliRunner().invoke(main, ["stream", *base, "--emit", "changes"])
    assert refused.exit_code == 1
    assert "leave out --emit changes" in refused.stderr


# --- trace --------------------------------------------------------------------------------------


def test_trace_is_the_value_and_prints_it(run: Run, tmp_path: Path) -> None:
    """`trace` returns its argument, and prints it with its place on standard error."""
    (tmp_path / "s.csv").write_text("1\n2\n")
    result = run(
        'S = source(csv, "s.csv", ",", type(int));\nsum(trace(S)) + trace(count(S)); trace([1, 2])[0] + trace(3);'
    )
    assert values(result) == [5, 4]
    traced = [line.removeprefix(f"{tmp_path}/q.mrql:") for line in result.stderr.splitlines()]
    assert sorted(traced) == ["2:17: trace: 2", "2:34: trace: [1, 2]", "2:53: trace: 3", "2:5: trace: {1, 2}"]


def test_a_long_trace(run: Run) -> None:
    """A trace shows the first twenty elements of a collection, and `…` for the others."""
    result = run("count(trace(1..30));")
    assert values(result) == [30]
    assert result.stderr.endswith(f"trace: [{', '.join(map(str, range(1, 21)))}, …]\n")


def test_trace_in_a_loop(run: Run) -> None:
    """`trace` in a loop prints in each step."""
    result = run("repeat x = {1} step select v * 2 from v in trace(x) limit 3;")
    assert values(result) == [[8]]
    assert [line.rpartition(" trace: ")[2] for line in result.stderr.splitlines()] == ["{1}", "{2}", "{4}"]


@pytest.mark.spark
@pytest.mark.parametrize("run", ["spark"], indirect=True)
def test_trace_within_rows_is_refused_on_spark(run: Run) -> None:
    """`trace` of a value that differs by row is an error on Spark, where rows do not pass through Python."""
    result = run("select trace(x) from x in {1, 2};")
    assert result.exit_code == 1
    assert "1:8: error: `trace` of what is different for each row prints nothing on Spark" in result.stderr


def test_trace_of_rows_in_the_reference(tmp_path: Path) -> None:
    (tmp_path / "q.mrql").write_text("select trace(x) from x in {1, 2};")
    result = CliRunner().invoke(main, ["run", str(tmp_path / "q.mrql"), "--engine", "reference", "--format", "json"])
    assert values(result) == [[1, 2]]
    assert [line.rpartition(" trace: ")[2] for line in result.stderr.splitlines()] == ["1", "2"]


# --- store --------------------------------------------------------------------------------------


def test_what_is_stored_is_evaluated_once(run: Run, tmp_path: Path) -> None:
    """A stored value is evaluated once, however many expressions and stored values use it; an unused one never is."""
    (tmp_path / "s.csv").write_text("1,2\n1,3\n2,4\n")
    text = """
    S = source(csv, "s.csv", ",", type((int, int)));
    store sums := select (k, 9 + sum(v)) from (k, v) in S group by k;
    store most := trace(max(select v from (k, v) in sums));
    store unused := select 1 / (a - a) from (a, b) in S;
    """
    text += "select (k, v - most) from (k, v) in sums; count(sums); most; select (v, most) from (k, v) in S;"
    result = run(text)
    sums, count, most, rows = values(result)
    assert (sorted(sums), count, most, sorted(rows)) == ([[1, 0], [2, -1]], 2, 14, [[2, 14], [3, 14], [4, 14]])
    traced = [line.rpartition(" trace: ")[2] for line in result.stderr.splitlines()]
    assert traced.count("14") == 1
