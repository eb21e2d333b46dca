"""Damage to what a stream has left: a bit flipped, a file cut off or removed; and what the next start makes of it.

Whatever it is, the next start says so and names the file; or nothing rests on what is damaged, and the answers are
right.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

import attrs
from pyspark.sql import SparkSession

from mrql.algebra.errors import EngineError, MrqlError, UserError
from mrql.algebra.values.values import Bag
from mrql.runtime.checkpoint.inspect import committed, faults
from mrql.runtime.checkpoint.store import COMMITTED, COPIES, READ, latest, manifest_files
from mrql.runtime.delta.answer_table import AnswerTable
from mrql.runtime.postgresql.sink import TableSink
from tests.runtime.checkpoint.streams import (
    GROUPS,
    JOIN,
    Counting,
    Crash,
    Failing,
    Stream,
    answers,
    batch_answer,
    fill,
    rows,
    write,
)
from tests.support.delta_tables import content
from tests.support.postgresql import Server

Tree = Mapping[str, bytes]
"""Files by their paths, below a directory."""


@attrs.frozen
class Damage:
    """What is done to a file: a bit of it is flipped, it is cut off, or, with neither, removed."""

    file: str
    at: int = 0
    bit: int | None = None
    cut: bool = False

    def of(self, data: bytes) -> bytes | None:
        if self.bit is not None:
            return data[: self.at] + bytes([data[self.at] ^ (1 << self.bit)]) + data[self.at + 1 :]
        return data[: self.at] if self.cut else None


def damages(tree: Tree, random: Random, each: int) -> list[Damage]:
    """Some damage to each class of positions of each file: so many bits of it; and each file cut off and removed."""
    found = []
    for file, data in sorted(tree.items()):
        for positions in classes(data):
            chosen = random.sample(positions, min(each, len(positions)))
            found += [Damage(file, at, random.randrange(8)) for at in chosen]
        cuts = {0, len(data) // 2, len(data) - 1} if data else set()
        found += [Damage(file, at, cut=True) for at in sorted(cuts)]
        found.append(Damage(file))
    return found


def classes(data: bytes) -> list[list[int]]:
    """The positions of a file by what is there: of a Parquet file its marks, its pages and its footer with the length
    of that; of a text the digits, letters, quotes, brackets, blanks and what else there is; each at its begin, in its
    middle and at its end."""
    if data[:4] == b"PAR1" and len(data) > 12:
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        ends = [0, 4, footer, len(data) - 8, len(data) - 4, len(data)]
        parts = [list(range(a, b)) for a, b in pairwise(ends)]
    else:
        kinds: dict[str, list[int]] = {}
        for at, byte in enumerate(data):
            kinds.setdefault(_kind(chr(byte)), []).append(at)
        parts = list(kinds.values())
    return [third for part in parts for third in _thirds(part) if third]


def _kind(character: str) -> str:
    kinds = {"digit": character.isdigit(), "letter": character.isalpha(), "blank": character.isspace()}
    return next((kind for kind, holds in kinds.items() if holds), character if character in '"[]{},:' else "other")


def _thirds(positions: Sequence[int]) -> Iterator[list[int]]:
    size = max(1, -(-len(positions) // 3))
    for start in range(0, len(positions), size):
        yield list(positions[start : start + size])


# --- what is damaged ----------------------------------------------------------------------------


@attrs.frozen
class Left:
    """What a stream has left behind, and what there has to be after its next start."""

    stream: Stream
    tree: Tree
    expected: Mapping[str, Any]
    rests: frozenset[str]
    """The files that the next start reads, or holds against what was put out."""
    copies: frozenset[str]
    """Copies of data, all of which `verify` looks at."""
    table: Table | None = None
    """A table that it keeps besides."""

    @staticmethod
    def by(stream: Stream, expected: Mapping[str, Any], read: Sequence[str] = ()) -> Left:
        tree, manifest = tree_of(stream.home), committed(stream.checkpoint)
        named = [stream.checkpoint / run.path / file.name for run in manifest.runs() for file in run.files]
        named += [stream.checkpoint / READ / part.name for part in manifest.lists()]
        named += [p.final / file.name for p in manifest.publications for file in p.files]
        named += [p.hidden / file.name for p in manifest.publications for file in p.files]
        named += [manifest_files(stream.checkpoint)[0], stream.checkpoint / COMMITTED]
        rests = {str(path.relative_to(stream.home)) for path in named} | set(read)
        copies = frozenset(file for file in tree if f"/{COPIES}/" in file)
        return Left(stream, tree, expected, frozenset(rests & tree.keys()), copies)

    def damages(self, random: Random, each: int) -> list[Damage]:
        return damages(self.tree, random, each)

    def after(self, damage: Damage) -> None:
        """Damages a file, starts the stream again, and puts everything back.

        Raises: AssertionError where that went on in silence, or its message does not name the file.
        """
        path = self.stream.home / damage.file
        changed = damage.of(self.tree[damage.file])
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
        try:
            self._assert_said(damage, path)
        finally:
            put_back(self.stream.home, self.tree)
            if self.table is not None:
                self.table.put_back()

    def _assert_said(self, damage: Damage, path: Path) -> None:
        # Without the note of which manifest is the last one, that one counts all the same.
        rests = damage.file in self.rests and not (path.name == COMMITTED and not path.exists())
        if damage.file not in self.copies - self.rests:
            assert bool(self._verified()) == rests, (damage, self._verified())
        said, error = self._started()
        if error is not None:
            assert rests, (damage, error.message)
            assert path.name in error.message, (damage, error.message)
            assert error.hint is not None, (damage, error.message)
            return
        assert not rests or any(path.name in line for line in said), (damage, "not a word", said)
        if self.table is not None:
            assert Bag(self.table.rows()) == batch_answer(self.stream), damage
        batch = path.parent.name
        # What is in a batch that is out is not mended; all others have to be right.
        shutil.rmtree(self.stream.out / batch, ignore_errors=True)
        found = self.stream.answers()
        assert {*self.expected} - {*found} <= {batch}, (damage, sorted(found))
        wrong = [name for name, rows in self.expected.items() if name != batch and found[name] != rows]
        assert not wrong, (damage, wrong)

    def _started(self) -> tuple[list[str], UserError | EngineError | None]:
        """Starts the stream; returns what it says, and the error that ends it."""
        with warnings() as said:
            try:
                self.stream.run(Counting())
            except (UserError, EngineError) as error:
                return said, error
        return said, None

    def _verified(self) -> list[str]:
        """What `mrql checkpoint verify` finds."""
        try:
            return list(faults(self.stream.checkpoint, committed(self.stream.checkpoint)))
        except MrqlError as error:
            return [str(error)]


class Table(Protocol):
    """A table that a stream keeps besides, and a copy of it."""

    def rows(self) -> list[tuple[object, ...]]:
        """The rows that it has."""

    def put_back(self) -> None:
        """Makes it what it was."""

    def drop(self) -> None:
        """Removes it, and its copy."""


@attrs.frozen
class PostgresqlTable:
    """A table of PostgreSQL, and a copy of it, with the batch that it has."""

    server: Server
    name: str
    batch: int

    def rows(self) -> list[tuple[object, ...]]:
        return self.server.rows(self.name)

    def save(self) -> None:
        self._execute(f"CREATE TABLE {self.name}_saved AS TABLE {self.name}")

    def put_back(self) -> None:
        self._execute(
            f"TRUNCATE {self.name}",
            f"INSERT INTO {self.name} TABLE {self.name}_saved",
            f"UPDATE mrql_streams SET batch = {self.batch} WHERE table_name = '{self.name}'",
        )

    def drop(self) -> None:
        self._execute(*(f"DROP TABLE IF EXISTS {name}" for name in (self.name, f"{self.name}_saved")))

    def _execute(self, *statements: str) -> None:
        with self.server.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())


@attrs.frozen
class DeltaTable:
    """A table of Delta Lake, and a copy of it."""

    path: Path

    @property
    def _saved(self) -> Path:
        return self.path.with_name(f"{self.path.name}-saved")

    def rows(self) -> list[tuple[object, ...]]:
        return [tuple(row.fields.values()) for row in content(self.path)]

    def save(self) -> None:
        shutil.copytree(self.path, self._saved)

    def put_back(self) -> None:
        shutil.rmtree(self.path)
        shutil.copytree(self._saved, self.path)

    def drop(self) -> None:
        shutil.rmtree(self.path)
        shutil.rmtree(self._saved)


def tree_of(home: Path) -> dict[str, bytes]:
    """What a stream has written below a directory."""
    places = (home / name for name in ("checkpoint", "out", "kept"))
    files = (file for place in places for file in sorted(place.rglob("*")) if file.is_file())
    return {str(file.relative_to(home)): file.read_bytes() for file in files if file.name != "lock"}


def put_back(home: Path, tree: Tree) -> None:
    """Makes what lies there what it was."""
    for name in ("checkpoint", "out", "kept"):
        shutil.rmtree(home / name, ignore_errors=True)
    for file, data in tree.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_bytes(data)


@contextmanager
def warnings() -> Iterator[list[str]]:
    """What is logged as a warning in a block."""
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler, logger = Kept(logging.WARNING), logging.getLogger("mrql")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


# --- three of them ------------------------------------------------------------------------------


def stopped(home: Path, engine: str = "reference", spark: SparkSession | None = None) -> Left:
    """A stream that was stopped after some batches, with runs of changes, rows of streams, and malformed ones; another
    batch waits."""
    fill(home, 6, Random(1))
    malformed = home / "edges" / "0004.csv"
    write(malformed, malformed.read_text() + "1,x\n", 4)
    stream = Stream(home, JOIN, engine, spark=spark, quarantine="kept")
    late = [file.rename(file.with_name(".0005.csv")) for file in home.glob("*/0005.csv")]
    stream.run()
    left = tree_of(home)
    for file in late:
        file.rename(file.with_name("0005.csv"))
    stream.run()
    expected = stream.answers()
    put_back(home, left)
    return Left.by(stream, expected)


def died(home: Path) -> Left:
    """A stream that has died between a commit and its output."""
    fill(home, 4, Random(2))
    stream = Stream(home)
    counting = Counting()
    stream.run(counting)
    expected = stream.answers()
    for at in range(counting.count, 0, -1):
        stream.clear()
        with suppress(Crash):
            stream.run(Failing(at=at))
        if next(stream.out.glob(".batch-*"), None) is not None and stream.checkpoint.is_dir():
            manifest = latest(stream.checkpoint)
            if manifest is not None and manifest.batch == len(answers(stream.out)):
                return Left.by(stream, expected)
    raise AssertionError("there is no such moment")


def rewritten(home: Path) -> Left:
    """A stream one of whose files has been changed since it was read: its rows are taken back, from the copy."""
    for number in range(3):
        write(home / "edges" / f"{number}.csv", rows([(number, 3), (1, number + 4)]), number)
    text = GROUPS.replace(', deletions("removed")', "")
    stream = Stream(home, text, rewritable=True)
    stream.run()
    left = tree_of(home)
    write(home / "edges" / "1.csv", rows([(5, 5)]), 9)
    stream.run()
    expected = stream.answers()
    put_back(home, left)
    copy = next(file for file in left if file.endswith("/1.csv"))
    return Left.by(stream, expected, [copy, str(Path(copy).with_name(".sha256"))])


def undelivered(home: Path, server: Server) -> Left:
    """A stream that has died between a commit and that of the database: the changes wait in the outbox."""
    stream = Stream(home, address=server.address(name := f"t{secrets.token_hex(4)}"))
    left = _died_before(TableSink, "committed", stream)
    table = PostgresqlTable(server, name, 1)
    table.save()
    return attrs.evolve(left, table=table)


def undelivered_to_delta(home: Path) -> Left:
    """The same of a table of Delta Lake, whose changes wait in files of Parquet."""
    left = _died_before(AnswerTable, "commit", Stream(home, address=f"delta://{home}/t"))
    table = DeltaTable(home / "t")
    table.save()
    return attrs.evolve(left, table=table)


def _died_before(owner: type, name: str, stream: Stream) -> Left:
    """A stream that has died before the third call of what commits to its table."""
    fill(stream.home, 4, Random(3))
    commit, commits = getattr(owner, name), itertools.count()

    def committed(*args: object, **options: object) -> None:
        if next(commits) == 2:
            raise Crash
        commit(*args, **options)

    with patch.object(owner, name, committed), suppress(Crash):
        stream.run(Counting())
    return Left.by(stream, stream.uninterrupted())


SCENES: tuple[Callable[[Path], Left], ...] = (stopped, died, rewritten)
