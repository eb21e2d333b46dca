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
"""Settings by which Spark reads strings and names as they are written here: `${env:HOME}` in a query is not
substituted, and fields that differ only in case are different fields. Strings are also written so that Spark sees no
variable in them; for names there is no other way than the first setting."""

MEANING: Mapping[str, str] = {
    # Integer overflow and division by zero are errors.
    "spark.sql.ansi.enabled": "true",
    # Timestamps are those of UTC, whatever the zone of the session is.
    "spark.sql.session.timeZone": "UTC",
    # The number of digits of a decimal that is computed.
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # The types of an empty array and of a timestamp.
    "spark.sql.legacy.createEmptyCollectionUsingStringType": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Spark would substitute what looks like a variable of the environment, in constants and in names as well.
    **AS_WRITTEN,
}
"""The settings on which the meaning of an expression depends when it is analysed. Settings that matter when it is
computed are not among them: they would also apply to frames that a program passes in, so no expression of mrql depends
on them."""

STEP_SETTINGS: Mapping[str, str] = {
    **MEANING,
    # Adaptive execution would plan again between stages, and put an Exchange above the state.
    "spark.sql.adaptive.enabled": "false",
    # A union of runs that are partitioned alike is partitioned alike (Spark ≥ 4.1).
    "spark.sql.unionOutputPartitioning": "true",
    # Small files are read by all cores, about as much by each.
    "spark.sql.files.openCostInBytes": "8192",
    # A plan that is reused is copied, and a copy of a reused exchange would still refer to the original one.
    "spark.sql.exchange.reuse": "false",
    # The function of a plan over a partition is passed as an object: the references of a closure would be searched each
    # time that a plan is reused, which takes a third of the time to set it up.
    "spark.sql.execution.usePartitionEvaluator": "true",
    # This runs for every plan, takes as long as the rest of planning, and finds nothing to filter in states.
    "spark.sql.constraintPropagation.enabled": "false",
    # Rows partitioned by one column are joined in place by it and others, as blocks are.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # This rule tests for each row of a state whether an array is empty, before a join in which few rows have a partner.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromGenerate",
    # A static table might be filtered by a query over another one, in a job of its own. A plan with such a query inside
    # cannot be copied, and is made anew in each batch.
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    # Each nested select takes rounds of Spark's analyzer, which would otherwise give up after 100.
    "spark.sql.analyzer.maxIterations": "10000",
}
"""The settings on which the plan of a step depends; set for the duration of a step in a session that has others."""

PARTITIONS = "spark.sql.shuffle.partitions"
"""The setting for the number of partitions of rows that were moved."""

