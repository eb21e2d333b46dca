"""The one place that reaches through PySpark into the JVM, and what to do where that is not possible.

A local checkpoint cuts the lineage of a state, but its blocks stay until the driver's garbage collector finds them.
Freeing them at once needs the handle of the plan's RDD, which PySpark does not give out. Under Spark Connect there is
no such handle: then `persist` and `unpersist` serve, whose lineage is cut by reading the run back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext, StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

BYTES = StorageLevel.MEMORY_AND_DISK
ROWS = StorageLevel.MEMORY_AND_DISK_DESER


@attrs.frozen
class Shape:
    """The columns and the partitioning of rows, as Spark's plan of rows that are there already."""

    plan: Any
    signature: str

    def over(self, spark: SparkSession, rdd: Any) -> DataFrame:
        """Rows of this shape as a DataFrame."""
        leaf = self.plan.newInstance()
        java = _java(spark)
        java.kept.set(leaf, rdd)
        return DataFrame(java.datasets.ofRows(spark._jsparkSession, leaf), spark)


def local_checkpoint(df: DataFrame, *, small: bool) -> tuple[Any, Shape]:
    """The same rows, kept with their partitioning when they are first computed, and without their history.

    A small one is kept as bytes. Rows kept as objects are faster to read again, but Spark estimates their size while it
    stores them, which takes longer than to write some ten thousand of them down.
    """
    kept = df.localCheckpoint(False, BYTES if small else ROWS)
    leaf = kept._jdf.queryExecution().logical()
    return leaf.rdd(), Shape(leaf, _signature(leaf))


@attrs.frozen
class Columnar:
    """Rows kept by columns, compressed: a tenth of the memory, and faster to scan.

    It is Spark's own cache of a DataFrame, but not one that `spark.catalog.clearCache()` knows of.
    """

    df: DataFrame
    buffers: Any

    @staticmethod
    def of(rows: DataFrame) -> Columnar:
        """The same rows, with their partitioning, to be kept when they are computed; they are read from `rows` once."""
        spark = rows.sparkSession
        java = _java(spark)
        cached = java.cached.apply(java.as_rows, rows._jdf.queryExecution(), java.no_name)
        buffers = cached.cacheBuilder().cachedColumnBuffers().localCheckpoint()
        return Columnar(DataFrame(java.datasets.ofRows(spark._jsparkSession, cached), spark), buffers)

    def compute(self, tasks: int) -> None:
        """Computes the rows, in so many tasks at most."""
        compute(self.buffers, tasks)

    def free(self) -> None:
        """Frees the rows."""
        free(self.buffers)


def column(text: str) -> Column:
    """The column of an SQL expression, made once: to find the function by its name costs more than to call it."""
    return _column(SparkContext._gateway, text)


@lru_cache(maxsize=4096)
def _column(gateway: Any, text: str) -> Column:
    return F.expr(text)


OBSERVED_WITHIN = 5.0
"""So many seconds after a job Spark may take to say what was observed in it."""


def observed_now(observation: Observation) -> int | None:
    """What was observed of rows that have been computed; None where nothing has asked for them as a whole.

    PySpark would wait for that without an end.
    """
    until = time.monotonic() + OBSERVED_WITHIN
    while not observation._jo.future().isCompleted():  # type: ignore[union-attr]
        if time.monotonic() > until:
            return None
        time.sleep(0.002)
    return int(next(iter(observation.get.values())))


def free(rdd: Any) -> None:
    """Frees the blocks of a local checkpoint."""
    rdd.unpersist(False)


def compute(rdd: Any, tasks: int) -> int:
    """Computes the rows of a local checkpoint, all of them, and returns their number; in so many tasks at most."""
    return int(in_partitions(rdd, tasks).count())


