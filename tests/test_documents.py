"""The README and the documents on sources, sinks, checkpoints, operation and `mrql verify` are up to date.

Numbers that depend on the machine, or on data that is not available, are not compared; blocks that cannot be run are
listed with the reason. The other documents have tests of their own.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from mrql.adapters import SourceSpec
from mrql.cli.main import COMMANDS, main
from mrql.monitoring.metrics import Totals
from mrql.output.progress import COLUMNS
from mrql.parser.parser import parse_program
from mrql.runtime.checkpoint.store import READ
from mrql.runtime.sinks.places import place_at
from mrql.runtime.sources.source import CONNECTORS
from tests.bad_input.situations import put
from tests.support.documents import DOCS, Block, blocks, run_command
from tests.support.postgresql import Server

ROOT = DOCS.parent
README = "README.md"
SOURCES, SINKS, CHECKPOINTS = "docs/sources.md", "docs/sinks.md", "docs/checkpoints.md"
OPERATION, VERIFY, DATA = "docs/operation.md", "docs/verify.md", "docs/data.md"

ELSEWHERE = {
    "import mrql": "tests/mrql/api/test_document.py",
    'numbers = stream(adapter, "package.module:Lines", "numbers.txt?rows=1000", type(<n: long>))': (
        "tests/runtime/sources/test_spark_readers.py"
    ),
    "$ mrql checkpoint release state": "tests/runtime/postgresql, where there are slots",
    "SELECT slot_name, active, pg_size_pretty(pg_current_wal_lsn() - restart_lsn) FROM pg_replication_slots WHERE "
    "slot_name LIKE 'mrql\\_%';": "the first is run below; the second ends a stream",
}
"""The blocks that other tests run."""

NOT_RUN = {
    "⠹ first batch": "a line on a terminal, which tests/mrql/output/test_activity.py looks at",
    "make demo ": "it installs, and runs the tests",
    "mrql/      text → syntax tree → algebra terms; the commands and the API": "a picture of folders",
    "mrql stream FILE --output out --checkpoint state --master spark://host:7077 --memory 4g": "it needs a cluster",
    "an executor of Spark was lost, and with it a part of the states: going back to batch 12": "so does this",
    'min_over_time(mrql_waiting_files{stream="orders"}[10m]) > 0': "it is for Prometheus",
    "error: Spark has run out of memory": "it would take the memory of the tests, too",
    "  with deletions from S: 2 histories, 9 batches: WRONG": "no query is known for which this is so",
}
"""The blocks that cannot be run here, with the reason."""


def block(document: str, begins: str) -> Block:
    """The only block that begins with this text."""
    (found,) = (one for one in blocks(document) if one.body.startswith(begins))
    return found


def run(line: str, home: Path, *more: str) -> str:
    """The standard output and error of a command that is run in a directory."""
    return run_command(line, home, *more, stderr=subprocess.STDOUT).stdout


def session(shown: Block) -> list[tuple[str, list[str]]]:
    """The commands of a session, each with its output."""
    found: list[tuple[str, list[str]]] = []
    for line in shown.body.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def shape(text: str) -> str:
    """A text without its numbers and times."""
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+Z?", "TIME", text)
    return re.sub(r"\d[\d,]*(\.\d+)?", "N", text)


def without_digits(text: str) -> str:
    """A name without its numbers and digests."""
    return re.sub(r"[0-9a-f]{6,}", "N", text)


# --- README -------------------------------------------------------------------------------------


def test_the_first_query_is_the_one_in_queries() -> None:
    """The first query of the README is that of `queries/join_groupby.mrql`, which other tests run."""
    file = (ROOT / "queries" / "join_groupby.mrql").read_text(encoding="utf-8")
    code = [line for line in file.splitlines() if not line.startswith("//")]
    assert block(README, "left = stream").body.split() == "\n".join(code).split()


def test_the_commands_are_those_that_there_are() -> None:
    """The README lists all commands, and no others."""
    known = [line.split()[1] for line in block(README, "mrql run").body.splitlines()]
    assert sorted(known) == sorted(COMMANDS)


@pytest.mark.spark
@pytest.mark.slow
def test_the_session_of_the_readme(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output is the one shown, except for times and for the number of state rows, which depends on partitions."""
    (made, says), (command, shown) = session(block(README, "$ python"))
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    assert run(made, tmp_path).splitlines() == says
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    kept = re.compile(r", [\d,]+ state rows, [\d,]+ ms$")
    assert [kept.sub("", line) for line in done.stderr.splitlines()] == [kept.sub("", line) for line in shown]
    assert len([*(tmp_path / "answers").glob("batch-*")]) == len(shown)


