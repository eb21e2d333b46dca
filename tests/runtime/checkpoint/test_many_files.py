"""A stream that has read many files: a batch costs as much as its new files, and the files that were read are still
known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.consumed import files_read
from mrql.runtime.checkpoint.inspect import committed
from mrql.runtime.checkpoint.store import READ
from mrql.runtime.sources.arrived import Seen
from mrql.runtime.sources.watched import directory
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.watch import next_batch
from tests.runtime.checkpoint.crashes import is_whole
from tests.runtime.checkpoint.streams import Stream, batch_answer, write

TEXT = """
edges = stream(csv, "edges", ",", type((long, long)));
select (x, sum(y), count(y)) from (x, y) in edges group by x;
"""
MANY = 400


def fill(home: Path, start: int, end: int) -> None:
    for number in range(start, end):
        write(home / "edges" / f"{number:05d}.csv", f"{number % 7},{number}\n", number)


def noted(stream: Stream) -> dict[str, Seen]:
    """The files that a checkpoint records as read."""
    (found,) = committed(stream.checkpoint).sources["edges"].directories
    return files_read(stream.checkpoint, found)


def there(home: Path) -> dict[str, Seen]:
    return {str(file): Seen.of(file) for file in (home / "edges").iterdir()}


# --- the record of read files -------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits under which a few files count as many."""
    monkeypatch.setattr(policy, "NAMED_MAX_FILES", 10)
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 10)
    monkeypatch.setattr(directory, "CHECKED_MAX_FILES", 10)


@pytest.mark.usefixtures("few")
def test_a_manifest_names_few_files(tmp_path: Path) -> None:
    """A manifest names few files itself; the others are in lists, and a batch adds a list of its own files only."""
    fill(tmp_path, 0, MANY)
    stream = Stream(tmp_path, TEXT, max_files=4)
    stream.run()
    manifest = committed(stream.checkpoint)
    (found,) = manifest.sources["edges"].directories
    assert len(found.files) <= policy.NAMED_MAX_FILES
    assert len(found.files) + sum(part.count for part in found.lists) == MANY
    assert 1 <= len(found.lists) <= policy.SAVED_MAX_RUNS
    assert noted(stream) == there(tmp_path)
    before = {file.name for file in (stream.checkpoint / READ).iterdir()}
    fill(tmp_path, MANY, MANY + 12)
    stream.run()
    new = {file.name for file in (stream.checkpoint / READ).iterdir()} - before
    assert [part.count for part in committed(stream.checkpoint).lists() if part.name in new] == [12]
    assert noted(stream) == there(tmp_path)
    assert is_whole(stream)


STEPS = st.lists(st.sampled_from(["more", "more", "many", "change", "remove"]), min_size=1, max_size=8)


@settings(max_examples=20, deadline=None)
@given(steps=STEPS, most=st.sampled_from([1, 3, None]), data=st.data())
def test_what_was_read_is_noted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], most: int | None, data: st.DataObject
) -> None:
    """Whatever files are added, changed and removed, each start continues from all that were read, and the answer is
    that to the files as they are."""
    home, count = tmp_path_factory.mktemp("many"), 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "NAMED_MAX_FILES", 2)
        patch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 2)
        patch.setattr(policy, "SAVED_MAX_RUNS", 4)
        patch.setattr(directory, "CHECKED_MAX_FILES", 2)
        fill(home, 0, count)
        stream = Stream(home, TEXT, max_files=most, rewritable=True)
        for age, step in enumerate(["more", *steps], 1000):
            files = sorted((home / "edges").iterdir())
            if step in ("more", "many"):
                more = 1 if step == "more" else 7
                fill(home, count, count + more)
                count += more
            elif files:
                file = data.draw(st.sampled_from(files))
                write(file, f"5,{age}\n", age) if step == "change" else file.unlink()
            stream.run()
            assert list(stream.answers().values())[-1] == batch_answer(stream)
            assert noted(stream) == there(home)
            assert is_whole(stream)


