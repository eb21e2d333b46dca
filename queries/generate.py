"""Data for the queries in this directory.

    python queries/generate.py join_groupby DIR --files 6 --rows 10000 --seed 1
    mrql stream queries/join_groupby.mrql --data DIR --once --max-files 1 --output OUT

Each stream is a directory of files. The files of a query's streams take turns in age: the first of one stream, the
first of the next, the second of the first one, and so on. If few files are taken at a time, the partners of a join
arrive in different batches, sometimes the left one first and sometimes the right one.

A file is written under a name that begins with `.`, which nothing reads, and renamed when it is complete. A second run
adds files to those that are there; with `--pause` they are added one at a time, as from a live source.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

BELOW = 10_000
"""The integers of the paper's data sets are below this one."""

COUNTRIES = ("AT", "BR", "CA", "DE", "ES", "FI", "GR", "IN", "JP", "KE", "MX", "NZ")


@dataclass(frozen=True)
class Part:
    """The part of a stream in one file: the rows of a range of numbers.

    `rows` is the number of rows in a file of the query's largest stream; a stream may have `1 / share` of that.
    """

    number: int
    files: int
    rows: int

    def ids(self, share: int = 1) -> range:
        """The numbers of this file's rows."""
        size = max(1, self.rows // share)
        return range(self.number * size, (self.number + 1) * size)

    def all_ids(self, share: int = 1) -> range:
        """The numbers of the rows of all files, including those that come later."""
        return range(self.files * max(1, self.rows // share))


Rows = Callable[[random.Random, Part], Iterator[str]]


@dataclass(frozen=True)
class Stream:
    """A directory of files, and the function that makes their rows."""

    name: str
    suffix: str
    rows: Rows


def pairs(rng: random.Random, part: Part) -> Iterator[str]:
    """Pairs of random integers."""
    for _ in part.ids():
        yield f"{rng.randrange(BELOW)},{rng.randrange(BELOW)}"


CUSTOMER_SHARE = 10
"""The number of rows of the largest stream per customer."""
ORDER_SHARE = 3


def customers(rng: random.Random, part: Part) -> Iterator[str]:
    """Customers with a country."""
    for i in part.ids(CUSTOMER_SHARE):
        yield f"{i},{rng.choice(COUNTRIES)}"


def orders(rng: random.Random, part: Part) -> Iterator[str]:
    """Orders of customers, some of whom arrive later."""
    for i in part.ids(ORDER_SHARE):
        yield f"{i},{rng.choice(part.all_ids(CUSTOMER_SHARE))},{rng.randint(2021, 2025)}"


def items(rng: random.Random, part: Part) -> Iterator[str]:
    """Items of orders, some of which arrive later."""
    for _ in part.ids():
        yield f"{rng.choice(part.all_ids(ORDER_SHARE))},{rng.randint(100, 10_000)},{rng.randint(1, 5)}"


def customers_with_limits(rng: random.Random, part: Part) -> Iterator[str]:
    """Customers with a name, a country and a limit that about half of them exceed."""
    for i in part.ids(CUSTOMER_SHARE):
        yield f"{i},customer {i},{rng.choice(COUNTRIES)},{rng.randint(100_000, 700_000)}"


def nested_orders(rng: random.Random, part: Part) -> Iterator[str]:
    """Orders with their nested lines."""
    for _ in part.ids():
        lines = [
            {
                "product": f"product {rng.randint(1, 99)}",
                "cents": rng.randint(100, 10_000),
                "quantity": rng.randint(1, 5),
            }
            for _ in range(rng.randint(1, 4))
        ]
        yield json.dumps({"customer": rng.choice(part.all_ids(CUSTOMER_SHARE)), "lines": lines})


def houses(rng: random.Random, part: Part) -> Iterator[str]:
    """Houses with a district and an area."""
    for i in part.ids(CUSTOMER_SHARE):
        yield f"{i},{rng.choice(COUNTRIES)},{rng.randint(40, 250)}"


def sales(rng: random.Random, part: Part) -> Iterator[str]:
    """Sales of houses, with a price."""
    for _ in part.ids():
        yield f"{rng.choice(part.all_ids(CUSTOMER_SHARE))},{rng.randint(1_000, 9_000) * 100}"


DISTRICT_SHARE, CITY_SHARE, REGION_SHARE = 50, 200, 1000
ANNULLED = 10
"""One in this many sales is annulled, in the file after its own."""


def regions(rng: random.Random, part: Part) -> Iterator[str]:
    """Regions with a name."""
    for i in part.ids(REGION_SHARE):
        yield f"+,{i},region {i}"


def cities(rng: random.Random, part: Part) -> Iterator[str]:
    """Cities of regions, some of which arrive later."""
    for i in part.ids(CITY_SHARE):
        yield f"+,{i},{rng.choice(part.all_ids(REGION_SHARE))}"


def districts(rng: random.Random, part: Part) -> Iterator[str]:
    """Districts of cities, some of which arrive later, with an income in thousands."""
    for i in part.ids(DISTRICT_SHARE):
        yield f"+,{i},{rng.choice(part.all_ids(CITY_SHARE))},{_income(i)}"


def houses_in_districts(rng: random.Random, part: Part) -> Iterator[str]:
    """Houses with a district and an area."""
    for i in part.ids(CUSTOMER_SHARE):
        yield f"+,{i},{_district(i, part)},{_area(i)}"


def annulled_sales(rng: random.Random, part: Part) -> Iterator[str]:
    """Sales of houses, at about 3,000 per square metre plus 2,000 per thousand of income; some are annulled."""
    for i in part.ids():
        yield f"+,{_sale(i, part)}"
    if part.number:
        before = Part(part.number - 1, part.files, part.rows)
        for i in (i for i in before.ids() if i % ANNULLED == 0):
            yield f"-,{_sale(i, before)}"


def _sale(number: int, part: Part) -> str:
    """A sale of one of the houses so far; it does not depend on the number of files that follow."""
    rng = random.Random(number)
    house = number % part.ids(CUSTOMER_SHARE).stop
    price = 3_000 * _area(house) + 2_000 * _income(_district(house, part)) + rng.randint(-20_000, 20_000)
    return f"{house},{price}"


def _area(house: int) -> int:
    return 40 + house * 37 % 211


def _district(house: int, part: Part) -> int:
    """One of the districts that have arrived with the file of the house or before it."""
    file = house // len(part.ids(CUSTOMER_SHARE))
    return house * 13 % Part(file, part.files, part.rows).ids(DISTRICT_SHARE).stop


def _income(district: int) -> int:
    return 18 + district * 17 % 45


STREAMS: dict[str, tuple[Stream, ...]] = {
    "groupby": (Stream("points", "csv", pairs),),
    "join_groupby": (Stream("left", "csv", pairs), Stream("right", "csv", pairs)),
    "three_streams": (
        Stream("customers", "csv", customers),
        Stream("orders", "csv", orders),
        Stream("items", "csv", items),
    ),
    "least_squares": (Stream("houses", "csv", houses), Stream("sales", "csv", sales)),
    "price_model": (
        Stream("regions", "csv", regions),
        Stream("cities", "csv", cities),
        Stream("districts", "csv", districts),
        Stream("houses", "csv", houses_in_districts),
        Stream("sales", "csv", annulled_sales),
    ),
    "nested": (Stream("customers", "csv", customers_with_limits), Stream("orders", "json", nested_orders)),
}
"""The streams of each query, in the order in which their files take turns."""


def generate(query: str, directory: Path, files: int, rows: int, seed: int, pause: float = 0.0) -> list[Path]:
    """Writes `files` more files for each stream of a query, and returns all of them from the oldest to the newest."""
    streams = STREAMS[query]
    for stream in streams:
        (directory / stream.name).mkdir(parents=True, exist_ok=True)
    known = [path for stream in streams for path in (directory / stream.name).glob(f"*.{stream.suffix}")]
    first = len(known) // len(streams)
    oldest = _first_time(known, files * len(streams))
    written: list[Path] = []
    for number in range(first, first + files):
        for stream in streams:
            # Numbered across the streams, so that the names are in the order of age, too.
            name = f"{number * len(streams) + streams.index(stream):06}.{stream.suffix}"
            rng = random.Random(f"{seed} {query} {stream.name} {number}")
            lines = stream.rows(rng, Part(number, first + files, rows))
            if pause and written:
                time.sleep(pause)
            modified = time.time() if pause else oldest + len(written)
            written.append(_write(directory / stream.name / name, lines, modified))
    return written


def _first_time(known: list[Path], count: int) -> float:
    """The modification time of the first of `count` files a second apart: all are newer than those known, and the last
    is from now if that is possible."""
    newest = max((path.stat().st_mtime for path in known), default=0.0)
    return max(time.time() - count + 1, newest + 1)


def _write(path: Path, lines: Iterator[str], modified: float) -> Path:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    os.utime(hidden, (modified, modified))
    hidden.replace(path)
    return path


@click.command()
@click.argument("query", type=click.Choice(sorted(STREAMS)))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--files", type=click.IntRange(1), default=6, show_default=True, help="Files of each stream.")
@click.option("--rows", type=click.IntRange(1), default=10_000, show_default=True, help="Rows in a file.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same rows.")
@click.option("--pause", type=click.FloatRange(0), default=0.0, help="Seconds to wait before each further file.")
def main(query: str, directory: Path, files: int, rows: int, seed: int, pause: float) -> None:
    """Writes data for QUERY into DIRECTORY."""
    written = generate(query, directory, files, rows, seed, pause)
    click.echo(f"{len(written)} files in {directory}")


if __name__ == "__main__":
    main()