def compute_all(spark: SparkSession, rdds: Sequence[Any]) -> list[int]:
    """Computes the rows of local checkpoints in one job, and returns the number of each.

    A task reads the plans of everything that its stage computes, which takes longer than to compute a small run. So
    those with as many partitions lie beside each other: a task computes one partition of all of them.
    """
    java, counted = _java(spark), _counting(spark)
    beside: dict[int, list[int]] = {}
    for number, rdd in enumerate(rdds):
        beside.setdefault(rdd.getNumPartitions(), []).append(number)
    beside.pop(0, None)
    counts = [0] * len(rdds)
    if not beside:
        return counts
    parts = [java.beside(spark, [counted(rdds[i]) for i in numbers], size) for size, numbers in beside.items()]
    order = (number for size, numbers in beside.items() for _ in range(size) for number in numbers)
    for number, row in zip(order, reduce(lambda one, other: one.union(other), parts).collect(), strict=True):
        counts[number] += row.getLong(0)
    return counts


_COUNTING: WeakKeyDictionary[SparkContext, Callable[[Any], Any]] = WeakKeyDictionary()


def _counting(spark: SparkSession) -> Callable[[Any], Any]:
    """Makes of an RDD one in which Spark's own plan for `count(1)` counts the rows of each partition, each by itself.

    It looks at no columns, and so what it does is the same for all rows.
    """
    context = spark.sparkContext
    if context not in _COUNTING:
        nothing = rows(spark, _nothing(spark), spark._jsparkSession.emptyDataFrame().schema())
        plan = nothing.groupBy().count()._jdf.queryExecution().executedPlan()
        while _name(plan) != "ShuffleExchangeExec":
            plan = plan.children().head()
        _COUNTING[context] = _java(spark).likewise(plan.child().execute())
    return _COUNTING[context]


class Lazy(ClassicDataFrame):
    """A DataFrame that is not even analysed before something is asked of it.

    Under Spark Connect every DataFrame is so; the classic ones take milliseconds of a batch for each operation.
    """

    def __init__(self, make: Callable[[], DataFrame], spark: SparkSession) -> None:
        super().__init__(None, spark)
        self._make = make

    # The base class sets its handle in its constructor; here that is put off.
    @cached_property
    def _planned(self) -> Any:
        return self._make()._jdf

    @property
    def _jdf(self) -> Any:
        return self._planned

    @_jdf.setter
    def _jdf(self, handle: None) -> None:
        pass


def persistent_rdds(spark: SparkSession) -> int:
    """How many RDDs Spark keeps blocks of."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


def executed_plan(df: DataFrame) -> str:
    """The physical plan, as text."""
    return str(df._jdf.queryExecution().executedPlan().toString())


# --- plans that are used again ----------------------------------------------------------------


class Plan:
    """The physical plan of a DataFrame."""

    def __init__(self, df: DataFrame) -> None:
        self._df = df
        self._plan = df._jdf.queryExecution().executedPlan()

    def can_be_copied(self) -> bool:
        """Whether a copy of the plan is a plan of its own: one with a query inside an expression shares that."""
        return bool(self._plan.subqueriesAll().isEmpty())

    def rdds(self) -> Iterator[tuple[int, int]]:
        """The leaves that scan an RDD: the number of each, and the RDD's."""
        for number, leaf in enumerate(_items(self._plan.collectLeaves())):
            if _name(leaf) == "RDDScanExec":
                yield number, leaf.rdd().id()

    def read_of(self, leaves: Sequence[int]) -> set[str] | None:
        """The columns that are read of some leaves with the same columns; None if it may be all."""
        wanted = {*leaves}
        found: set[str] = set()
        for number, (leaf, above) in enumerate(_paths(self._plan)):
            if number in wanted:
                read = _read(leaf, above)
                if read is None:
                    return None
                found |= read
        return found

    def emptied(self, spark: SparkSession, leaves: Sequence[int]) -> Any:
        """A copy without the rows of some leaves, so that it keeps nothing alive."""
        return _filled(spark, self._plan, dict.fromkeys(leaves, _nothing(spark)))

    def kept(self) -> tuple[Shape, Any]:
        """The columns and the partitioning of the plan's rows when they are kept, and how Spark copies a row for it."""
        rdd, shape = local_checkpoint(self._df, small=True)
        free(rdd)
        spark = self._df.sparkSession
        _java(spark).kept.set(shape.plan, _nothing(spark))
        return shape, _field(rdd.getClass(), "f").get(rdd)


def execute(spark: SparkSession, plan: Any, rows: Mapping[int, Any]) -> Any:
    """The rows of a copy of a plan, with an RDD for each of the given leaves."""
    return _filled(spark, plan, rows).execute()


