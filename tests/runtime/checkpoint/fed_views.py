"""Views that are fed by a process that is killed: `python -m tests.runtime.checkpoint.fed_views HOME WAY`.

It opens the view of HOME again, gives it all batches from the first on, or follows what is in its directories, and
writes the changes of each batch to a file of its number.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.api import View
from tests.runtime.checkpoint.crashes import KilledProcess
from tests.support.spark_settings import INTERPRETED

QUERY = mrql.compile(
    "select (l.A, sum(r.D), max(r.D)) from l in left, r in right where l.B = r.C group by l.A",
    left="bag(<A: long, B: long>)",
    right="bag(<C: long, D: long>)",
)
SCHEMAS = {"left": "A long, B long", "right": "C long, D long"}

NUMBERED, FOLLOWED = "numbered", "followed"
"""The ways in which a view is fed: batches with their numbers, or streaming DataFrames."""

PATIENCE = 240
"""After so many seconds without an end a process hangs."""


def fill(home: Path, batches: int, random: Random) -> None:
    """A file of each stream for each batch."""
    for name in SCHEMAS:
        (home / name).mkdir()
        for number in range(batches):
            rows = (f"{random.randint(0, 9)},{random.randint(0, 9)}\n" for _ in range(random.randint(1, 30)))
            (home / name / f"{number:04d}.csv").write_text("".join(rows))


# --- the process that is killed -----------------------------------------------------------------


def delivered(home: Path, changes: DataFrame, number: int) -> None:
    """Writes the changes of a batch over what was written under its number."""
    file = home / "changes" / f"{number:06d}.json"
    file.parent.mkdir(exist_ok=True)
    aside = file.with_suffix(".aside")
    aside.write_text(json.dumps([list(row) for row in changes.collect()]))
    aside.rename(file)


def number_them(view: View, spark: SparkSession, home: Path) -> None:
    """Gives all batches, each with its number: the streams in turn."""
    for number, file in enumerate(sorted((home / "left").iterdir())):
        for name in SCHEMAS:
            rows = spark.read.schema(SCHEMAS[name]).csv(str(home / name / file.name))
            view.apply(offset=number, deliver=partial(delivered, home), **{name: rows})


def follow_them(view: View, spark: SparkSession, home: Path) -> None:
    """Follows the files, one a batch."""
    streams = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).csv(str(home / name))
        for name, schema in SCHEMAS.items()
    }
    view.follow(trigger={"availableNow": True}, deliver=partial(delivered, home), **streams).awaitTermination()


def feed(home: Path, way: str) -> None:
    """Opens the view, and gives it all that there is."""
    from tests.conftest import local_spark

    spark = local_spark(INTERPRETED)
    with QUERY.view(spark, checkpoint=home / "state") as view:
        {NUMBERED: number_them, FOLLOWED: follow_them}[way](view, spark, home)
    spark.stop()


# --- who kills it -------------------------------------------------------------------------------


@attrs.define
class KilledView(KilledProcess):
    """A process that feeds a view."""

    home: Path
    way: str

    patience = PATIENCE

    @property
    def directory(self) -> Path:
        return self.home / "state"

    @property
    def said(self) -> Path:
        return self.home / "stderr"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.runtime.checkpoint.fed_views", str(self.home), self.way]


def view_survives(spark: SparkSession, home: Path, way: str, random: Random, *, kills: int, delay: float) -> int:
    """Kills a process that feeds a view at random moments, and returns how often; all that was given counts once."""
    batches = random.randint(2, 4)
    fill(home, batches, random)
    killed = KilledView(random, delay, home, way).until_done(kills)
    rows = {name: spark.read.schema(schema).csv(str(home / name)) for name, schema in SCHEMAS.items()}
    expected = sorted(map(tuple, QUERY.batch(spark, **rows).collect()))
    with QUERY.view(spark, checkpoint=home / "state") as view:
        assert view.batches == 2 * batches
        assert sorted(map(tuple, view.answer().collect())) == expected
    files = sorted((home / "changes").glob("*.json"))
    assert [file.stem for file in files] == [f"{number:06d}" for number in range(2 * batches)]
    total: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in (row for file in files for row in json.loads(file.read_text())):
        total[tuple(row)] += weight
    assert sorted(row for row, weight in total.items() if weight) == expected
    assert {*total.values()} <= {0, 1}
    return killed


if __name__ == "__main__":
    feed(Path(sys.argv[1]), sys.argv[2])
