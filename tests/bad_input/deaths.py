"""Ways in which Spark ends in the middle of a stream. They take memory and minutes, and so are for `make soak`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from tests.runtime.checkpoint.streams import GROUPS, Stream, answers, fill, write
from tests.support.cluster import YOUNG, standalone

PATIENCE = 1200
"""The number of seconds after which a process counts as hanging."""

BY_ONE_KEY = """s = stream(parquet, "s", type(<A: long, B: string>));
select (k, (select x.B from x in r)) from r in s group by k: 1;
"""


SHIFTED = """
import shifted from "shifts";
edges = stream(csv, "edges", ",", type((long, long)), deletions("removed"));
select (x, sum(shifted(y)), max(y)) from (x, y) in edges group by x;
"""
SHIFTS = '''
from pathlib import Path

import mrql


def shifted(n: int) -> int:
    """One more; where this package was found is noted."""
    with (Path(__file__).parent / "found").open("a") as noted:
        noted.write(f"{mrql.__file__}\\n")
    return n + 1
'''


def started(home: Path, *more: str) -> subprocess.Popen[str]:
    """A stream on a Spark of its own, with a checkpoint; its Java has default options, not those of other tests."""
    command = [sys.executable, "-m", "mrql", "stream", str(home / "q.mrql"), "--data", str(home), "--once"]
    command += ["--allow-import"]
    command += ["--max-files", "1", "--output", str(home / "out"), "--checkpoint", str(home / "checkpoint"), *more]
    env = {key: value for key, value in os.environ.items() if key != "PYSPARK_SUBMIT_ARGS"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)


def must_say(process: subprocess.Popen[str], message: str, committed: str) -> None:
    """The process ends with one message, which says what is committed, and exit code 3."""
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, said
    ends = rf"error: {message}\n  hint: .*{committed}, and the next start goes on after it\n\Z"
    assert re.search(ends, said), said
    assert "Traceback" not in said
    assert "\tat " not in said


def java_is_killed(home: Path, number: int) -> None:
    """Java is killed, as the system does when it is out of memory: the stream goes on after the last commit."""
    fill(home, 8, Random(number))
    stream = Stream(home, GROUPS)
    expected = stream.uninterrupted()
    process = started(home)
    assert process.stderr is not None
    until = time.monotonic() + PATIENCE
    for line in process.stderr:
        assert time.monotonic() < until, "the stream hangs"
        if line.startswith("batch 3"):
            break
    os.kill(children(process.pid)[0], signal.SIGKILL)
    must_say(process, "Spark's Java process was ended by signal 9", r"batch \d+ is committed")
    seen = answers(home / "out")
    assert all(seen[name] == expected[name] for name in seen)
    again = started(home)
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    assert answers(home / "out") == expected


def executor_is_killed(home: Path, number: int) -> None:
    """One of two local executors is killed: the stream goes back to its last commit, and then to its end."""
    fill(home, 5, Random(number), first=40)
    stream = Stream(home, GROUPS)
    expected = stream.uninterrupted()
    process = started(home, "--master", "local-cluster[2,1,2048]")
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if line.startswith("batch 1"):
            os.kill(children(children(process.pid)[0])[0], signal.SIGKILL)
    assert process.wait(PATIENCE) == 0, "".join(told)
    assert any("going back to batch" in line for line in told), "".join(told)
    assert answers(home / "out") == expected


def executors_are_killed(home: Path, number: int) -> None:
    """One of the two executors of a standalone cluster is killed, then both: the stream goes back to its last commit by
    itself. Its functions in Python find this package, which was sent to the executors."""
    fill(home, 5, Random(number), first=40)
    (home / "shifts.py").write_text(SHIFTS)
    stream = Stream(home, SHIFTED)
    expected = stream.uninterrupted()
    with standalone(2) as spark:
        conf = [f"spark.executor.extraJavaOptions={YOUNG}", f"spark.driver.extraJavaOptions={YOUNG}"]
        options = [part for one in (*conf, "spark.executor.memory=600m") for part in ("--conf", one)]
        process = started(home, "--master", spark.master, *options)
        for batch, wanted in ((0, 1), (2, 2)):
            wait_for(home / "out" / f"batch-{batch:06d}", process)
            for executor in spark.executors()[:wanted]:
                os.kill(executor, signal.SIGKILL)
        _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    assert "an executor of Spark was lost, and with it a part of the states: going back to batch" in told
    assert answers(home / "out") == expected
    assert any("mrql-package.zip" in line for line in (home / "found").read_text().splitlines())


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Waits until a process has made a file or directory."""
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, f"there is no {path}"
        time.sleep(0.02)


def children(process: int) -> list[int]:
    """The Java processes that a process has started."""
    found = subprocess.run(["pgrep", "-P", str(process), "java"], capture_output=True, text=True, check=True)
    return [int(child) for child in found.stdout.split()]


def memory_ends(home: Path, number: int) -> None:
    """A group is larger than the memory: the batch before stays, and the same command with more memory goes on."""
    write(home / "q.mrql", BY_ONE_KEY, 0)
    for age, rows in enumerate((10, 4_000_000), 1):
        texts = pa.array(f"{number} some text that is not short {n}" for n in range(rows))
        (home / "s").mkdir(exist_ok=True)
        pq.write_table(pa.table({"A": pa.array(range(rows)), "B": texts}), home / "s" / f"{age}.parquet")
    # If a thread of Spark runs out of it first, the process may go on, and memory is named as a possible reason.
    no_memory = r"Spark has run out of memory|Spark has stopped(?=\n  hint: .* run out of memory)"
    must_say(started(home, "--memory", "512m"), f"(?:{no_memory})", "batch 0 is committed")
    assert [path.name for path in sorted((home / "out").glob("batch-*"))] == ["batch-000000"]
    again = started(home, "--memory", "6g")
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    assert [path.name for path in sorted((home / "out").glob("batch-*"))] == ["batch-000000", "batch-000001"]


ALL: tuple[Callable[[Path, int], None], ...] = (
    java_is_killed,
    executor_is_killed,
    executors_are_killed,
    memory_ends,
)