IN_ONE: Mapping[str, str] = {
    # Rows that Spark estimates to have more bytes than this are distributed, whatever it is told.
    "spark.sql.maxSinglePartitionBytes": f"{2**63 - 1}b",
    # Rows in one partition are joined in place: a broadcast would take a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""The further settings on which the plan of a step depends if all rows are in one partition."""

BATCH_SETTINGS: Mapping[str, str] = {
    **MEANING,
    "spark.sql.analyzer.maxIterations": STEP_SETTINGS["spark.sql.analyzer.maxIterations"],
}
"""The settings on which a query depends that is evaluated once."""

GENERATED = "spark.sql.codegen.cache.maxEntries"
"""The setting for the number of pieces of generated code whose compiled form Spark remembers."""

GENERATED_MAX_ENTRIES = 5000
"""A batch has hundreds of pieces of code; those that are forgotten are compiled again in the next one."""

START_SETTINGS: Mapping[str, str] = {
    # A task of a batch aggregates dozens of small runs at once, and each aggregation begins with a page. Of the page
    # size that Spark chooses for a driver of 4 GB, 17 pages fit in one task.
    "spark.buffer.pageSize": "2m",
    GENERATED: str(GENERATED_MAX_ENTRIES),
    # For rows that are kept as bytes: Java's serializer writes each with the overhead of an object.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryoserializer.buffer.max": "2047m",
    # Spark reads nested structures recursively, and a stack overflow in one thread ends all of Spark: the usual
    # megabyte just suffices for a thousand levels. Java repeats a group of a regular expression recursively, too, which
    # takes a megabyte for two or three thousand characters. Options that are set for a session come after these.
    **{f"spark.{process}.defaultJavaOptions": "-Xss32m" for process in ("driver", "executor")},
}
"""Settings that can be set only before Spark starts; the batches of a loop take half of the time with them."""

UNSEEN: Mapping[str, str] = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""How much of its work Spark remembers if no page shows it: by default a thousand jobs and as many plans. A batch of a
loop has ten."""


def step_settings(spark: SparkSession, partitions: int | None = None) -> Mapping[str, str]:
    """The settings of the steps of a view or a loop: by default, with as many partitions as can be processed at once,
    but at least two. Each partition of a state is a task of every batch."""
    if jvm.is_remote(spark):  # the session's settings have the number of partitions
        return STEP_SETTINGS
    shuffled = partitions or max(2, spark.sparkContext.defaultParallelism)
    # In a block for one partition, plans over several partitions are kept apart from such plans made elsewhere.
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
    # Python workers use the Python that this runs in, unless another one is asked for.
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
"""In local mode, the driver and its blocks need not be reachable from elsewhere, and so are not."""


def start_settings(master: str | None, conf: Mapping[str, str]) -> Mapping[str, str]:
    """All settings that a session starts with: mrql's defaults, overridden by `conf`, except for those that are
    `AS_WRITTEN`."""
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
    """Warns, once for each session, if it remembers too little compiled code, as one that others have started may:
    nothing else shows it, and it is too late to set that then."""
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
    """Sets the wanted settings for the duration of the block; inside a block for the same settings it does nothing. No
    other thread changes settings of the session in such a block meanwhile."""
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
                switch.off()  # an interruption is meant for the work in the block
                raise


_LOCKS: dict[str, RLock] = {}


def lock_of(spark: SparkSession) -> RLock:
    """The lock of a session, whichever object stands for it: a view changes settings while it is at work, so only one
    thread may work at a time."""
    return _LOCKS.setdefault(jvm.session_id(spark), RLock())


def is_mine(lock: RLock) -> bool:
    """Whether this thread holds a lock."""
    # As `threading.Condition` does; nothing public says it.
    return bool(lock._is_owned())  # type: ignore[attr-defined]


_SWITCHES: WeakKeyDictionary[SparkSession, dict[Hashable, jvm.Switch | jvm.RemoteSwitch]] = WeakKeyDictionary()
"""The last switch of each session for some wanted settings."""


def _switch(spark: SparkSession, wanted: Mapping[str, str]) -> jvm.Switch | jvm.RemoteSwitch:
    if jvm.is_remote(spark):
        return jvm.RemoteSwitch.of(spark, wanted)
    known = _SWITCHES.setdefault(spark, {})
    key = tuple(wanted.items())
    if key not in known or not known[key].fits():
        known[key] = jvm.Switch.of(spark, wanted)
    return known[key]


def quiet() -> None:
    """Silences the logger to which Spark reports each failing query: it is reported to the user once."""
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


def _quiet_end(spark: SparkSession) -> None:
    """Suppresses the traces that Py4J and PySpark's server print when Java has ended: the call that fails reports that
    once."""
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
    """Whether a record of the root logger is not Py4J's trace of a call that failed because Java has ended: the call
    also raises the error."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, Py4JNetworkError)


def driver_memory() -> str:
    """Half of the machine's memory, at least 1 GB: in local mode the driver holds the states."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(1024, pages * page // 2**21)}m"


@contextmanager
def _quiet_start() -> Iterator[Callable[[], list[str]]]:
    """Keeps the output of Java and Spark's launcher during the start from standard error.

    The Java process inherits the descriptor, so its output is caught in a file. The block is given a function that
    reads the lines of the file, for when the start fails.
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