# --- explain, verify, data ----------------------------------------------------------------------


def test_what_explain_shows() -> None:
    ((command, shown),) = session(block("docs/incremental.md", "$ mrql explain"))
    assert run(command, ROOT).rstrip("\n").splitlines() == shown


@pytest.mark.slow
def test_the_session_of_verify(tmp_path: Path) -> None:
    """The output is the one shown, except for the progress: the seed is given, so it is the same each time."""
    (made, says), (command, shown) = session(block(VERIFY, "$ python"))
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    assert run(made, tmp_path).splitlines() == says
    said = [line for line in run(command, tmp_path).splitlines() if ": history " not in line]
    assert said == shown


def test_a_type_that_is_inferred(tmp_path: Path) -> None:
    """The inferred type is the one shown, for the file above it in the document."""
    ((command, shown),) = session(block(DATA, "$ mrql infer"))
    (tmp_path / "sensors.csv").write_text(next(one.body for one in blocks(DATA) if one.name == "sensors.csv"))
    assert run(command, tmp_path).splitlines() == shown


def test_rows_that_are_kept_aside(tmp_path: Path) -> None:
    """The message about quarantined rows, and the content of their file, are those shown."""
    (tmp_path / "q.mrql").write_text('s = stream(csv, "in", ",", type((long, string))); select x from (x, y) in s;')
    put(tmp_path / "in" / "a.csv", "1,a\nx,b\ny,c\nz,d\n", 1)
    said = run("mrql stream q.mrql --once --malformed quarantine --quarantine DIR", tmp_path, "--engine", "reference")
    assert shape(block(DATA, "3 malformed").body.strip()) in shape(said).splitlines()
    (kept,) = (tmp_path / "DIR").glob("batch-*/malformed.json")
    assert json.loads(kept.read_text().splitlines()[0]) == json.loads(block(DATA, '{"file"').body)


# --- sources ------------------------------------------------------------------------------------


def test_the_streams_are_those_that_there_are() -> None:
    """Each stream in the list can be parsed, and all connectors are among them."""
    kinds = set()
    for line in block(SOURCES, "stream(csv").body.splitlines():
        text = re.split(r"(?<=\)) {2,}", line)[0]
        parse_program(f"select x from x in {text};")
        kinds.add(text.removeprefix("stream(").split(",")[0])
    assert {*CONNECTORS} <= kinds


def test_the_adapter_and_its_test(tmp_path: Path) -> None:
    """The adapter passes the test in the document, and reads rows with their weights."""
    names: dict[str, Any] = {}
    for one in blocks(SOURCES):
        if one.kind == "python":
            exec(one.body, names)
    names["test_numbers"](tmp_path)
    (tmp_path / "taken").write_text("3\n4\n-3\n")
    found = names["Numbers"](
        SourceSpec("n", True, names["ADAPTER"], str(tmp_path / "taken"), names["parse_type"]("long"))
    )
    assert [(row["n"], weight) for row, weight in found.read(None, 3)] == [(3, 1), (4, 1), (3, -1)]


