"""Spark sessions: finding or starting one, and the settings that a step needs."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import IO, Any
from weakref import WeakKeyDictionary, WeakSet

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from mrql.runtime.spark import jvm
from mrql.runtime.spark.session import cluster
from mrql.runtime.spark.session.class_archive import with_class_archive
from mrql.runtime.spark.session.java import not_started, require_java

logger = logging.getLogger(__name__)

AS_WRITTEN: Mapping[str, str] = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
"""What keeps `${env:HOME}` in a query what it is, and fields that differ in case alone two fields; and by which strings
and names are what they are written as here. In a string the first is also written so that Spark sees no variable in it;
for names there is no other way."""

MEANING: Mapping[str, str] = {
    # Integer overflow and division by zero are errors.
    "spark.sql.ansi.enabled": "true",
    # Timestamps are those of UTC, whatever the zone of the session is.
    "spark.sql.session.timeZone": "UTC",
    # Of how many digits a decimal is that is computed.
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Of which types an array without elements, and a timestamp, are.
    "spark.sql.legacy.createEmptyCollectionUsingStringType": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Spark would put values of the environment for what looks like a variable, in constants and in names as well.
    **AS_WRITTEN,
}
"""What the meaning of an expression rests on when it is analysed. What counts when it is computed is not here: that is
for the frames that a program hands over, too, and so no expression of ours rests on it."""

STEP_SETTINGS: Mapping[str, str] = {
    **MEANING,
    # Adaptive execution plans again between stages, and puts an Exchange above the state.
    "spark.sql.adaptive.enabled": "false",
    # A union of runs that are partitioned alike is partitioned alike (Spark ≥ 4.1).
    "spark.sql.unionOutputPartitioning": "true",
    # Small files are read by all cores, of each about as much.
    "spark.sql.files.openCostInBytes": "8192",
    # A plan that is used again is copied, and a copy of an exchange that stands for another would still mean that one.
    "spark.sql.exchange.reuse": "false",
    # What a plan does with a partition is handed over as an object: a closure is searched for what it holds on to, each
    # time that a plan is used again, and that takes a third of the time to set a plan up.
    "spark.sql.execution.usePartitionEvaluator": "true",
    # It is computed for every plan, takes as long as the rest of planning, and finds nothing to filter in states.
    "spark.sql.constraintPropagation.enabled": "false",
    # Rows that lie by a column are where rows are that lie by it and others: blocks are joined where they are.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # It tests of each row of a state whether an array has elements, before the join that few rows have a partner in.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromGenerate",
    # A static table may be filtered by what is found of another one in a job of its own. With such a query inside of it
    # a plan cannot be copied, and is made anew in each batch.
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # Each select that is nested in another takes rounds of Spark's analyzer, which gives up after 100 otherwise.
    "spark.sql.analyzer.maxIterations": "10000",
}
"""What the plan of a step rests on; set for the time of a step in a session that has it otherwise."""

PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting that says in how many partitions rows are that were moved."""

IN_ONE: Mapping[str, str] = {
    # What Spark takes to have more bytes it distributes, whatever it is told.
    "spark.sql.maxSinglePartitionBytes": f"{2**63 - 1}b",
    # Rows in one partition are joined where they are: a table that is sent to all tasks takes a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""What the plan of a step rests on besides, where all rows are in one partition."""

BATCH_SETTINGS: Mapping[str, str] = {
    **MEANING,
    "spark.sql.analyzer.maxIterations": STEP_SETTINGS["spark.sql.analyzer.maxIterations"],
}
"""What a query rests on that is evaluated once."""

GENERATED = "spark.sql.codegen.cache.maxEntries"
"""The setting that says of how many pieces of generated code Spark remembers what they were compiled to."""

GENERATED_MAX_ENTRIES = 5000
"""A batch has hundreds of pieces; those that are forgotten are compiled again in the next one."""

START_SETTINGS: Mapping[str, str] = {
    # A task of a batch aggregates dozens of small runs at once, and each aggregation begins with a page. Of the size
    # that Spark takes for a driver of 4 GB, there is room for 17 in one task.
    "spark.buffer.pageSize": "2m",
    GENERATED: str(GENERATED_MAX_ENTRIES),
    # Rows that are kept as bytes: with Java's own way, each is written with what an object needs besides.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryoserializer.buffer.max": "2047m",
    # Spark reads what is nested by functions that call themselves, and a thread without room for that ends all of it:
    # in the megabyte that is usual there is just enough for a thousand levels. So does Java repeat a group of a regular
    # expression, which takes a megabyte for two thousand characters or three. What is set for a session comes after.
    **{f"spark.{process}.defaultJavaOptions": "-Xss32m" for process in ("driver", "executor")},
}
"""What can be set only before Spark starts; the batches of a loop take half of the time with it."""

UNSEEN: Mapping[str, str] = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""How much of its work Spark remembers where no page shows it: by itself a thousand jobs and as many plans. A batch of
a loop has ten."""


def step_settings(spark: SparkSession, partitions: int | None = None) -> Mapping[str, str]:
    """The settings of the steps of a view or a loop: with as many partitions as can be worked on at once, unless said
    otherwise. A state's partitions are tasks of every batch."""
    if jvm.is_remote(spark):  # how many can be worked on at once, the session's settings say
        return STEP_SETTINGS
    shuffled = partitions or max(2, spark.sparkContext.defaultParallelism)
    # Inside of a block for one partition, what is in several is to be kept apart from what is in several elsewhere.
    more = IN_ONE if shuffled == 1 else {name: str(spark.conf.get(name)) for name in IN_ONE}
    return {**STEP_SETTINGS, PARTITIONS: str(shuffled), **more}


_HELD: ContextVar[tuple[int, int] | None] = ContextVar("held", default=None)
"""The session and the settings of the innermost block."""


def local_session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, or a new one: embedded and local, unless `master` names another.

    Raises: EngineError when there is no Java, or Spark does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None and master is None and not conf:
        return active
    require_java()
    quiet()
    # Python's workers are of the Python that this runs in, unless another one is asked for.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("mrql").master(master or f"local[{_cores()}]")
    for key, value in with_class_archive(start_settings(master, conf or {})).items():
        builder = builder.config(key, value)
    with _quiet_start() as said:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise not_started(error, said()) from error
        spark.sparkContext.setLogLevel("OFF")
    _quiet_end(spark)
    if cluster.is_cluster(spark.sparkContext.master):
        cluster.wait_for_executors(spark)
    logger.debug("Spark %s runs on %s", spark.version, spark.sparkContext.master)
    return spark


LOOPBACK: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""In local mode nobody has to reach the driver and its blocks from elsewhere, so nobody can."""


def start_settings(master: str | None, conf: Mapping[str, str]) -> Mapping[str, str]:
    """All that a session starts with: `conf`, and for the rest what mrql takes."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        PARTITIONS: str(_cores()),
        "spark.driver.memory": driver_memory(),
        **START_SETTINGS,
        **STEP_SETTINGS,
        **(cluster.SETTINGS if cluster.is_cluster(master) else LOOPBACK),
        **conf,
        **AS_WRITTEN,
    }
    return chosen if chosen["spark.ui.enabled"] == "true" else {**UNSEEN, **chosen}


