"""Monitoring of a stream: its metrics as JSON and as OpenMetrics, its log, and its progress on a terminal."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pexpect
import pytest
from click.testing import CliRunner, Result
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from mrql.cli.main import main
from mrql.monitoring.metrics import CONTENT_TYPE, Metrics, Totals, record_of
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import StateSize
from mrql.runtime.streaming.report import BatchPhase, Measurements, Report
from tests.bad_input.situations import put

QUERY = """s = stream(csv, "s", ",", type((long, long)), deletions("gone"));
t = stream(json, "t", type(<A: long, B: string>));
select (b, sum(y), count(y)) from (x, y) in s, <A: a, B: b> in t where a = x group by b;
"""
DATA = {
    "s/1.csv": "1,10\n2,20\n2,5\n",
    "t/2.json": '{"A": 1, "B": "one"}\n{"A": 2, "B": "two"}\n',
    "s/3.csv": "1,1\n1,x\n7\n",
    "gone/4.csv": "2,20\n2,5\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Four files, one for each batch, the third with two malformed rows."""
    put(tmp_path / "q.mrql", QUERY, 0)
    for age, (name, content) in enumerate(DATA.items(), 1):
        put(tmp_path / name, content, age)
    return tmp_path


def stream(home: Path, *more: str, engine: str = "reference") -> Result:
    options = ["--once", "--max-files", "1", "--data", str(home), "--engine", engine, "--output", str(home / "out")]
    options += ["--malformed", "quarantine", "--quarantine", str(home / "aside"), "--checkpoint", str(home / "state")]
    done = CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options, *more])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    return done


def records(home: Path, engine: str = "reference") -> list[dict[str, Any]]:
    """The records that the batches add to the metrics file."""
    stream(home, "--metrics", str(home / "metrics.jsonl"), engine=engine)
    return [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]


# --- a line for each batch ----------------------------------------------------------------------


def check_records(home: Path, found: list[dict[str, Any]], joined: list[int | None]) -> None:
    """Checks all numbers that are known beforehand; `joined` has the joined rows of each batch, None if not known."""
    assert [record["batch"] for record in found] == [0, 1, 2, 3]
    assert [record["files"] for record in found] == [{"s": 1, "t": 0}, {"s": 0, "t": 1}, *[{"s": 1, "t": 0}] * 2]
    assert [record["rows_in"] for record in found] == [
        {"s": 3, "t": 0},
        {"s": 0, "t": 2},
        {"s": 1, "t": 0},
        {"s": 2, "t": 0},
    ]
    assert [record["malformed_rows"]["s"] for record in found] == [0, 0, 2, 0]
    assert [record["waiting_files"] for record in found] == [
        {"s": 2, "t": 1},
        {"s": 2, "t": 0},
        {"s": 1, "t": 0},
        {"s": 0, "t": 0},
    ]
    assert [record["rows_out"] for record in found] == [0, 2, 2, 1]
    assert [record["touched_keys"] for record in found] == [0, 2, 1, 1]
    for record in found:
        assert {"find", "count", "apply", "commit", "all"} == record["milliseconds"].keys()
        phases = [spent for name, spent in record["milliseconds"].items() if name != "all"]
        assert record["milliseconds"]["all"] == pytest.approx(sum(phases), abs=0.01)
        assert datetime.fromisoformat(record["time"]).tzinfo is not None
        assert record["checkpoint_bytes"] > 0
    check_operators(found, joined)
    sizes = [record["state"] for record in found]
    assert all(size["rows"] > 0 and size["bytes"] > 0 for size in sizes[-1].values())
    assert "s" in sizes[-1]  # its rows may be deleted, and so are kept
    total = sum(run.stat().st_size for run in (home / "state" / "runs").rglob("*") if run.is_file())
    assert found[-1]["checkpoint_bytes"] <= total


