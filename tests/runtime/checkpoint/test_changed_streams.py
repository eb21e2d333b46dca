"""Streams whose rows are changes, as Debezium and Delta Lake write them: their effect is committed, and continued from
after a crash as after a stop."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from pyspark.sql import SparkSession

from mrql.algebra.values.values import Bag
from mrql.runtime.checkpoint import policy
from tests.runtime.checkpoint.crashes import is_whole
from tests.runtime.checkpoint.streams import Counting, Crash, Failing, Moment, Stream, write


@attrs.frozen
class Envelope:
    """A format of changes; changes by key have a version in a field of their rows."""

    name: str
    version: str | None = None

    @property
    def text(self) -> str:
        """A query over a stream of such changes."""
        fields, pattern, keyed = "id: long, city: string", "id: i, city: c", ""
        if self.version is not None:
            fields, pattern = f"{fields}, {self.version}: long", f"{pattern}, {self.version}: v"
            keyed = f", key(id), version({self.version})"
        source = f'stream(json, "log", type(<{fields}>), changes({self.name}){keyed})'
        return f"log = {source};\nselect (c, count(i), sum(i)) from <{pattern}> in log group by c;\n"

    def lines(self, before: Any, after: Any, version: int) -> list[Any]:
        """The lines for an update, insertion or deletion of a row."""
        kind = "u" if before and after else "c" if after else "d"
        if self.name == "delta":
            old = "update_preimage" if after else "delete"
            new = "update_postimage" if before else "insert"
            rows = [(before, old), (after, new)]
            return [{**row, "_change_type": kind, "_commit_version": version} for row, kind in rows if row]
        seen = None if self.version and kind == "u" else before
        change = {"op": kind, "before": seen, "after": after, "source": {"lsn": version}}
        return [{"schema": {}, "payload": change}, None] if kind == "d" else [change]


ENVELOPES: Mapping[str, Envelope] = {
    "debezium": Envelope("debezium"),
    "delta": Envelope("delta"),
    "debezium by key": Envelope("debezium", "__lsn"),
    "delta by key": Envelope("delta", "_commit_version"),
}


def fill_log(home: Path, envelope: Envelope, batches: int, random: Random) -> list[Bag]:
    """Writes a file of changes for each batch; returns the answers after them."""
    table: dict[int, str] = {}
    answers = []
    version = 0
    for number in range(batches):
        lines: list[Any] = []
        for _ in range(random.randint(1, 6)):
            version += 1
            key = random.randrange(8)
            city = random.choice(["Rome", "Oslo", "Bern", None])
            before = {"id": key, "city": table[key]} if key in table else None
            after = {"id": key, "city": city} if before is None or random.random() < 0.6 else None
            lines += envelope.lines(before, after, version)
            if after is None:
                del table[key]
            else:
                table[key] = city
        write(home / "log" / f"{number:04d}.json", "".join(f"{json.dumps(line)}\n" for line in lines), number)
        counts, sums = Counter(table.values()), Counter[Any]()
        for key, city in table.items():
            sums[city] += key
        answers.append(Bag((city, count, sums[city]) for city, count in counts.items()))
    return answers


@pytest.mark.parametrize("name", ENVELOPES)
@pytest.mark.parametrize("seed", range(3))
def test_each_batch_is_there_once(tmp_path: Path, name: str, seed: int) -> None:
    """A stream that is restarted for each file has the answers of an uninterrupted one, and of the table itself."""
    expected = fill_log(tmp_path, ENVELOPES[name], 8, Random(seed))
    assert [*Stream(tmp_path, ENVELOPES[name].text).uninterrupted().values()] == expected
    assert_restarts(tmp_path, Stream(tmp_path, ENVELOPES[name].text), expected)


@pytest.mark.wide(keep=2)
@pytest.mark.spark
@pytest.mark.parametrize("name", ["debezium", "delta by key"])
def test_each_batch_is_there_once_on_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    expected = fill_log(tmp_path, ENVELOPES[name], 3, Random(1))
    assert_restarts(tmp_path, Stream(tmp_path, ENVELOPES[name].text, "spark", spark=spark), expected)


def assert_restarts(home: Path, stream: Stream, expected: list[Bag]) -> None:
    """Lets the files arrive one by one, starts the stream for each, and compares its answers with `expected`."""
    files = sorted((home / "log").iterdir())
    (home / "later").mkdir()
    waiting = [file.rename(home / "later" / file.name) for file in files]
    for number, (file, kept) in enumerate(zip(files, waiting, strict=True)):
        kept.rename(file)
        attrs.evolve(stream).run()
        assert [*stream.answers().values()] == expected[: number + 1]
        assert is_whole(stream)


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_crash_anywhere(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash or a power failure at a file operation, the next start publishes every batch, each once."""
    monkeypatch.setattr(policy, "REWRITTEN_WHOLE_MAX_ROWS", 0)
    expected = fill_log(tmp_path, ENVELOPES[name], 4, Random(9))
    stream = Stream(tmp_path, ENVELOPES[name].text)
    counting = Counting()
    stream.run(counting)
    assert [*stream.answers().values()] == expected
    moments = [Moment.BEFORE, Moment.HALF, Moment.POWER]
    for turn, at in enumerate(range(2, counting.count + 1, 5)):
        stream.clear()
        with pytest.raises(Crash):
            stream.run(Failing(at=at, moment=moments[turn % len(moments)]))
        assert [*stream.answers().values()] == expected[: len(stream.answers())], at
        stream.run()
        assert [*stream.answers().values()] == expected, at
        assert is_whole(stream)