def test_a_trigger_that_deletes(postgresql: Server) -> None:
    """With the trigger, the rows are deleted one by one before a TRUNCATE."""
    (trigger,) = (one for one in blocks(SOURCES) if one.kind == "sql")
    schema = f"truncated_{secrets.token_hex(4)}"
    with postgresql.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        connection.execute("CREATE TABLE orders AS SELECT generate_series(1, 3) AS id")
        connection.execute("CREATE TABLE gone (id int)")
        connection.execute(trigger.body.encode())
        connection.execute("CREATE RULE noted AS ON DELETE TO orders DO ALSO INSERT INTO gone VALUES (OLD.id)")
        connection.execute("TRUNCATE orders")
        assert sorted(connection.execute("SELECT * FROM gone").fetchall()) == [(1,), (2,), (3,)]
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


# --- sinks --------------------------------------------------------------------------------------

ORDERS = """
orders = stream(csv, "orders", ",", type(<id: long, customer: string, amount: double>));
select (c, sum(o.amount)) from o in orders group by c: o.customer;
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of a query over orders, with two files of them."""
    put(tmp_path / "orders.mrql", ORDERS, 0)
    put(tmp_path / "orders" / "07.csv", "1,ann,2.5\n2,bob,4\n", 1)
    put(tmp_path / "orders" / "08.csv", "3,ann,7.5\n", 2)
    return tmp_path


@pytest.mark.slow
def test_all_places_of_answers(home: Path, postgresql: Server) -> None:
    """Each place has the answer; beside a table, the stream that keeps it is noted as shown."""
    table = f"answer_{secrets.token_hex(4)}"
    for line in block(SINKS, "mrql stream FILE").body.splitlines():
        command = re.split(r" {3,}", line)[0].replace("FILE", "orders.mrql --once --engine reference")
        said = run(command.replace("postgresql://ann@host/db?table=answer", postgresql.address(table)), home)
        assert "error" not in said
    assert (home / "out" / "batch-000000" / "part-00000.json").exists()
    assert DeltaTable(home / "out" / "answers").to_pyarrow_table().num_rows == 2
    assert postgresql.rows(table) == [("ann", 10.0), ("bob", 4.0)]
    columns, _, row = block(SINKS, " table_name").body.splitlines()
    with postgresql.connect() as connection:
        found = connection.execute(f"SELECT * FROM mrql_streams WHERE table_name = '{table}'".encode())
        assert found.description is not None
        assert [column.name for column in found.description] == [name.strip() for name in columns.split("|")]
        (noted,) = found.fetchall()
    assert re.fullmatch("[0-9a-f]{32}", row.split("|")[1].strip())
    assert re.fullmatch("[0-9a-f]{32}", noted[1])


def test_an_address_of_a_table() -> None:
    """The address is valid, and hides its password; a misspelt one is refused."""
    address = block(SINKS, "postgresql://").body.strip()
    assert "secret" not in repr(place_at(address.replace("password", "secret")))
    with pytest.raises(ValueError, match="which table"):
        place_at(address.replace("?table", "?tables"))


# --- checkpoints, operation ---------------------------------------------------------------------


def test_what_a_checkpoint_has_and_what_is_asked_of_it(home: Path) -> None:
    """The files have the names shown, and the commands for checkpoints run, except `release`, which has no slot."""
    command = block(CHECKPOINTS, "mrql stream").body.replace("FILE", "orders.mrql")
    run(command, home, "--once", "--engine", "reference", "--max-files", "1")
    shown = block(CHECKPOINTS, "state/").body
    files = [without_digits(path.name) for path in (home / "state").iterdir()]
    named = re.findall(r"^  (\w[^ /]*)", shown, re.MULTILINE)
    assert {*files} == {*map(without_digits, named)} - {READ}  # few files were read
    runs = [path.relative_to(home / "state").as_posix() for path in (home / "state").glob("runs/*/*")]
    named = re.findall(r"^ {4}(\S+)/part", shown, re.MULTILINE)
    assert {without_digits(run.rpartition("/")[2]) for run in runs} == {*map(without_digits, named)}
    for line in block(CHECKPOINTS, "mrql checkpoint").body.splitlines():
        words = line.split()[:4]
        said = run(" ".join(words).replace("DIR", "state"), home)
        assert "error" not in said or words[2] == "release", said