def kept(spark: SparkSession, rdd: Any, copied: Any, *, small: bool) -> Any:
    """The RDD of a plan's rows, kept when it is first computed, without its history.

    The rows must be copied, for a plan puts each into the place of the one before. `copied` is how Spark itself does.
    """
    java = _java(spark)
    level = java.as_bytes if small else java.as_rows
    return java.mapped(rdd, copied).persist(level).localCheckpoint()


@attrs.frozen
class Switch:
    """Settings of a session that are to be others for some time: on and off by a call or two, where each setting would
    take one to be read, one to be set and one to be set back."""

    conf: Any
    current: Any
    """The settings of the session, as they are at any time."""
    before: Any
    """The settings for which this was made."""
    wanted: Any
    restored: Any
    removed: Any

    @staticmethod
    def of(spark: SparkSession, wanted: Mapping[str, str]) -> Switch:
        """What there is to do for settings that are wanted, as those of the session are now."""
        util = _java(spark).util
        before = {key: spark.conf.get(key, None) for key in wanted}
        changed, restored, removed = util.Properties(), util.Properties(), util.ArrayList()
        for key, value in wanted.items():
            old = before[key]
            if old == value:
                continue
            changed.setProperty(key, value)
            removed.add(key) if old is None else restored.setProperty(key, old)
        conf = spark._jsparkSession.sessionState().conf()
        current = conf.settings()
        return Switch(
            conf,
            current,
            util.HashMap(current),
            None if changed.isEmpty() else changed,
            None if restored.isEmpty() else restored,
            None if removed.isEmpty() else removed,
        )

    def fits(self) -> bool:
        """Whether the settings of the session are those for which this was made."""
        return bool(self.current.equals(self.before))

    def on(self) -> None:
        """Sets them."""
        if self.wanted is not None:
            self.conf.setConf(self.wanted)

    def off(self) -> None:
        """Sets back what was set otherwise before."""
        if self.restored is not None:
            self.conf.setConf(self.restored)
        if self.removed is not None:
            self.current.keySet().removeAll(self.removed)


def opaque(spark: SparkSession, df: DataFrame) -> DataFrame:
    """The same rows, of which Spark knows the columns and no more."""
    return rows(spark, rows_of(df), df._jdf.schema())


def rows(spark: SparkSession, rdd: Any, schema: Any) -> DataFrame:
    """An RDD of Spark's own rows as a DataFrame of which Spark knows the columns and no more."""
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, schema, False), spark)


def in_partitions(rdd: Any, most: int) -> Any:
    """An RDD in so many partitions at most."""
    return rdd if rdd.getNumPartitions() <= most else rdd.toJavaRDD().coalesce(most).rdd()


def rows_of(df: DataFrame) -> Any:
    """The rows of a DataFrame as an RDD of Spark's own rows."""
    return df._jdf.queryExecution().toRdd()


def rdd_of(df: DataFrame) -> Any:
    """The RDD of a DataFrame that is made of one."""
    return df._jdf.queryExecution().analyzed().rdd()


def _nothing(spark: SparkSession) -> Any:
    """An RDD without rows."""
    return spark.sparkContext._jsc.emptyRDD().rdd()


def _filled(spark: SparkSession, plan: Any, rows: Mapping[int, Any]) -> Any:
    java = _java(spark)
    # A plan works in the session that is the active one of the thread that makes it.
    java.sessions.setActiveSession(spark._jsparkSession)
    copy = plan.clone()
    leaves = copy.collectLeaves()
    for number, rdd in rows.items():
        java.scanned.set(leaves.apply(number), rdd)
    return copy


