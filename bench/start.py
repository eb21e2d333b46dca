"""Startup: a query over one megabyte from the command line, including the start of Spark.

It is compared with the same query as a program over DataFrames. Each run is a process of its own: Python, Java and
Spark start, the files are read, and the answer is printed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.outcome import Outcome, Target, check_rows

SOURCES = """
orders = source(csv, "orders.csv", ",", type(<id: long, customer: long, price: double>));
customers = source(csv, "customers.csv", ",", type(<id: long, nation: string>));
"""
PROGRAM = """
import json
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
orders = spark.read.schema("id long, customer long, price double").csv("orders.csv")
customers = spark.read.schema("id long, nation string").csv("customers.csv")
answer = {query}
print(json.dumps([list(row) for row in answer.collect()]))
"""


@dataclass(frozen=True)
class Case:
    """A query, and the same written with DataFrames."""

    query: str
    frames: str


CASES: Mapping[str, Case] = {
    "groups": Case(
        "select (g, sum(o.price), count(o)) from o in orders group by g: o.customer mod 50",
        'orders.groupBy((f.col("customer") % 50).alias("g")).agg(f.sum("price"), f.count("*"))',
    ),
    "a join": Case(
        "select (n, sum(o.price)) from o in orders, c in customers where o.customer = c.id group by n: c.nation",
        'orders.join(customers, orders.customer == customers.id).groupBy("nation").agg(f.sum("price"))',
    ),
    "the greatest ten": Case(
        "select (o.id, o.price) from o in orders order by o.price desc, o.id limit 10",
        'orders.orderBy(f.desc("price"), "id").limit(10).select("id", "price")',
    ),
}


@dataclass(frozen=True)
class Started:
    """The duration of a process, and the answer that it printed."""

    seconds: float
    answer: list[Sequence[Any]]


def _write(directory: Path, rows: int) -> None:
    """Writes the given number of orders, of about 25 bytes each, the customers, the queries and the programs."""
    draw = random.Random(7)
    lines = (f"{i},{draw.randrange(1000)},{draw.randrange(1_000_000) / 64}" for i in range(rows))
    (directory / "orders.csv").write_text("\n".join(lines) + "\n")
    nations = (f"{i},nation {i % 25}" for i in range(1000))
    (directory / "customers.csv").write_text("\n".join(nations) + "\n")
    for name, case in CASES.items():
        (directory / f"{name}.mrql").write_text(f"{SOURCES}{case.query};\n")
        (directory / f"{name}.py").write_text(PROGRAM.format(query=case.frames))


def _timed(command: Sequence[str], directory: Path, archive: str) -> Started:
    start = time.perf_counter()
    environment = {**os.environ, "MRQL_CLASS_ARCHIVE": archive}
    with tempfile.TemporaryFile() as said:
        ran = subprocess.run(
            command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=said, text=True, check=False
        )
        seconds = time.perf_counter() - start
        if ran.returncode:
            said.seek(0)
            raise RuntimeError(f"{command}: {said.read().decode(errors='replace')}")
    said_last = json.loads(ran.stdout.splitlines()[-1])
    return Started(seconds, said_last["value"] if isinstance(said_last, dict) else said_last)


def run_benchmark(quick: bool, directory: Path, rounds: int, report: Callable[[str], None]) -> Outcome:
    """Runs the contenders in turn, several times, after a first time that is not measured."""
    times = 2 if quick else 7 * rounds
    _write(directory, 40_000)
    archive = str(directory / "classes")
    lines = [
        "| one megabyte, from the command line | mrql run, s | without archived classes, s | DataFrames, s | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    ratios = []
    for name in CASES:
        report(name)
        ours = [sys.executable, "-m", "mrql", "run", f"{name}.mrql", "--format", "json"]
        contenders = {
            "ours": (ours, archive),
            "without": (ours, "off"),
            "frames": ([sys.executable, f"{name}.py"], "off"),
        }
        spent: dict[str, list[float]] = {contender: [] for contender in contenders}
        for turn in range(times + 1):
            answers = {}
            for contender, (command, place) in contenders.items():
                started = _timed(command, directory, place)
                answers[contender] = started.answer
                if turn:
                    spent[contender].append(started.seconds)
            check_rows(name, answers["ours"], answers["frames"])
        found = {contender: median(seconds) for contender, seconds in spent.items()}
        ratios.append(found["ours"] / found["frames"])
        shown = " | ".join(f"{found[contender]:.1f}" for contender in contenders)
        lines.append(f"| {name} | {shown} | {ratios[-1]:.2f} |")
    return Outcome(lines, [Target("a query over a megabyte in 1.3 times the time of DataFrames", max(ratios), 1.3)])
