"""Damage to the files that a stream has left (a flipped bit, a truncated or removed file), and the start after it.

That start reports the damage and names the file; or nothing depends on the damaged file, and the answers are right.
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
"""The content of files, by their paths relative to a directory."""


@attrs.frozen
class Damage:
    """Damage to a file: a bit of it is flipped, it is truncated, or, with neither, removed."""

    file: str
    at: int = 0
    bit: int | None = None
    cut: bool = False

    def of(self, data: bytes) -> bytes | None:
        if self.bit is not None:
            return data[: self.at] + bytes([data[self.at] ^ (1 << self.bit)]) + data[self.at + 1 :]
        return data[: self.at] if self.cut else None


def damages(tree: Tree, random: Random, each: int) -> list[Damage]:
    """Damage to each file: up to `each` flipped bits for each class of positions, three truncations, and the
    removal."""
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
    """The positions of a file by what is there: in a Parquet file the magic bytes, the pages, the footer and its
    length; in a text the digits, letters, blanks, each quote or bracket, and others; each at the beginning, in the
    middle and at the end."""
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


# --- the files that are damaged -----------------------------------------------------------------


@attrs.frozen
class Left:
    """The files that a stream has left behind, and the answers that are expected after its next start."""

    stream: Stream
    tree: Tree
    expected: Mapping[str, Any]
    rests: frozenset[str]
    """The files that the next start reads, or compares with what was published."""
    copies: frozenset[str]
    """The copies of data files, all of which `verify` checks."""
    table: Table | None = None
    """A table that the stream also writes to."""

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
        """Damages a file, starts the stream again, and restores everything.

        Raises: AssertionError where damage that matters is not reported, a message does not name the file, or an answer
        is wrong.
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
        # Without the file that names the last manifest, that manifest counts all the same.
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
        # A published batch that is damaged is not repaired; all others have to be right.
        shutil.rmtree(self.stream.out / batch, ignore_errors=True)
        found = self.stream.answers()
        assert {*self.expected} - {*found} <= {batch}, (damage, sorted(found))
        wrong = [name for name, rows in self.expected.items() if name != batch and found[name] != rows]
        assert not wrong, (damage, wrong)

    def _started(self) -> tuple[list[str], UserError | EngineError | None]:
        """Starts the stream; returns the warnings that it logs, and the error that ends it."""
        with warnings() as said:
            try:
                self.stream.run(Counting())
            except (UserError, EngineError) as error:
                return said, error
        return said, None

    def _verified(self) -> list[str]:
        """The faults that `mrql checkpoint verify` finds."""
        try:
            return list(faults(self.stream.checkpoint, committed(self.stream.checkpoint)))
        except MrqlError as error:
            return [str(error)]


class Table(Protocol):
    """A table that a stream also writes to, with a saved copy."""

    def rows(self) -> list[tuple[object, ...]]:
        """The rows of the table."""

    def put_back(self) -> None:
        """Restores the table from its copy."""

    def drop(self) -> None:
        """Removes the table and its copy."""


@attrs.frozen
class PostgresqlTable:
    """A table of PostgreSQL with a saved copy, and the number of the last batch in it."""

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
    """A table of Delta Lake with a saved copy."""

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
    """The files that a stream has written below a directory: its checkpoint, output and quarantine."""
    places = (home / name for name in ("checkpoint", "out", "kept"))
    files = (file for place in places for file in sorted(place.rglob("*")) if file.is_file())
    return {str(file.relative_to(home)): file.read_bytes() for file in files if file.name != "lock"}


def put_back(home: Path, tree: Tree) -> None:
    """Restores the checkpoint, output and quarantine to the files of `tree`."""
    for name in ("checkpoint", "out", "kept"):
        shutil.rmtree(home / name, ignore_errors=True)
    for file, data in tree.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_bytes(data)


@contextmanager
def warnings() -> Iterator[list[str]]:
    """Collects the messages that are logged as warnings in a block."""
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


# --- streams that have left files ---------------------------------------------------------------


def stopped(home: Path, engine: str = "reference", spark: SparkSession | None = None) -> Left:
    """A stream that was stopped after some batches, with runs of changes, ledgers, and malformed rows; another batch
    waits."""
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
    """A stream that died between a commit and the publication of its output."""
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
    """A stream with a file that was changed after it was read: its old rows are deleted again, as read from the
    copy."""
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
    """A stream that died between its commit and that of the database: the changes wait in the outbox."""
    stream = Stream(home, address=server.address(name := f"t{secrets.token_hex(4)}"))
    left = _died_before(TableSink, "committed", stream)
    table = PostgresqlTable(server, name, 1)
    table.save()
    return attrs.evolve(left, table=table)


def undelivered_to_delta(home: Path) -> Left:
    """The same with a table of Delta Lake, whose changes wait in Parquet files."""
    left = _died_before(AnswerTable, "commit", Stream(home, address=f"delta://{home}/t"))
    table = DeltaTable(home / "t")
    table.save()
    return attrs.evolve(left, table=table)


def _died_before(owner: type, name: str, stream: Stream) -> Left:
    """A stream that died before the third call of the method that commits to its table."""
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