@pytest.mark.slow
def test_how_a_stream_is_watched(home: Path) -> None:
    """Progress, metrics and log have the form shown."""
    command = (
        block(OPERATION, "mrql stream FILE --output out --checkpoint state --metrics")
        .body.replace("FILE", "orders.mrql")
        .replace("9464", "0")
    )
    aside = (
        "--malformed",
        "quarantine",
        "--quarantine",
        "aside",
        "--once",
        "--max-files",
        "1",
        "--engine",
        "reference",
    )
    quiet = command.replace("--metrics-port 0 --log-level info", "")
    run(quiet, home, *aside)
    put(home / "orders" / "09.csv", "4,cid,1\n17,25.00\nx\n", 3)
    said = run(quiet, home, *aside)
    assert {*map(shape, block(OPERATION, "going on after").body.splitlines())} == {*map(shape, said.splitlines())}
    put(home / "orders" / "10.csv", "5,cid,1\n18\n19\n", 4)
    logged = {*map(shape, run(command.replace("info", "debug"), home, *aside).splitlines())}
    reads, *others = map(shape, block(OPERATION, "2026-").body.splitlines())
    assert {*others} <= logged
    assert any(line.startswith(reads.split(" reads ")[0]) for line in logged)
    assert [name.strip() for name in block(OPERATION, " batch ┃").head.split("┃")] == [*COLUMNS]
    metrics = [json.loads(line) for line in (home / "metrics.jsonl").read_text().splitlines()]
    must_be_alike(json.loads(block(OPERATION, '{"batch"').body), metrics[-1])
    totals = Totals()
    totals.add(metrics[-1])
    shown = [line for line in block(OPERATION, "$ curl").body.splitlines()[1:] if line != "…"]
    names = {"X1": next(iter(metrics[-1]["state"]))}
    served = {shape(line) for line in totals.text().splitlines()}
    assert {shape(line.replace("X1", names["X1"])) for line in shown} <= served


def must_be_alike(shown: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Asserts the same fields in the same order; each state and each operator has the same fields, too."""
    assert [*shown] == [*found]
    assert [*shown["milliseconds"]] == [*found["milliseconds"]]
    for part in ("state", "operators"):
        assert {tuple(one) for one in shown[part].values()} == {tuple(one) for one in found[part].values()}


def test_what_is_said_of_a_malformed_row(home: Path) -> None:
    """The message about a malformed row, and the exit code, are those shown."""
    (command, shown), (_, (code,)) = session(block(OPERATION, "$ mrql stream"))
    run(command, home, "--engine", "reference")
    put(home / "orders" / "09.csv", "4,cid,1\n5,cid,2\n6,cid,3\n17,25.00\n", 3)
    said = run(f"{command} --engine reference", home).splitlines()
    assert (shape(said[0]), said[1:]) == (shape(shown[0]), shown[1:])
    assert code == "1"


def test_the_slots_of_a_server(postgresql: Server) -> None:
    """The query for the slots can be run."""
    (query,) = (one for one in blocks(OPERATION) if one.kind == "sql")
    with postgresql.connect() as connection:
        connection.execute(query.head.encode())


# --- all of it ----------------------------------------------------------------------------------


def test_each_block_is_run_or_it_is_said_why_not() -> None:
    """Each block is run by a test above, or is in one of the lists."""
    text = Path(__file__).read_text(encoding="utf-8")
    known = re.findall(r"block\(\w+, (['\"])(.*?)\1\)", text)
    begins = {found for _, found in known} | {"class Numbers", "from pathlib import Path", "import itertools"}
    begins |= {"CREATE FUNCTION", *ELSEWHERE, *NOT_RUN}
    shown = [one for document in (README, SOURCES, SINKS, CHECKPOINTS, OPERATION, VERIFY) for one in blocks(document)]
    assert [one.head for one in shown if not any(one.body.startswith(begin) for begin in begins)] == []
