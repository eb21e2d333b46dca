"""Spark on other machines: the settings of a session there, its executors, and this package for Python on them."""

from __future__ import annotations

import importlib.util
import logging
import re
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from mrql.runtime.spark import jvm

logger = logging.getLogger(__name__)

SETTINGS: Mapping[str, str] = {
    # How long a task waits for the executor that has its rows. A batch has dozens of short stages, each of which would
    # wait for three seconds by Spark's default.
    "spark.locality.wait": "100ms",
    # An executor that is killed without notice is missed after this time, not after two minutes.
    "spark.network.timeout": "60s",
    "spark.executor.heartbeatInterval": "5s",
}
"""Settings of a session on a cluster, unless others are asked for."""

PATIENCE_SECONDS = 15.0
"""After this many seconds without an executor, a warning says that one is waited for."""
SETTLED_SECONDS = 1.0
"""When the number of executors has not changed for this many seconds, those present are taken to be all."""

SHIPPED = ("mrql", "attr", "attrs", "lark")
"""The package, and those of its imports that executors with PySpark and PyArrow need not have."""

_LOCAL = re.compile(r"local(\[.*\])?")
_SHIPPED: WeakSet[SparkContext] = WeakSet()
_SHIPPED_REMOTELY: WeakSet[SparkSession] = WeakSet()
"""The sessions of Spark Connect whose server has the package."""


def is_cluster(master: str | None) -> bool:
    """Whether a master has executors of its own.

    >>> is_cluster("local[4]"), is_cluster("local-cluster[2,1,2048]"), is_cluster("spark://host:7077")
    (False, True, True)
    """
    return master is not None and _LOCAL.fullmatch(master) is None


def wait_for_executors(spark: SparkSession) -> None:
    """Returns when there are executors: their number determines the number of partitions of states.

    Without any, Spark would wait as well, but silently.
    """
    start = last = time.monotonic()
    count, said = 0, False
    while not count or time.monotonic() - last < SETTLED_SECONDS:
        now = executors(spark)
        if now != count:
            count, last = now, time.monotonic()
        if not count and not said and time.monotonic() - start > PATIENCE_SECONDS:
            logger.warning("waiting for executors of %s", spark.sparkContext.master)
            said = True
        time.sleep(0.1)
    logger.debug("%d executors, %d cores", count, spark.sparkContext.defaultParallelism)


def executors(spark: SparkSession) -> int:
    """The number of executors."""
    # The driver keeps blocks, too, and so is counted with them.
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


# --- the package --------------------------------------------------------------------------------


def ship(spark: SparkSession) -> None:
    """Has the executors of a cluster import this version of the package, whatever is installed there; once for each
    context, or for each session of Spark Connect."""
    if jvm.is_remote(spark):
        if spark not in _SHIPPED_REMOTELY:
            spark.addArtifacts(str(_archive()), pyfile=True)
            _SHIPPED_REMOTELY.add(spark)
        return
    context = spark.sparkContext
    if context not in _SHIPPED and is_cluster(context.master):
        context.addPyFile(str(_archive()))
        _SHIPPED.add(context)


@lru_cache(maxsize=1)
def _archive() -> Path:
    """The packages in one archive, which exists as long as this process."""
    path = Path(_directory().name) / "mrql-package.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in SHIPPED:
            for file, inside in _files(name):
                archive.write(file, inside)
    return path


@lru_cache(maxsize=1)
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mrql-")


def _files(package: str) -> Iterator[tuple[Path, str]]:
    """The files of a package with their names in an archive. Parts of it may be links to directories elsewhere."""
    found = importlib.util.find_spec(package)
    assert found is not None
    assert found.origin is not None

    def below(directory: Path, inside: str) -> Iterator[tuple[Path, str]]:
        for path in sorted(directory.iterdir()):
            if path.is_dir() and path.name != "__pycache__":
                yield from below(path, f"{inside}/{path.name}")
            elif path.is_file():
                yield path, f"{inside}/{path.name}"

    yield from below(Path(found.origin).parent, package)