@pytest.mark.usefixtures("few")
def test_show_and_verify(tmp_path: Path) -> None:
    """`checkpoint show` counts the files in lists, and `checkpoint verify` and a start report a list that is damaged or
    gone."""
    fill(tmp_path, 0, 25)
    stream = Stream(tmp_path, TEXT, max_files=5)
    stream.run()

    def command(*args: str) -> str:
        return CliRunner().invoke(main, ["checkpoint", *args, str(stream.checkpoint)]).output

    assert f"edges: stream, 25 files, {sum(f.stat().st_size for f in (tmp_path / 'edges').iterdir())} bytes" in command(
        "show"
    )
    assert "and 1 lists of files that were read, are as they were written" in command("verify")
    (listed,) = (stream.checkpoint / READ).iterdir()
    listed.write_bytes(listed.read_bytes().replace(b"00003.csv", b"00033.csv"))
    assert f"read/{listed.name}" in command("verify")
    with pytest.raises(UserError, match=f"{listed.name} is damaged"):
        stream.run()
    listed.unlink()
    with pytest.raises(UserError, match=f"{listed.name} is gone, and it names files that were read"):
        stream.run()


# --- the files that are checked -----------------------------------------------------------------


def watched(home: Path) -> Directory:
    """A directory, all of whose files were read."""
    found = Directory(compile_over_files(TEXT, base=home).sources["edges"])
    found.commit(next_batch([found], None)["edges"])
    return found


@pytest.mark.usefixtures("few")
def test_a_look_asks_for_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files were read, a look checks some of them, in turns, and each new file once."""
    fill(tmp_path, 0, MANY)
    found = watched(tmp_path)
    asked: list[str] = []
    stat = os.stat

    def counted(path: str, *args: object, **options: object) -> os.stat_result:
        asked.append(str(path))
        return stat(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(directory.os, "stat", counted)

    def files_asked() -> list[str]:
        asked.clear()
        found.look()
        return [path for path in asked if path.endswith(".csv")]

    assert len(files_asked()) == directory.CHECKED_MAX_FILES
    turns = [files_asked() for _ in range(MANY // directory.CHECKED_MAX_FILES)]
    assert {path for turn in turns for path in turn} == {*there(tmp_path)}
    fill(tmp_path, MANY, MANY + 5)
    assert len(files_asked()) == directory.CHECKED_MAX_FILES + 5
    assert len(files_asked()) == directory.CHECKED_MAX_FILES


def test_files_that_may_go(tmp_path: Path) -> None:
    """Rows of removed files stay, also over restarts and if the files come back; a file that comes back changed is an
    error, and so is a state that would have to be built from a removed file."""
    fill(tmp_path, 0, 6)
    stream = Stream(tmp_path, TEXT, max_files=4, may_go=True)
    stream.run()
    expected = batch_answer(stream)
    kept = {file: file.read_text() for file in (tmp_path / "edges").iterdir()}
    for file in kept:
        file.unlink()
    for _ in range(2):
        stream.run()
        assert list(stream.answers().values())[-1] == expected
    fill(tmp_path, 0, 7)
    stream.run()
    assert list(stream.answers().values())[-1] == batch_answer(stream)
    file = tmp_path / "edges" / "00003.csv"
    file.unlink()
    changed = Stream(tmp_path, TEXT.replace("sum(y)", "sum(y * 2)"), max_files=4, may_go=True)
    with pytest.raises(UserError, match=f"must be built again, but {file} is gone"):
        changed.run()
    with pytest.raises(UserError, match=f"{file} is gone"):
        Stream(tmp_path, TEXT, max_files=4).run()
    write(file, "1,1\n1,1\n", 9_000)
    with pytest.raises(UserError, match=f"{file} has changed"):
        stream.run()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("what", ["change", "remove"])
def test_a_file_that_changes(tmp_path: Path, what: str) -> None:
    """A changed file is detected in its turn, a removed one at once, and either at the first look after a start."""
    fill(tmp_path, 0, MANY)
    found, started = watched(tmp_path), watched(tmp_path)
    started.mark_end()
    file = tmp_path / "edges" / f"{MANY // 2:05d}.csv"
    write(file, "1,1\n", 5_000) if what == "change" else file.unlink()
    turns = 1 + MANY // directory.CHECKED_MAX_FILES if what == "change" else 1
    for each, most in ((found, turns), (started, 1)):
        with pytest.raises(UserError, match=f"{file.name} (has changed|is gone)"):
            [each.look() for _ in range(most)]
