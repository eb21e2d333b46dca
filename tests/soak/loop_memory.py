"""The memory that batches of a loop leave in use in the driver: `python -m tests.soak.loop_memory --batches 200`.

A window of edges moves on with each batch, so that the states always have the same size: growth is a leak.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence

import attrs
import click
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Value, close
from mrql.api import Loop
from mrql.runtime.spark import jvm
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe

HOPS = """
repeat known = {(0, 0)}
  step select (n, min(d)) from (n, d) in (known union (select (b, d + 1) from (a, d) in known, (c, b) in E where a = c))
       group by n
"""
RANKS = """
repeat ranks = {(0, 1.0)}
  step select (n, 0.15 + 0.85 * sum(r))
       from (n, r) in ({(0, 1.0)} union (select (b, r / 2) from (a, r) in ranks, (c, b) in E where a = c))
       group by n
  limit 4
"""
EDGE = parse_type("{(int, int)}")
WINDOW = 4
"""The number of batches whose edges are there at a time."""


@attrs.frozen
class Looping:
    """A loop whose value is known."""

    text: str
    origin: Value
    near: Value
    far: Value
    """The values of node 0, of each node that an edge leads to from there, and of each that one leads to from those."""
    epsilon: float | None = None
    """The threshold up to which changes are withheld."""

    def value(self, number: int) -> Bag:
        """The value of the loop after a batch."""
        there = [node for n in range(max(0, number - WINDOW + 1), number + 1) for _, node in edges(n)]
        return Bag([(0, self.origin), *((node, self.far if node % 2 else self.near) for node in there)])


DISTANCES = Looping(HOPS, 0, 1, 2)
RANKED = Looping(RANKS, 1.0, 0.575, 0.394375, epsilon=0.001)

WAYS: Mapping[Loop, Looping] = {
    "fixpoint": DISTANCES,
    "recompute": DISTANCES,
    "diffuse": RANKED,
    "exact": RANKED,
}

RDDS = 3
"""The most RDDs that may be added from the second third of the samples to the last: runs of states are merged only now
and then."""
MEGABYTES = 0.05
"""The most megabytes of the heap that a batch may leave in use."""
COLLECTIONS = 4
"""The number of collections of garbage: Java's serial collector compacts the whole heap each fourth time. Otherwise it
leaves some garbage where it is: up to a twentieth of the space for old objects, 20 MB here."""


@attrs.frozen
class Sample:
    """The RDDs that are persisted after a batch, and the megabytes of the heap in use after a collection."""

    batch: int
    rdds: int
    megabytes: float

    def __str__(self) -> str:
        return f"batch {self.batch}: {self.rdds} RDDs, {self.megabytes:.1f} MB"


def samples(spark: SparkSession, way: Loop, batches: int, every: int) -> Iterator[Sample]:
    """Keeps the loop up to date over so many batches, and checks its value and takes a sample after each `every` of
    them."""
    loop = WAYS[way]
    query = mrql.compile(loop.text, E="bag((int, int))")
    before = jvm.persistent_rdds(spark)
    with query.view(spark, loop=way, epsilon=loop.epsilon) as view:
        for number in range(batches):
            new, old = (to_dataframe(spark, edges(n), EDGE) for n in (number, number - WINDOW))
            view.apply(E=mrql.Delta(new, old if number >= WINDOW else None)).count()
            # The residual is computed when it is asked for, as commands do after each batch.
            assert view.residual is None or view.residual.change <= (loop.epsilon or 0)
            if number % every == every - 1:
                found, expected = collect_value(view.answer(), query.type), loop.value(number)
                assert close(found, expected), f"batch {number}: {found!r}, not {expected!r}"
                yield Sample(number + 1, jvm.persistent_rdds(spark) - before, heap(spark))
    assert jvm.persistent_rdds(spark) <= before


def edges(number: int) -> Bag:
    """The edges of a batch: one from node 0, and one from the node that it leads to."""
    near = 2 * (number % 1000) + 2
    ways: list[Value] = [(0, near), (near, near + 1)]
    return Bag(ways)


def heap(spark: SparkSession) -> float:
    """The megabytes of the driver's heap that were in use at the end of the collection that left the fewest. The heap
    in use at present has also the buffers that threads have taken since, some of 10 MB."""
    gc.collect()  # Java can free what Python has released
    java = spark._jvm.java.lang
    left: list[int] = []
    for _ in range(COLLECTIONS):
        java.System.gc()
        pools = java.management.ManagementFactory.getMemoryPoolMXBeans()
        left.append(sum(pool.getCollectionUsage().getUsed() for pool in pools if pool.getType().name() == "HEAP"))
    return min(left) / 2**20


def growth(found: Sequence[Sample]) -> tuple[int, float]:
    """By how many RDDs the maximum of the last third of the samples exceeds that of the second, and how many megabytes
    are lost with each batch from the one to the other, at least.

    Spark's own caches go up and down by more than a third of the batches may lose. A leak raises the least and the most
    that is in use alike, so the smaller of the two increases counts.
    """
    third = len(found) // 3
    second, last = found[third : 2 * third], found[2 * third :]
    rdds = max(sample.rdds for sample in last) - max(sample.rdds for sample in second)
    megabytes = min(end(s.megabytes for s in last) - end(s.megabytes for s in second) for end in (min, max))
    return rdds, megabytes / (last[0].batch - second[0].batch)


def require_level(spark: SparkSession, way: Loop, batches: int, every: int) -> list[Sample]:
    """The samples of a loop.

    Raises: AssertionError where the RDDs or the heap in use grow by more than they may.
    """
    found = list(samples(spark, way, batches, every))
    rdds, megabytes = growth(found)
    seen = "\n".join(map(str, found))
    assert rdds <= RDDS, f"{way}: the number of RDDs is not level\n{seen}"
    assert megabytes <= MEGABYTES, f"{way}: {megabytes:.3f} MB are lost with each batch\n{seen}"
    return found


@click.command()
@click.option("--batches", type=click.IntRange(30), default=200, show_default=True)
@click.option("--loop", "ways", type=click.Choice([*WAYS]), multiple=True, help="One way alone; may be given again.")
def main(batches: int, ways: Sequence[Loop]) -> None:
    """Prints what is there after each tenth of the batches, for each way."""
    from tests.conftest import local_spark

    spark = local_spark()
    try:
        for way in ways or WAYS:
            click.echo(way)
            for sample in require_level(spark, way, batches, max(1, batches // 10)):
                click.echo(f"  {sample}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