def check_operators(found: list[dict[str, Any]], joined: list[int | None]) -> None:
    """Checks the input and output rows of each operator: sources, indexes, the join, the stage and the answer."""
    for record, rows in zip(found, joined, strict=True):
        operators = record["operators"]
        assert operators["s"]["rows_in"] == operators["s"]["rows_out"] == record["rows_in"]["s"]
        for name in ("s", "t"):  # rows with the same key may be kept as sums
            read, kept = record["rows_in"][name], operators[f"X1.{name}"]["rows_out"]
            assert operators[f"X1.{name}"]["rows_in"] == read
            assert (kept > 0, kept <= read) == (read > 0, True)
        assert operators["X1.join"] == {
            **dict.fromkeys(("state_rows", "state_bytes")),
            "milliseconds": None if rows is None else operators["X1.join"]["milliseconds"],
            "rows_in": operators["X1.s"]["rows_out"] + operators["X1.t"]["rows_out"],
            "rows_out": rows,
        }
        assert (operators["X1"]["rows_in"], operators["X1"]["rows_out"]) == (rows, record["touched_keys"])
        assert operators["answer"]["rows_in"] == record["touched_keys"]
        assert operators["answer"]["rows_out"] == record["rows_out"]
    assert found[-1]["operators"]["X1"]["milliseconds"] > 0
    assert found[-1]["operators"]["X1"]["state_rows"] > 0
    if joined[-1] is not None:  # on Spark, one job computes all of them
        timed = {name for name, of in found[-1]["operators"].items() if of["milliseconds"] is not None}
        assert timed == {"X1.s", "X1.t", "X1.join", "X1", "answer"}


def test_a_line_for_each_batch(home: Path) -> None:
    """Each batch adds a line with what it has read and written, its times, and the sizes of the states."""
    check_records(home, records(home), [0, 2, 1, 1])


