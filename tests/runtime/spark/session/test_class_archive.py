"""Spark's classes are archived by the first process and mapped by those after it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mrql.runtime.spark.session import class_archive
from mrql.runtime.spark.session.class_archive import (
    ABANDONED_SECONDS,
    KEPT_MAX_ARCHIVES,
    SWITCH,
    Archive,
    with_class_archive,
)

OPTIONS = "spark.driver.defaultJavaOptions"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not started Spark yet."""
    monkeypatch.setattr(class_archive.pyspark.SparkContext, "_gateway", None)


def options(conf: dict[str, str]) -> str:
    return with_class_archive(conf).get(OPTIONS, "")


@pytest.mark.usefixtures("no_java")
def test_where_archives_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives are in the cache of the user, or where the environment says, one for each way of starting Java."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c a c h e"))
    monkeypatch.delenv(SWITCH, raising=False)
    first = options({OPTIONS: "-Xss4m"})
    assert first.endswith("-Xss4m")
    assert f'"-XX:ArchiveClassesAtExit={tmp_path}/c a c h e/mrql/classes/' in first
    assert options({OPTIONS: "-Xss4m"}) == first
    assert options({OPTIONS: "-Xss8m"}).split("/")[-1] != first.split("/")[-1]
    monkeypatch.setenv(SWITCH, str(tmp_path / "here"))
    assert f'"-XX:ArchiveClassesAtExit={tmp_path}/here/' in options({})
    monkeypatch.setenv(SWITCH, "off")
    assert with_class_archive({"a": "b"}) == {"a": "b"}


@pytest.mark.usefixtures("no_java")
def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the directory cannot be written, Spark starts without an archive."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(SWITCH, str(tmp_path / "file" / "classes"))
    assert with_class_archive({"a": "b"}) == {"a": "b"}


def test_what_is_whole_is_taken_over(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "key")
    half, whole = tmp_path / "key.1.new", tmp_path / "key.2.new"
    half.write_bytes(bytes(100))
    assert "ArchiveClassesAtExit" in archive.option()
    whole.write_bytes(b"\x01\x02\x03\x04")
    assert archive.option() == f'"-XX:SharedArchiveFile={tmp_path / "key.jsa"}"'
    assert half.exists()
    long_ago = time.time() - ABANDONED_SECONDS - 1
    os.utime(half, (long_ago, long_ago))
    archive.option()
    assert [path.name for path in tmp_path.iterdir()] == ["key.jsa"]


def test_there_is_room_for_some(tmp_path: Path) -> None:
    """Only the archives that were used last are kept."""
    for age in range(KEPT_MAX_ARCHIVES + 2):
        Archive(tmp_path, f"key{age}").path.write_bytes(b"whole")
        os.utime(tmp_path / f"key{age}.jsa", (1000 - age, 1000 - age))
    Archive(tmp_path, "new").option()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"key{age}.jsa" for age in range(KEPT_MAX_ARCHIVES - 1)]


MAPPED = """
import sys
from pathlib import Path
from pyspark import SparkContext
from mrql.runtime.spark.session.session import local_session
spark = local_session()
maps = Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text()
print([line.split("/")[-1] for line in maps.splitlines() if line.endswith(".jsa") and sys.argv[1] in line][:1])
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process has mapped is read from /proc")
def test_the_next_process_has_them(tmp_path: Path) -> None:
    """The first process writes the classes that it has loaded when it ends, and the second maps them; neither writes an
    error."""
    environment = {**os.environ, SWITCH: str(tmp_path)}
    said = []
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", MAPPED, str(tmp_path)],
            env=environment, capture_output=True, text=True, check=True, timeout=300,
        )  # fmt: skip
        said.append((ran.stdout.strip(), ran.stderr))
    (archive,) = (path.name for path in tmp_path.iterdir())
    assert said == [("[]", ""), (f"['{archive}']", "")]