class _Java:
    """Handles of what is used in each batch: to find a class or a field takes longer than to use it."""

    def __init__(self, gateway: Any) -> None:
        sql = gateway.jvm.org.apache.spark.sql
        named = gateway.jvm.java.lang.Class.forName
        self.cached = getattr(getattr(sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        self.util = gateway.jvm.java.util
        self.no_name = gateway.jvm.scala.Option.empty()
        self.sessions = sql.classic.SparkSession
        self.datasets = sql.classic.Dataset
        self.scanned = _field(named("org.apache.spark.sql.execution.RDDScanExec"), "rdd")
        self.kept = _field(named("org.apache.spark.sql.execution.LogicalRDD"), "rdd")
        levels = gateway.jvm.org.apache.spark.api.java.StorageLevels
        self.as_bytes, self.as_rows = levels.MEMORY_AND_DISK_SER, levels.MEMORY_AND_DISK
        self._rdd = gateway.jvm.org.apache.spark.rdd.MapPartitionsRDD
        made_with = named("org.apache.spark.rdd.MapPartitionsRDD").getConstructors()[0].getParameterTypes()
        # Each version of Spark has some more of them.
        self._flags = [False for t in made_with if t.getSimpleName() == "boolean"]
        self._evaluated = gateway.jvm.org.apache.spark.rdd.MapPartitionsWithEvaluatorRDD
        evaluated_with = named("org.apache.spark.rdd.MapPartitionsWithEvaluatorRDD").getConstructors()[0]
        self._evaluated_flags = [False for t in evaluated_with.getParameterTypes() if t.getSimpleName() == "boolean"]
        self._beside = gateway.jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD
        self._as_scala = gateway.jvm.scala.jdk.javaapi.CollectionConverters.asScala

    def mapped(self, rdd: Any, function: Any) -> Any:
        """An RDD with a function of Spark's over the partitions of another."""
        tag = rdd.elementClassTag()
        return self._rdd(rdd, function, *self._flags, tag, tag)

    def likewise(self, made: Any) -> Callable[[Any], Any]:
        """What a plan of Spark's does with each partition of the RDD that it has `made`, for any other RDD."""
        if _name(made) == "MapPartitionsRDD":  # where no code is generated
            function = _field(made.getClass(), "f").get(made)
            return lambda rdd: self.mapped(rdd, function)
        factory, tag = _field(made.getClass(), "evaluatorFactory").get(made), made.elementClassTag()
        return lambda rdd: self._evaluated(rdd, factory, *self._evaluated_flags, tag, tag)

    def beside(self, spark: SparkSession, rdds: Sequence[Any], size: int) -> Any:
        """The RDD whose each partition is one of each of some others, all with as many."""
        together = self.util.ArrayList()
        for rdd in rdds:
            together.add(rdd)
        tag = rdds[0].elementClassTag()
        return self._beside(spark.sparkContext._jsc.sc(), self._as_scala(together).toSeq(), size, tag)


def _java(spark: SparkSession) -> _Java:
    return _handles(spark.sparkContext._gateway)


@lru_cache(maxsize=8)
def _handles(gateway: Any) -> _Java:
    return _Java(gateway)


def _field(of: Any, name: str) -> Any:
    """What an object of a class was made with."""
    field = of.getDeclaredField(name)
    field.setAccessible(True)
    return field


def _paths(plan: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The leaves of a plan in order, each with the nodes above it."""
    children = list(_items(plan.children()))
    if not children:
        yield plan, above
    for child in children:
        yield from _paths(child, (*above, plan))


def _read(leaf: Any, above: Sequence[Any]) -> set[str] | None:
    """The columns of a leaf that are read by what is above it; None if they are passed on as they are."""
    used: set[int] = set()
    for node in reversed(above):
        name = _name(node)
        if name in ("ProjectExec", "FilterExec", "HashAggregateExec", "ObjectHashAggregateExec"):
            used |= {attribute.exprId().id() for attribute in _items(node.references().toSeq())}
            if name != "FilterExec":
                return {a.name() for a in _items(leaf.output()) if a.exprId().id() in used}
        elif name not in ("WholeStageCodegenExec", "InputAdapter"):
            return None
    return None


def _signature(leaf: Any) -> str:
    """The columns and the partitioning of rows, in words in which equal ones are the same."""
    names = {f"#{a.exprId().id()}": f"#{i}" for i, a in enumerate(_items(leaf.output()))}
    partitioning = re.sub(r"#\d+", lambda found: names.get(found[0], found[0]), leaf.outputPartitioning().toString())
    return f"{leaf.schema().json()} {partitioning}"


def _items(seq: Any) -> Iterator[Any]:
    """The items of a sequence of Scala's."""
    return (seq.apply(i) for i in range(seq.size()))


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())
