"""A stream over a directory: its warnings about files that it does not read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mrql.jobs.loading import compile_over_files
from mrql.runtime.sources.watched.directory import Directory


def write(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def test_a_stream_over_other_directories(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A directory with subdirectories only, which are not read, is reported once."""
    (tmp_path / "d" / "in").mkdir(parents=True)
    (spec,) = compile_over_files('count(stream(text, "d"));', base=tmp_path).sources.values()
    watched = Directory(spec)
    with caplog.at_level(logging.WARNING, "mrql"):
        assert [watched.look() for _ in range(2)] == [{}, {}]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'd'} has no file that is read, but the directory in, which is not looked at"
    ]


@pytest.mark.parametrize("path", ["", ".", "d", "./d"])
@pytest.mark.parametrize("name", ["a.csv", "dt=1/a.csv", "dt=1/h=2/a.csv"])
def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, name: str) -> None:
    """However the directory is named, also as the current one, and whether or not it has partitions."""
    home = tmp_path if path in ("", ".") else tmp_path / "d"
    write(home, {name: "1\n"})
    monkeypatch.chdir(tmp_path)
    (spec,) = compile_over_files(
        f'count(stream(csv, "{path}", ",", type(<x: int, dt: int, h: int>)));'
    ).sources.values()
    watched = Directory(spec)
    for _ in range(2):
        found = watched.look()
        watched.commit([part for file in found for part in watched.take(file)])
    assert [*found] == []
    assert [*watched.seen] == [str(home / name)]
    assert watched.is_at_end


@pytest.mark.parametrize("name", ["_a.csv", ".a.csv"])
def test_a_stream_over_files_that_are_not_looked_at(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory whose files are all skipped because of their names is reported once."""
    write(tmp_path, {f"d/{name}": "1\n", "d/.gitkeep": "", "d/_SUCCESS": "", "d/.b.crc": ""})
    (spec,) = compile_over_files('count(stream(text, "d"));', base=tmp_path).sources.values()
    watched = Directory(spec)
    with caplog.at_level(logging.WARNING, "mrql"):
        assert [watched.look() for _ in range(2)] == [{}, {}]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'd'} has no file that is read, but {name}: names that begin with `.` or `_` are not looked at"
    ]


def test_a_stream_over_what_a_writer_leaves_in_an_empty_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that a writer leaves in an empty directory are not reported, as they have no rows."""
    write(tmp_path, {"d/.gitkeep": "", "d/_SUCCESS": "", "d/._SUCCESS.crc": ""})
    (spec,) = compile_over_files('count(stream(text, "d"));', base=tmp_path).sources.values()
    with caplog.at_level(logging.WARNING, "mrql"):
        assert Directory(spec).look() == {}
    assert caplog.records == []