def _cores() -> int:
    return os.cpu_count() or 2


_ADVISED: WeakSet[SparkSession] = WeakSet()


def advise(spark: SparkSession) -> None:
    """Says once of a session that others have started if it forgets the code of plans too soon: nothing else shows it,
    and to set that is too late then."""
    remembered = int(spark.conf.get(GENERATED) or 0)
    if remembered < GENERATED_MAX_ENTRIES and spark not in _ADVISED:
        _ADVISED.add(spark)
        logger.warning(
            "this Spark session remembers %d pieces of compiled code, and a batch may have more: it takes up to twice "
            "the time that it takes in a session that was started with %s=%d",
            remembered,
            GENERATED,
            GENERATED_MAX_ENTRIES,
        )


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets what is set otherwise, for the time of the block; inside a block for the same there is nothing to do. No
    other thread sets anything in the session meanwhile."""
    if _HELD.get() == (id(spark), id(wanted)):
        yield
        return
    with lock_of(spark):
        switch = _switch(spark, wanted)
        try:
            switch.on()
            held = _HELD.set((id(spark), id(wanted)))
            try:
                yield
            finally:
                _HELD.reset(held)
        finally:
            try:
                switch.off()
            except BaseException:
                switch.off()  # whoever interrupts it means what was done in the block
                raise


_LOCKS: dict[str, RLock] = {}


def lock_of(spark: SparkSession) -> RLock:
    """The lock of a session, whichever object stands for it: settings are others while a view is at work, so one thread
    at a time is."""
    return _LOCKS.setdefault(jvm.session_id(spark), RLock())


def is_mine(lock: RLock) -> bool:
    """Whether this thread holds a lock."""
    # As `threading.Condition` asks; nothing public says it.
    return bool(lock._is_owned())  # type: ignore[attr-defined]


_SWITCHES: WeakKeyDictionary[SparkSession, dict[Hashable, jvm.Switch | jvm.RemoteSwitch]] = WeakKeyDictionary()
"""What there was to do when some settings were wanted last."""


def _switch(spark: SparkSession, wanted: Mapping[str, str]) -> jvm.Switch | jvm.RemoteSwitch:
    if jvm.is_remote(spark):
        return jvm.RemoteSwitch.of(spark, wanted)
    known = _SWITCHES.setdefault(spark, {})
    key = tuple(wanted.items())
    if key not in known or not known[key].fits():
        known[key] = jvm.Switch.of(spark, wanted)
    return known[key]


def quiet() -> None:
    """Spark reports each failing query to a logger of its own; we report it to the user once."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


def _quiet_end(spark: SparkSession) -> None:
    """That Java has ended is reported once, by whoever asks it for something; Py4J and PySpark's server would print a
    trace."""
    logging.getLogger().addFilter(is_news)
    server: Any = spark.sparkContext._accumulatorServer
    if server is None or hasattr(server, "quiet"):
        return
    otherwise = server.handle_error

    def unless_ended(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            otherwise(request, address)

    server.handle_error, server.quiet = unless_ended, True


def is_news(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger is not Py4J's trace of a call in which Java has ended: the call fails too."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, Py4JNetworkError)


def driver_memory() -> str:
    """Half of the machine's memory, at least 1 GB: in local mode the driver holds the states."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1024, pages * page // 2**21)}m"


@contextmanager
def _quiet_start() -> Iterator[Callable[[], list[str]]]:
    """Keeps what Java and Spark's launcher write while they start from standard error.

    The Java process inherits the descriptor, so what it has to say is caught in a file, whose lines are given when the
    start fails.
    """
    with tempfile.TemporaryFile() as caught:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield lambda: _lines(caught)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").splitlines()
