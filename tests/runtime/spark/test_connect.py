"""Spark Connect: queries are evaluated there, and views refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.connect_session import QUERIES

pytest.importorskip("grpc")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parent.parent.parent.parent
ANSWERS = {
    "select": [["B", 3], ["a", 3]],
    "groups": [["B", 2, 0.5], ["a", 3, 1.5]],
    "join": [["B", 2]],
    "order": [[2], [2]],
    "nested": [["B", [2]], ["a", [1, 2]]],
    "value": [[3, 1.5]],
    "texts": [["A", "1"], ["A", "2"], ["B", "2"]],
    "missing": [["a", None]],
    "loop": [[1], [2], [3], [4]],
    "steps": [[9]],
    "python": [[1], [2], [2]],
    "time": [["2026-07-01 12:00:00"]],
}


def test_what_a_session_of_spark_connect_answers() -> None:
    """Over Spark Connect, answers and errors are the same, and the settings of the session stay as they were."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "tests.support.connect_session"]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr[-3000:]
    said = json.loads(ended.stdout.splitlines()[-1])
    assert {name: said[name] for name in QUERIES} == ANSWERS
    assert said["arrow"] == [["x"]]
    assert said["as given"] == [["B"], ["a"], ["a"]]
    assert said["table"] == [[3]]
    assert said["no value"].startswith("<query>:1:8: error: division by zero")
    assert said["overflow"].startswith("<query>:1:1: error: integer overflow")
    assert "a session of Spark Connect does not reach" in said["view"]
    assert "the session has no table `nowhere`" in said["table that is not there"]
    assert said["settings"] == ["America/New_York", "false"]