@pytest.mark.spark
def test_the_same_on_spark(home: Path, spark: SparkSession) -> None:
    """The records on Spark are the same, except that joined rows are not counted."""
    check_records(home, records(home, "spark"), [None] * 4)


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_operators_give_one_another(home: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """Operators report their input and output rows; if an output is not known, nor is the input of the next one."""
    if engine == "spark":
        request.getfixturevalue("spark")
    counts = "select (a, count(b)) from (a, b) in s group by a"
    read = 's = stream(csv, "s", ",", type((long, long)));'
    (home / "q.mrql").write_text(f"{read} select (n, count(k)) from (k, n) in ({counts}) group by n;")
    found = [record["operators"] for record in records(home, engine)]
    given = [{name: (one["rows_in"], one["rows_out"]) for name, one in operators.items()} for operators in found]
    known: dict[str, list[tuple[int | None, int | None]]] = {
        "s": [(3, 3), (1, 1)],
        "X1.map": [(3, 3), (1, 1)],
        "X1": [(3, 2), (1, 1)],
        "D1": [(2, 2), (1, 2)],
        "X2.map": [(2, 2), (2, 2)],
        "X2": [(2, 2), (2, 2)],
    }
    if engine == "spark":  # one job computes all rows, and counts those that are kept
        for name in ("X1.map", "D1", "X2.map"):
            known[name] = [(a, None) for a, _ in known[name]]
        for name in ("X1", "X2.map", "X2"):
            known[name] = [(None, b) for _, b in known[name]]
    assert {name: [operators[name] for operators in given] for name in known} == known


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_several_stages_read(home: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """The output rows of a derived stream that several stages read, and those of a bag, are known on Spark too."""
    if engine == "spark":
        request.getfixturevalue("spark")
    read = 's = stream(csv, "s", ",", type((long, long)));'
    counts = "c = select (a, count(b)) from (a, b) in s group by a;"
    pairs = "select (k, m) from (k, n) in c, (m, o) in c where n = o"
    (home / "q.mrql").write_text(f"{read} {counts} ({pairs}, max(select n from (k, n) in c));")
    found = [record["operators"] for record in records(home, engine)]
    assert [operators["D1"]["rows_out"] for operators in found] == [2, 2]
    (join,) = (name for name in found[0] if name.endswith(".join"))
    bag = join.removesuffix(".join")
    rows = [2, 4] if engine == "reference" else [2, 3]  # on Spark, a row that is inserted and deleted counts once
    assert [operators[join]["rows_out"] for operators in found] == rows
    assert [operators[bag]["rows_out"] for operators in found] == rows


RANKS = """
repeat ranks = select (n, 1.0) from n in (select distinct a from (a, b) in s)
  step select (b, 0.15 + 0.85 * sum(r)) from (a, r) in ranks, (c, b) in s where a = c group by b
  limit 3;
"""


@pytest.mark.wide
@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_a_loop_feeds_back(home: Path, engine: str, request: pytest.FixtureRequest) -> None:
    """The output rows of a loop's delay are those of its start and of all its steps."""
    if engine == "spark":
        request.getfixturevalue("spark")
    (home / "q.mrql").write_text(f's = stream(csv, "s", ",", type((long, long))); {RANKS}')
    stream(home, "--loop", "diffuse", "--metrics", str(home / "metrics.jsonl"), engine=engine)
    found = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    (delay,) = (name for name in found[0]["operators"] if name.startswith("C"))
    rows = [record["operators"][delay]["rows_out"] for record in found]
    # 2 nodes are inserted; they are deleted, and the 3 that they lead to inserted; these are deleted. In the second
    # batch, one of the two leads to itself, and stays.
    assert rows == [10, 8]


@pytest.mark.parametrize("engine", ["reference", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize(
    ("query", "bag", "rows"),
    [
        ("select (a, b) from (a, b) in s where b > 5", "X1", [2, 0]),
        ("select (a, b) from (a, b) in s group by a", "X1.vs", [3, 1]),
    ],
)
def test_a_bag_gives_the_rows_that_come_to_it(
    home: Path, query: str, bag: str, rows: list[int], engine: str, request: pytest.FixtureRequest
) -> None:
    """A bag reports the rows that each batch adds to it, as the whole answer and as a component of groups."""
    if engine == "spark":
        request.getfixturevalue("spark")
    (home / "q.mrql").write_text(f's = stream(csv, "s", ",", type((long, long))); {query};')
    assert [record["operators"][bag]["rows_out"] for record in records(home, engine)] == rows


def test_lines_are_added(home: Path) -> None:
    """Lines are appended to the metrics file; an incomplete line that a killed process has left is ended first."""
    file = home / "metrics.jsonl"
    file.write_text('{"batch": 0}\n{"bat')
    records_text = file.read_text()
    stream(home, "--metrics", str(file))
    added = file.read_text().removeprefix(records_text + "\n").splitlines()
    assert [json.loads(line)["batch"] for line in added] == [0, 1, 2, 3]


def test_a_file_that_cannot_be_written(home: Path) -> None:
    """A metrics file that cannot be written is an error before the first batch."""
    options = ["--engine", "reference", "--once", "--data", str(home), "--metrics", str(home / "none" / "m.jsonl")]
    done = CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == f"error: {home}/none/m.jsonl: No such file or directory\n"


# --- OpenMetrics --------------------------------------------------------------------------------


def values(text: str) -> dict[tuple[str, str | None], float]:
    """The samples of an OpenMetrics text, by name and the value of their label, if any."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, next(iter(sample.labels.values()), None)): sample.value for sample in samples}


def test_both_forms_say_the_same(home: Path) -> None:
    """OpenMetrics counters are the sums over the JSON lines, and its gauges are the values of the last line."""
    found, totals = records(home), Totals()
    assert values(totals.text()) == {("mrql_batches_total", None): 0}
    for record in found:
        totals.add(record)
    known = values(totals.text())
    last = found[-1]
    assert known["mrql_batches_total", None] == len(found)
    assert known["mrql_rows_out_total", None] == sum(record["rows_out"] for record in found)
    for stream_name in ("s", "t"):
        for name, part in (("files", "files"), ("rows_in", "rows_in"), ("malformed_rows", "malformed_rows")):
            assert known[f"mrql_{name}_total", stream_name] == sum(record[part][stream_name] for record in found)
        assert known["mrql_waiting_files", stream_name] == last["waiting_files"][stream_name]
    for stage, size in last["state"].items():
        assert (known["mrql_state_rows", stage], known["mrql_state_bytes", stage]) == (size["rows"], size["bytes"])
    assert known["mrql_batch_seconds", None] == pytest.approx(last["milliseconds"]["all"] / 1000, abs=1e-5)
    spent = sum(record["milliseconds"]["apply"] for record in found) / 1000
    assert known["mrql_phase_seconds_total", "apply"] == pytest.approx(spent, abs=1e-5)
    assert (known["mrql_batch", None], known["mrql_touched_keys", None]) == (3, last["touched_keys"])
    assert known["mrql_checkpoint_bytes", None] == last["checkpoint_bytes"]


REPORT = Report(
    7,
    datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    {"s": 1},
    {"s": 10},
    {"s": 0},
    {"s": 3},
    touched=4,
    state_rows=5,
    milliseconds_of={BatchPhase.APPLY: 1.5},
    measured=Measurements(None, {'odd "name"\n\\': StateSize(5, 60)}, None),
)


def test_what_is_not_known_is_left_out() -> None:
    """Unknown values, such as the size of a missing checkpoint, are left out; a label may have any text."""
    totals = Totals()
    totals.add(record_of(REPORT))
    known = values(totals.text())
    assert known["mrql_state_bytes", 'odd "name"\n\\'] == 60
    assert not any(name in ("mrql_checkpoint_bytes", "mrql_rows_out_total") for name, _ in known)
    assert record_of(REPORT)["time"] == "2026-01-02T03:04:05.000Z"


@pytest.mark.parametrize("off", [0.25, math.inf])
def test_how_far_loops_may_be_off(off: float) -> None:
    """The residual of loops is in both forms of the metrics; an infinite one is null in JSON."""
    record = record_of(attrs.evolve(REPORT, residual=Residual(off, 3, 2 * off)))
    found = None if math.isinf(off) else off
    assert record["residual"] == {"change": found, "elements": 3, "distance": None if found is None else 2 * off}
    totals = Totals()
    totals.add(json.loads(json.dumps(record)))
    known = values(totals.text())
    assert (known["mrql_residual", None], known["mrql_residual_distance", None]) == (off, 2 * off)


def test_the_endpoint() -> None:
    """The endpoint serves the metrics added so far and nothing else, on the loopback address only."""
    metrics = Metrics.opened(None, 0)
    assert metrics.endpoint is not None
    try:
        for number in (1, 2):
            metrics.add(attrs.evolve(REPORT, number=number))
            with urllib.request.urlopen(metrics.endpoint.url, timeout=20) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                assert values(answer.read().decode())["mrql_batches_total", None] == number
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(metrics.endpoint.url.removesuffix("metrics"), timeout=20)
        refused.value.close()
        assert metrics.endpoint.server.server_address[0] == "127.0.0.1"
    finally:
        metrics.close()


def test_a_port_that_is_taken(home: Path) -> None:
    """A port that is taken is one error message, before the first batch."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--engine", "reference", "--once", "--data", str(home), "--metrics-port", str(port)]
        done = CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])
    assert (done.exit_code, done.stdout) == (3, "")
    says = f"error: nothing can listen on 127.0.0.1:{port}: Address already in use\n"
    assert done.stderr == says + "  hint: name another --metrics-port; 0 takes one that is free\n"


# --- the log ------------------------------------------------------------------------------------


def test_what_is_logged(home: Path) -> None:
    """With `--log-level`, messages from that level on have time, level and module; without it, messages are plain."""
    debug = stream(home, "--log-level", "debug").stderr.splitlines()
    line = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (\w+) (mrql\.[\w.]+): (.+)")
    found = [matched.groups() for text in debug if (matched := line.fullmatch(text))]
    assert len(found) == len(debug)
    assert ("DEBUG", "mrql.runtime.streaming.stream_loop", f"batch 0 reads {home}/s/1.csv") in found
    commits = [text for level, name, text in found if (level, name) == ("DEBUG", "mrql.runtime.checkpoint.store")]
    assert [text.split(",")[0] for text in commits] == [f"commit {n + 1}: batch {n}" for n in range(4)]
    kept = f"2 malformed rows kept aside in {home}/aside/batch-000002"
    assert ("WARNING", "mrql.monitoring.watch", kept) in found
    assert sum(name == "mrql.output.progress" for _, name, _ in found) == 4
    put(home / "s" / "5.csv", "1,z\n", 5)
    warnings = stream(home, "--log-level", "warning").stderr
    assert line.fullmatch(warnings.strip()) is not None
    put(home / "s" / "6.csv", "1,z\n", 6)
    plain = stream(home).stderr.splitlines()
    assert plain[0] == "going on after batch 4"
    assert plain[1].startswith("batch 5: 0 rows in 1 files, 0 keys touched, ")
    assert plain[2:] == [f"1 malformed row kept aside in {home}/aside/batch-000005"]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_malformed_rows_of_a_table_are_logged(home: Path, checkpoint: bool) -> None:
    """Malformed rows of a static table are logged as a warning, with and without a checkpoint."""
    put(home / "table" / "1.csv", "1,2\nx\n", 0)
    text = """
    s = stream(csv, "s", ",", type((int, int)));
    t = source(csv, "table", ",", type((int, int)));
    select (k, n) from (k, v) in s, (l, n) in t where k = l;
    """
    (home / "q.mrql").write_text(text)
    options = ["--once", "--max-files", "1", "--data", str(home), "--engine", "reference", "--log-level", "warning"]
    options += ["--malformed", "quarantine", "--quarantine", str(home / "aside")]
    options += ["--checkpoint", str(home / "kept")] if checkpoint else []
    done = CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])
    assert done.exit_code == 0, done.output
    first = done.stderr.splitlines()[0]
    assert first.endswith(f"WARNING mrql.jobs.stream: 1 malformed row kept aside in {home}/aside/tables"), done.stderr


