"""Shared by the tests of a process: a Spark session, started by the first that needs one, and how cases are generated.

The same cases are generated in every run, so that failures are repeatable. `pytest --hypothesis-profile=explore`
generates new ones.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from mrql.runtime.spark.session import class_archive
from tests.support.partitions import DRAWN, states
from tests.support.postgresql import MISSING, Server, binaries
from tests.support.spark_settings import COMPILED, interpreted

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile("repeatable")

# The processes that tests start inherit it. A directory of settings would keep them from sharing classes.
PROPERTIES = Path(__file__).parent / "spark" / "spark-defaults.conf"
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--properties-file {shlex.quote(str(PROPERTIES))} pyspark-shell")
# Modules that one process has compiled are there for the next, and for the next run, whatever the environment says: to
# compile them takes as long as everything else at the start of a command.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ.setdefault(class_archive.SWITCH, str(Path(__file__).parent.parent / ".pytest_cache" / "classes"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves most of the wide tests to `make soak`: of the cases of a test with `keep`, each `keep`-th in either engine
    is kept, and of the others none. Tests that are selected by name or mark are all kept."""
    if config.option.keyword or config.option.markexpr or any("::" in each for each in config.args):
        return
    seen: Counter[tuple[str, bool]] = Counter()
    kept, left = [], []
    for item in items:
        wide = item.get_closest_marker("wide")
        test = item.nodeid.partition("[")[0], item.get_closest_marker("spark") is not None
        keep = 1 if wide is None else wide.kwargs.get("keep")
        (kept if keep and seen[test] % keep == 0 else left).append(item)
        seen[test] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_collection_finish() -> None:
    """Objects that exist before the first test (the test runner, the modules) are never garbage.

    Deep texts make hundreds of thousands of objects, and the collector would look at all others each time. Terms and
    values have no cycles: to look for them after each 700 objects takes a sixth of the time of planning.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def local_spark(plans: Mapping[str, str] = COMPILED) -> SparkSession:
    """A local session with two cores and two shuffle partitions; its plans are compiled as in a program, or not."""
    from mrql.runtime.spark.session.session import local_session

    # As in `tests/spark`. Without the second compiler there is little room for the machine code that the first one
    # makes of generated code. Nearly all objects are garbage after a job: with room for more, collections are few.
    trusting = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    young = f"{trusting} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=512m -Xms1g -Xmn640m"
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": young,
        **plans,
    }
    return local_session("local[2]", conf)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a third of the tests each with states in one partition, in several, or in several once they have grown: a
    test has the same in every run, unless a mark says which."""
    asked = item.get_closest_marker("partitions")
    how = asked.args[0] if asked else DRAWN[crc32(item.nodeid.encode()) % len(DRAWN)]
    with states(how):
        return (yield)


@pytest.fixture(scope="session")
def compiled_spark() -> Iterator[SparkSession]:
    """The session that all tests share, as in a program: plans are compiled to Java code."""
    session = local_spark()
    yield session
    session.stop()


@pytest.fixture
def spark(compiled_spark: SparkSession) -> Iterator[SparkSession]:
    """The same session, for tests over a handful of rows: no code is generated, since compiling it takes longer."""
    with interpreted(compiled_spark):
        yield compiled_spark


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL that all tests of a process share, each with tables of its own."""
    if binaries() is None:
        pytest.skip(MISSING)
    server = Server.start()
    yield server
    server.stop()
