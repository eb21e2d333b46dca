"""Faults that need a process of their own: of its Java, its standard output, its signals, and what it waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bad_input.situations import put
from tests.bad_input.table import SETTINGS

MRQL = (sys.executable, "-m", "mrql")
OLD_JAVA = """#!/bin/sh
echo 'openjdk version "11.0.20" 2023-07-18' >&2
test "$1" = -version || { echo 'Error: LinkageError occurred while loading main class' >&2; exit 1; }
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The directory of a stream with its data."""
    setting = SETTINGS["tagged"]
    put(tmp_path / "q.mrql", setting.query, 0)
    for name, content in {**setting.first, **setting.then}.items():
        put(tmp_path / name, content, 1)
    return tmp_path


def java(home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*MRQL, "run", str(home / "q.mrql"), "--data", str(home)]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_java_home_without_java(home: Path) -> None:
    """Spark looks for Java in JAVA_HOME only, whatever else is installed."""
    done = java(home, JAVA_HOME=str(home))
    says = f"error: JAVA_HOME is {home}, and there is no {home}/bin/java\n  hint: set it to a Java, or unset it\n"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", says)


def test_no_java(home: Path) -> None:
    """The message says what to install, and that there is an engine without Java."""
    (home / "bin").mkdir()
    done = java(home, JAVA_HOME="", PATH=str(home / "bin"))
    says = (
        "error: no Java was found, and Spark needs one\n  hint: install Java 17 or newer "
        "(on Debian: apt-get install openjdk-17-jre-headless), or use --engine reference\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", says)


def test_a_java_that_is_too_old(home: Path) -> None:
    """The message gives the version, and not the error of Java about a class."""
    (home / "old" / "bin").mkdir(parents=True)
    file = home / "old" / "bin" / "java"
    file.write_text(OLD_JAVA)
    file.chmod(0o755)
    done = java(home, JAVA_HOME=str(home / "old"))
    says = (
        f"error: Spark needs Java 17 or newer, and {file} is version 11\n"
        "  hint: install Java 17 or newer (on Debian: apt-get install openjdk-17-jre-headless)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", says)


@pytest.mark.parametrize("form", ["json", "table"])
def test_nobody_reads_the_answers(home: Path, form: str) -> None:
    """The stream ends in silence, like a command in a pipe before `head`; its commits stay."""
    options = ["--data", str(home), "--once", "--max-files", "1", "--engine", "reference", "--format", form]
    command = [*MRQL, "stream", str(home / "q.mrql"), *options, "--checkpoint", str(home / "state")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (0, "")
    assert list((home / "state").glob("manifest-*.json"))


def test_standard_output_is_full(home: Path) -> None:
    """A full standard output is reported as a full disk."""
    with Path("/dev/full").open("w") as full:
        command = [*MRQL, "check", str(home / "q.mrql")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "error: no space is left on the disk\n  hint: make room\n")


def test_a_directory_that_is_waited_for(tmp_path: Path) -> None:
    """The stream says that it waits, and reads the directory when it is there; SIGTERM ends it."""
    put(tmp_path / "q.mrql", SETTINGS["tagged"].query, 0)
    options = [
        "--data",
        str(tmp_path),
        "--interval",
        "0.05",
        "--engine",
        "reference",
        "--output",
        str(tmp_path / "out"),
    ]
    command = [*MRQL, "stream", str(tmp_path / "q.mrql"), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == f"{tmp_path}/s is not there yet; its files are read when it is\n"
    put(tmp_path / "come" / "1.csv", "+,1,10\n", 1)
    (tmp_path / "come").rename(tmp_path / "s")
    assert process.stderr.readline().startswith("batch 0: 1 rows in 1 files")
    process.send_signal(signal.SIGTERM)
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), said) == (0, "stopped\n")