def test_nobody_reads_what_is_logged(home: Path) -> None:
    """A stream reads all its files and writes all its answers even if its standard error is closed."""
    options = ["--once", "--max-files", "1", "--data", home, "--engine", "reference", "--output", home / "out"]
    options += ["--malformed", "quarantine", "--quarantine", home / "aside"]
    command = [sys.executable, "-m", "mrql", "stream", home / "q.mrql", *options]
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("batch 0:")
        process.stderr.close()
    assert process.returncode == 0
    assert sorted(path.name for path in (home / "out").iterdir()) == [f"batch-00000{n}" for n in range(4)]


# --- a terminal ---------------------------------------------------------------------------------


def test_a_table_on_a_terminal(home: Path) -> None:
    """On a terminal, progress is a table of the last batches."""
    options = ["--once", "--max-files", "1", "--data", str(home), "--engine", "reference"]
    options += ["--output", str(home / "out"), "--malformed", "quarantine", "--quarantine", str(home / "aside")]
    command = ["-m", "mrql", "stream", str(home / "q.mrql"), *options]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    with pexpect.spawn(
        sys.executable, command, encoding="utf-8", dimensions=(40, 120), timeout=60, env=environment
    ) as p:
        p.expect(pexpect.EOF)
        shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(p.before)).replace("\r", "")
    assert p.exitstatus == 0
    last = shown[shown.rindex(" batch ") :].splitlines()
    assert last[0].split("┃")[0].strip() == "batch"
    rows = [[cell.strip() for cell in line.split("│")] for line in last if "│" in line]
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    assert [row[2] for row in rows] == ["3", "2", "1", "2"]
    assert [row[6] for row in rows] == ["3", "2", "1", "0"]
    assert all(row[5].endswith("B") for row in rows)
    assert "2 malformed rows kept aside in" in shown
