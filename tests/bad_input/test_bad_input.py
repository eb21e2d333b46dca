"""Every fault that a stream meets gives one clear message and its exit code, and nothing is lost.

The faults are in the table in `table.py`, and their messages in `messages.txt`, as people read them.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.cli.main import main
from mrql.runtime.files.durable import DurableFiles
from tests.bad_input.situations import Bad, Kept, put
from tests.bad_input.table import CASES, SETTINGS

MESSAGES = Path(__file__).with_name("messages.txt")
STREAM = ("stream", "{home}/q.mrql", "--once")


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not synced: no power fails here, and waiting for the disk is what takes time."""
    monkeypatch.setattr(DurableFiles, "sync", lambda _, path: path.stat() and None)


@cache
def messages() -> dict[str, str]:
    """The expected standard error for each fault."""
    _, *parts = re.split(r"^=== (.*)\n", MESSAGES.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@attrs.frozen
class Said:
    """How a command ended: its exit code and standard error, with `{home}` for the directory."""

    code: int
    text: str
    error: BaseException | None = None


def command(home: Path, bad: Bad, engine: str, *more: str, spoiled: bool = True) -> Said:
    """Runs the command of a stream, or the one that the fault has."""
    given = bad.command if spoiled and bad.command else STREAM
    line = [*given]
    if line[0] in ("stream", "run"):
        line += ["--data", "{home}", "--engine", engine]
    if line[0] == "stream":
        line += ["--output", "{home}/out", *([] if bad.starts_over else ["--checkpoint", "{home}/state"])]
    line += [*(bad.options if spoiled else ()), *more]
    done = CliRunner().invoke(main, [part.replace("{home}", str(home)) for part in line], prog_name="mrql")
    error = None if done.exc_info is None or done.exc_info[0] is SystemExit else done.exception
    return Said(done.exit_code, steady(done.stderr.replace(str(home), "{home}")), error)


def steady(text: str) -> str:
    """The text without times, numbers of processes, and names that differ between processes."""
    text = re.sub(r"[\d,]+ ms$", "0 ms", text, flags=re.MULTILINE)
    text = re.sub(r"runs/[0-9a-f]{16}-", "runs/{state}-", text)
    return re.sub(r"(\d{6}-|\.json-)[0-9a-f]{8}", r"\1{token}", re.sub(r"process \d+", "process 0", text))


SEEN = ("out/batch-*/*", "aside/batch-*/*", "state/manifest-*.json")


def contents(home: Path, *patterns: str) -> dict[str, bytes]:
    """The files that match; by default outputs, quarantined rows and manifests, without hidden files."""
    found = (path for pattern in patterns or SEEN for path in home.glob(pattern))
    return {str(path): path.read_bytes() for path in found if path.is_file() and not path.name.startswith(".")}


def intact(home: Path, before: dict[str, bytes], runs: dict[str, bytes]) -> bool:
    """Whether outputs and commits are the same as before; a batch that was cut off may have left runs behind."""
    return contents(home) == before and contents(home, "state/runs/*/*/*").items() >= runs.items()


def begun(home: Path, bad: Bad, engine: str) -> None:
    """Sets up the stream as it is before the fault: batch 0 is committed, unless it has no checkpoint."""
    setting = SETTINGS[bad.setting]
    put(home / "q.mrql", setting.query, 0)
    for age, (name, content) in enumerate(setting.first.items(), 1):
        put(home / name, content, age)
    if not bad.starts_over:
        said = command(home, bad, engine, spoiled=False)
        assert (said.code, said.error) == (0, None), said.text


def situation(home: Path, bad: Bad, engine: str) -> Said:
    """Runs a stream with a fault, repairs it, and returns what the stream said.

    Commits and outputs must be the same as before; the stream then goes on to the answer that it has without the
    fault.
    """
    begun(home, bad, engine)
    before = contents(home)
    said = spoiled(home, bad, engine)
    assert contents(home) == before
    goes_on(home, bad, engine)
    return said


def spoiled(home: Path, bad: Bad, engine: str) -> Said:
    """Runs a stream with a fault, restores the files, and returns what the stream said."""
    kept = Kept.of(home, home.with_name("kept"))
    for age, (name, content) in enumerate(bad.files.items(), 100):
        put(home / name, content, age)
    before, runs = contents(home), contents(home, "state/runs/*/*/*")
    with nullcontext() if bad.fault is None else bad.fault(home):
        said = command(home, bad, engine)
    if said.code != 0 and not bad.starts_over:
        assert intact(home, before, runs), "what was there has changed"
    kept.put_back()
    return said


def goes_on(home: Path, bad: Bad, engine: str) -> None:
    """After the repair more data arrives, and the last answer of the stream is the one that it has without a fault."""
    setting = SETTINGS[bad.setting]
    for age, (name, content) in enumerate(setting.then.items(), 200):
        put(home / name, content, age)
    after = command(home, bad, engine, spoiled=False)
    assert (after.code, after.error) == (0, None), after.text
    alone = home.with_name("alone")
    whole = attrs.evolve(bad, starts_over=True)
    for age, (name, content) in enumerate({**setting.first, **setting.then}.items(), 1):
        put(alone / name, content, age)
    put(alone / "q.mrql", setting.query, 0)
    assert command(alone, whole, "reference", spoiled=False).code == 0
    assert last_answer(home / "out") == last_answer(alone / "out")


def last_answer(directory: Path) -> list[str]:
    """The rows of the last batch in the output, sorted."""
    parts = max(directory.glob("batch-*")).glob("part-*.json")
    return sorted(str(json.loads(line)) for part in parts for line in part.read_text().splitlines())


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input(tmp_path: Path, name: str) -> None:
    """A fault gives one message and an exit code; commits stay, and the stream goes on after the repair."""
    said = situation(tmp_path / "home", CASES[name], "reference")
    assert (said.text, said.code, said.error) == (messages()[name], CASES[name].code, None)


def test_each_message_is_that_of_a_situation() -> None:
    """The messages are in the order of the table, which has at least forty faults that are errors."""
    assert list(messages()) == list(CASES)
    assert sum(bad.code != 0 for bad in CASES.values()) >= 40


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["tagged", "parquet", "numbers"])
def test_bad_inputs_on_spark(tmp_path: Path, spark: SparkSession, setting: str) -> None:
    """Faults that Spark handles in its own way give the same messages, one after the other in one stream."""
    home = tmp_path / "home"
    several = {name: bad for name, bad in CASES.items() if bad.spark and bad.setting == setting}
    first = next(iter(several.values()))
    begun(home, first, "spark")
    for name, bad in several.items():
        said = spoiled(home, bad, "spark")
        assert (said.text, said.code, said.error) == (messages()[name], bad.code, None), name
    goes_on(home, first, "spark")
