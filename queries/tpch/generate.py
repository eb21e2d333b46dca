"""Data like that of TPC-H for the queries in this directory, with insertions and deletions.

    python queries/tpch/generate.py DIR --orders 1000 --seed 7
    mrql run queries/tpch/q03.mrql --data DIR
    mrql stream queries/tpch/q03.mrql --data DIR --once --max-files 6

The tables have the names and the columns of TPC-H, one row per line, with fields separated by `|`. The values are a few
of TPC-H's, including those that the queries ask for, so that a few hundred orders give every query an answer.

Each table but `nation` and `region` is a directory of files, one for each batch that inserts rows into it, and has a
second directory for deleted rows, such as `orders-deleted` beside `orders`. Customers, parts and suppliers are inserted
in all batches, some after the orders that refer to them, and some line items after their order. Orders are deleted with
their line items, rows of all tables also alone, and about half of the deleted rows are inserted again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import click

Row = tuple[int | float | str, ...]

COLUMNS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey", "r_name", "r_comment"),
    "nation": ("n_nationkey", "n_name", "n_regionkey", "n_comment"),
    "supplier": ("s_suppkey", "s_name", "s_address", "s_nationkey", "s_phone", "s_acctbal", "s_comment"),
    "part": (
        "p_partkey", "p_name", "p_mfgr", "p_brand", "p_type", "p_size", "p_container", "p_retailprice", "p_comment",
    ),
    "partsupp": ("ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost", "ps_comment"),
    "customer": (
        "c_custkey", "c_name", "c_address", "c_nationkey", "c_phone", "c_acctbal", "c_mktsegment", "c_comment",
    ),
    "orders": (
        "o_orderkey", "o_custkey", "o_orderstatus", "o_totalprice", "o_orderdate", "o_orderpriority", "o_clerk",
        "o_shippriority", "o_comment",
    ),
    "lineitem": (
        "l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_tax",
        "l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate", "l_shipinstruct", "l_shipmode",
        "l_comment",
    ),
}  # fmt: skip
"""The columns of each table, in the order of TPC-H."""

STATIC = ("region", "nation")
"""The tables that no batch changes: a directory with one file each."""
TABLES = tuple(table for table in COLUMNS if table not in STATIC)
"""The tables with insertions and deletions."""

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = {
    2: ("BRAZIL", "AMERICA"),
    3: ("CANADA", "AMERICA"),
    6: ("FRANCE", "EUROPE"),
    7: ("GERMANY", "EUROPE"),
    8: ("INDIA", "ASIA"),
    20: ("SAUDI ARABIA", "MIDDLE EAST"),
}
"""The name and the region of nations, by their key in TPC-H."""
SEGMENTS = ("BUILDING", "FURNITURE", "MACHINERY")
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
CONTAINERS = ("SM BOX", "MED BOX", "LG PKG")
KINDS = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED BRASS", "MEDIUM POLISHED BRASS", "PROMO PLATED TIN")
PART_SIZES = (3, 9, 15)
COLOURS = ("almond", "forest", "green", "ivory")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
MODES = ("AIR", "MAIL", "SHIP", "TRUCK")
INSTRUCTIONS = ("DELIVER IN PERSON", "NONE")
REMARKS = (
    "no remarks",
    "call first",
    "special requests",
    "requests of a special kind",
    "special packages, no requests",
)
OF_SUPPLIERS = ("no remarks", "quick", "friendly", "careful", "Customer after customer: Complaints")

FIRST_DAY, DAYS = date(1993, 7, 1), 1000
"""The first day of orders, and the number of days on which they are placed."""
LAST_DAYS, LATER = date(1998, 7, 1), 0.05
"""The first of thirty later days, and the share of the orders that are placed on these instead."""
TODAY = date(1995, 6, 17)
"""Items received by this day are marked as returned or accepted; items shipped after it are still open."""
LARGE = 0.07
"""The share of orders with seven items in large quantities."""


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """The numbers of rows of the tables: in about the proportions of TPC-H, but not below a minimum."""

    orders: int

    @property
    def customers(self) -> int:
        return max(30, self.orders // 10)

    @property
    def parts(self) -> int:
        return max(24, self.orders // 8)

    @property
    def suppliers(self) -> int:
        return max(12, self.orders // 150)


def regions() -> list[Row]:
    """The regions."""
    return [(key, name, REMARKS[0]) for key, name in enumerate(REGIONS)]


def nations() -> list[Row]:
    """The nations, with the keys of their regions."""
    return [(key, name, REGIONS.index(region), REMARKS[0]) for key, (name, region) in NATIONS.items()]


def _suppliers(rng: random.Random, count: int) -> list[Row]:
    return [
        (
            key,
            f"supplier {key}",
            f"street {key}",
            _nation(key),
            _phone(rng, _nation(key)),
            _cents(rng, 0, 900_000),
            OF_SUPPLIERS[key // len(NATIONS) % len(OF_SUPPLIERS)],
        )
        for key in range(1, count + 1)
    ]


def _nation(key: int) -> int:
    """The nation of a key. Nations take turns, so that even a few suppliers cover all of them."""
    return tuple(NATIONS)[key % len(NATIONS)]


def _parts(rng: random.Random, count: int) -> list[Row]:
    # Every brand comes in every container.
    return [
        (
            key,
            " ".join(rng.sample(COLOURS, 2)),
            f"maker {key % 4}",
            BRANDS[key % len(BRANDS)],
            rng.choice(KINDS),
            rng.choice(PART_SIZES),
            CONTAINERS[key // len(BRANDS) % len(CONTAINERS)],
            _cents(rng, 90_000, 200_000),
            REMARKS[0],
        )
        for key in range(1, count + 1)
    ]


def _sellers(part: int, suppliers: int) -> list[int]:
    """The four suppliers of a part."""
    return [(part + i * (suppliers // 4)) % suppliers + 1 for i in range(4)]


def _stock(rng: random.Random, parts: int, suppliers: int) -> list[Row]:
    return [
        (part, supplier, rng.randint(1, 100), _cents(rng, 100, 100_000), REMARKS[0])
        for part in range(1, parts + 1)
        for supplier in _sellers(part, suppliers)
    ]


def _customers(rng: random.Random, count: int) -> list[Row]:
    return [
        (
            key,
            f"customer {key}",
            f"road {key}",
            _nation(key),
            _phone(rng, _nation(key)),
            _cents(rng, -90_000, 900_000),
            rng.choice(SEGMENTS),
            rng.choice(REMARKS),
        )
        for key in range(1, count + 1)
    ]


@dataclass(frozen=True)
class Order:
    """An order with its line items."""

    row: Row
    items: tuple[Row, ...]


def _order(rng: random.Random, key: int, sizes: Sizes, parts: Sequence[Row]) -> Order:
    day = (
        LAST_DAYS + timedelta(rng.randrange(30)) if rng.random() < LATER else FIRST_DAY + timedelta(rng.randrange(DAYS))
    )
    large = rng.random() < LARGE
    count = 7 if large else rng.randint(1, 7)
    items = tuple(_item(rng, key, number, day, sizes, parts, large) for number in range(1, count + 1))
    total = round(sum(_number(row[5]) * (1 - _number(row[6])) * (1 + _number(row[7])) for row in items), 2)
    states = {str(row[9]) for row in items}
    # A third of the customers never place an order.
    buyer = rng.randrange(sizes.customers * 2 // 3) * 3 // 2 + 1
    row = (
        key,
        buyer,
        states.pop() if len(states) == 1 else "P",
        total,
        day.isoformat(),
        rng.choice(PRIORITIES),
        f"clerk {rng.randint(1, 9)}",
        0,
        rng.choice(REMARKS),
    )
    return Order(row, items)


def _item(
    rng: random.Random, order: int, number: int, ordered: date, sizes: Sizes, parts: Sequence[Row], large: bool
) -> Row:
    part = rng.choice(parts)
    quantity = rng.randint(43 if large else 1, 50)
    shipped = ordered + timedelta(rng.randint(1, 120))
    committed = ordered + timedelta(rng.randint(30, 90))
    received = shipped + timedelta(rng.randint(1, 30))
    return (
        order,
        part[0],
        rng.choice(_sellers(int(part[0]), sizes.suppliers)),
        number,
        float(quantity),
        round(quantity * _number(part[7]), 2),
        rng.randint(0, 10) / 100,
        rng.randint(0, 8) / 100,
        rng.choice("RA") if received <= TODAY else "N",
        "O" if shipped > TODAY else "F",
        shipped.isoformat(),
        committed.isoformat(),
        received.isoformat(),
        rng.choice(INSTRUCTIONS),
        rng.choice(MODES),
        rng.choice(REMARKS),
    )


def _cents(rng: random.Random, low: int, high: int) -> float:
    return rng.randint(low, high) / 100


def _phone(rng: random.Random, nation: int) -> str:
    return f"{nation + 10}-{rng.randint(100, 999)}-{rng.randint(1000, 9999)}"


def _number(value: int | float | str) -> float:
    return float(value)


# --- batches ------------------------------------------------------------------------------------


@dataclass
class Batch:
    """The rows that a batch inserts and deletes, by table."""

    inserted: dict[str, list[Row]] = field(default_factory=dict)
    deleted: dict[str, list[Row]] = field(default_factory=dict)

    def insert(self, table: str, rows: Iterable[Row]) -> None:
        self.inserted.setdefault(table, []).extend(rows)

    def delete(self, table: str, rows: Iterable[Row]) -> None:
        self.deleted.setdefault(table, []).extend(rows)


LATE = 0.1
"""The share of line items that are inserted a batch later than their order."""
LEAVING = {"supplier": 0.06, "part": 0.06, "partsupp": 0.04, "customer": 0.06, "orders": 0.06, "lineitem": 0.02}
"""The share of the present rows that a batch deletes; line items are also deleted with their orders."""
RETURNING = 0.5
"""The share of the deleted rows that the next batch inserts again."""


def history(orders: int, seed: int, batches: int = 10) -> list[Batch]:
    """The batches of the data. The same arguments give the same rows."""
    rng = random.Random(f"tpch {orders} {seed} {batches}")
    sizes = Sizes(orders)
    parts = _parts(rng, sizes.parts)
    all_orders = [_order(rng, key, sizes, parts) for key in range(1, orders + 1)]
    result = [Batch() for _ in range(batches)]
    _spread(rng, result, "supplier", _suppliers(rng, sizes.suppliers))
    _spread(rng, result, "part", parts)
    _spread(rng, result, "partsupp", _stock(rng, sizes.parts, sizes.suppliers))
    _spread(rng, result, "customer", _customers(rng, sizes.customers))
    _place_orders(rng, result, all_orders)
    _take_away(rng, result)
    return result


def _spread(rng: random.Random, batches: Sequence[Batch], table: str, rows: Iterable[Row]) -> None:
    """Inserts about half of the rows in the first batch, the others in random batches."""
    for row in rows:
        batch = batches[0] if rng.random() < 0.5 else rng.choice(batches)
        batch.insert(table, [row])


def _place_orders(rng: random.Random, batches: Sequence[Batch], orders: Sequence[Order]) -> None:
    """Inserts an equal share of the orders in each batch; some line items follow a batch later."""
    last = len(batches) - 1
    for n, order in enumerate(orders):
        now = n * len(batches) // len(orders)
        batches[now].insert("orders", [order.row])
        for item in order.items:
            batches[min(now + 1, last) if rng.random() < LATE else now].insert("lineitem", [item])


def _take_away(rng: random.Random, batches: Sequence[Batch]) -> None:
    """Deletes rows in all batches, also rows inserted by the same batch, and inserts some of them again in the next."""
    held: dict[str, dict[Row, None]] = {table: {} for table in TABLES}
    returning: dict[str, list[Row]] = {}
    for batch in batches:
        for table, rows in returning.items():
            batch.insert(table, rows)
        for table, rows in batch.inserted.items():
            held[table].update(dict.fromkeys(rows))
        for table, rows in _leaving(rng, held).items():
            batch.delete(table, rows)
            for row in rows:
                del held[table][row]
        returning = {table: [row for row in rows if rng.random() < RETURNING] for table, rows in batch.deleted.items()}


def _leaving(rng: random.Random, held: Mapping[str, dict[Row, None]]) -> dict[str, list[Row]]:
    """Random rows to delete, with all line items of the orders among them."""
    leaving = {table: [row for row in rows if rng.random() < LEAVING[table]] for table, rows in held.items()}
    orders = {row[0] for row in leaving["orders"]}
    chosen = set(leaving["lineitem"])
    leaving["lineitem"] = [row for row in held["lineitem"] if row[0] in orders or row in chosen]
    return leaving


# --- files --------------------------------------------------------------------------------------


def write(directory: Path, batches: Sequence[Batch]) -> list[Path]:
    """Writes the files of all batches, each a second younger than the one before, and returns them in this order."""
    files: list[tuple[Path, Iterable[Row]]] = [
        (directory / "region" / "region.csv", regions()),
        (directory / "nation" / "nation.csv", nations()),
    ]
    for table in TABLES:
        for name in (table, f"{table}-deleted"):
            (directory / name).mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(batches):
        files += [(directory / table / f"{number:06}.csv", rows) for table, rows in batch.inserted.items()]
        files += [(directory / f"{table}-deleted" / f"{number:06}.csv", rows) for table, rows in batch.deleted.items()]
    written = [(path, rows) for path, rows in files if rows]
    first = time.time() - len(written)
    for age, (path, rows) in enumerate(written):
        _write(path, rows, first + age)
    return [path for path, _ in written]


def _write(path: Path, rows: Iterable[Row], modified: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join("|".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    os.utime(hidden, (modified, modified))
    hidden.replace(path)


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--orders", type=click.IntRange(1), default=1000, show_default=True, help="Orders in all batches.")
@click.option("--batches", type=click.IntRange(1), default=10, show_default=True, help="Batches that they come in.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same rows.")
def main(directory: Path, orders: int, batches: int, seed: int) -> None:
    """Writes data for the queries into DIRECTORY."""
    if directory.exists() and any(directory.iterdir()):
        raise click.UsageError(f"{directory} is not empty")
    arrived = history(orders, seed, batches)
    written = write(directory, arrived)
    come = sum(len(rows) for batch in arrived for rows in batch.inserted.values())
    gone = sum(len(rows) for batch in arrived for rows in batch.deleted.values())
    click.echo(f"{len(written)} files in {directory}: {come:,} rows come, {gone:,} go")


if __name__ == "__main__":
    main()
