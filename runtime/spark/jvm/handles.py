"""Handles of classes and fields that are used in each batch: finding one takes longer than using it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.remote import is_remote


@attrs.frozen
class MadeBy:
    """The constructor of a kind of RDDs."""

    constructor: Any
    booleans: int
    """The number of its boolean parameters, which differs between versions of Spark."""

    @staticmethod
    def of(package: Any, named: Callable[[str], Any], kind: str) -> MadeBy:
        (made,) = named(f"org.apache.spark.rdd.{kind}").getConstructors()
        booleans = sum(each.getSimpleName() == "boolean" for each in made.getParameterTypes())
        return MadeBy(getattr(package, kind), booleans)


@attrs.frozen
class ShufflesMadeBy:
    """The constructor of shuffles. Its arguments are the rows to be moved, the values of some fields of a shuffle, and
    the types of the key, of the row, and of the row again."""

    constructor: Any
    fields: tuple[Any, ...]
    key: Any

    @staticmethod
    def of(gateway: Any, named: Callable[[str], Any]) -> ShufflesMadeBy | None:
        """The constructor in this version of Spark, whose parameters are fields of a shuffle in the same order; None if
        they are not."""
        kind = named("org.apache.spark.ShuffleDependency")
        made = max(kind.getConstructors(), key=lambda each: int(each.getParameterCount()))
        *handed_over, _, _, _ = made.getParameterTypes()
        own = list(kind.getDeclaredFields())[: len(handed_over)]
        if [each.getType() for each in own] != handed_over:
            return None
        for each in own:
            each.setAccessible(True)
        shuffles, tags = gateway.jvm.org.apache.spark.ShuffleDependency, gateway.jvm.scala.reflect.ClassTag
        return ShufflesMadeBy(shuffles, tuple(own[1:]), tags.Int())

    def likewise(self, shuffle: Any, row: Any) -> Callable[[Any], Any]:
        """A function that makes a shuffle like a given one, of other rows of the same type."""
        kept = [own.get(shuffle) for own in self.fields]
        return lambda moved: self.constructor(moved, *kept, self.key, row, row)


class Handles:
    """Handles of classes and fields that are used in each batch: finding one takes longer than using it."""

    def __init__(self, gateway: Any) -> None:
        sql = gateway.jvm.org.apache.spark.sql
        named = gateway.jvm.java.lang.Class.forName
        self.cached = _module(sql.execution.columnar, "InMemoryRelation")
        self.util = gateway.jvm.java.util
        self.none = gateway.jvm.scala.Option.empty()
        self.some = gateway.jvm.scala.Some
        self.buckets = sql.catalyst.catalog.BucketSpec
        self._arguments = partial(gateway.new_array, gateway.jvm.java.lang.Object)
        self.activate = sql.classic.SparkSession.setActiveSession
        self.dataset = sql.classic.Dataset.ofRows
        self.scanned = field(named("org.apache.spark.sql.execution.RDDScanExec"), "rdd")
        self._logical = _module(sql.execution, "LogicalRDD")
        made_from = _method(named("org.apache.spark.sql.execution.LogicalRDD$"), "fromDataset").getParameterTypes()
        self._logical_flags = [False for t in made_from if t.getSimpleName() == "boolean"]
        self.kept = field(named("org.apache.spark.sql.execution.LogicalRDD"), "rdd")
        self.kept_order = field(named("org.apache.spark.sql.execution.LogicalRDD"), "outputOrdering")
        self.kept_partitioning = field(named("org.apache.spark.sql.execution.LogicalRDD"), "outputPartitioning")
        self.kept_statistics = field(named("org.apache.spark.sql.execution.LogicalRDD"), "originStats")
        self.single_partition = _module(sql.catalyst.plans.physical, "SinglePartition")
        self.few_bytes = self.some(sql.catalyst.plans.logical.OneRowRelation().stats())
        self.python_udf = sql.catalyst.trees.TreePattern.PYTHON_UDF()
        self.rows_scanned = sql.execution.RDDScanExec
        files_scanned = named("org.apache.spark.sql.execution.FileSourceScanExec")
        self.files_scanned = field(files_scanned, "relation")
        self.read_rows = _method(files_scanned, "createReadRDD")
        of_files = named("org.apache.spark.sql.execution.datasources.FileScanRDD")
        self.read_by = field(of_files, of_files.getName().replace(".", "$") + "$$readFunction")
        self.executed = sql.execution.SQLExecutionRDD
        self.reused_exchange = sql.execution.exchange.ReusedExchangeExec
        self._index = sql.execution.datasources.InMemoryFileIndex
        self._no_cache = _module(sql.execution.datasources, "NoopCache")
        self._path = gateway.jvm.org.apache.hadoop.fs.Path
        levels = gateway.jvm.org.apache.spark.api.java.StorageLevels
        self.as_bytes, self.as_rows = levels.MEMORY_AND_DISK_SER, levels.MEMORY_AND_DISK
        rdds = gateway.jvm.org.apache.spark.rdd
        self.mapped_rdd = MadeBy.of(rdds, named, "MapPartitionsRDD")
        self.evaluated_rdd = MadeBy.of(rdds, named, "MapPartitionsWithEvaluatorRDD")
        self.zipped_rdd, self.zipped_evaluated_rdd = rdds.ZippedPartitionsRDD2, rdds.ZippedPartitionsWithEvaluatorRDD
        self.union_rdd, self.union_in_place_rdd = rdds.UnionRDD, rdds.PartitionerAwareUnionRDD
        self.beside_rdd = rdds.SQLPartitioningAwareUnionRDD
        self.coalesced_rdd = rdds.CoalescedRDD
        self.shuffled_rdd, self._shuffles = sql.execution.ShuffledRowRDD, partial(ShufflesMadeBy.of, gateway, named)
        self._as_scala = gateway.jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self._list = gateway.jvm.java.util.ArrayList
        self._parsed = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper().readValue
        self._texts = gateway.new_array(gateway.jvm.java.lang.String, 0).getClass()

    @cached_property
    def shuffles(self) -> ShufflesMadeBy | None:
        """The constructor of shuffles, found when it is first needed: a query that is evaluated once needs none."""
        return self._shuffles()

    def mapped(self, rdd: Any, function: Any) -> Any:
        """An RDD with a function of Spark's over the partitions of another one."""
        tag = rdd.elementClassTag()
        return self.mapped_rdd.constructor(rdd, function, *[False] * self.mapped_rdd.booleans, tag, tag)

    def leaf(self, rdd: Any, df: DataFrame) -> Any:
        """Spark's logical plan of rows that are kept in an RDD and have the columns and the partitioning of a
        DataFrame."""
        return self._logical.fromDataset(rdd, df._jdf, *self._logical_flags)

    def beside(self, spark: SparkSession, rdds: Sequence[Any]) -> Any:
        """The RDD each partition of which consists of one partition of each given RDD; all have the same number."""
        first = rdds[0]
        context, size = spark.sparkContext._jsc.sc(), first.getNumPartitions()
        return self.beside_rdd(context, self.seq(rdds), size, first.elementClassTag())

    def index_of_files(self, spark: SparkSession, files: Iterable[str], options: Any) -> Any:
        """Spark's index of some files. It omits those that do not exist."""
        paths = self.seq(map(self._path, files))
        return self._index(spark._jsparkSession, paths, options, self.none, self._no_cache, self.none, self.none)

    def arguments(self, *values: Any) -> Any:
        """The arguments of a method, as a Java array."""
        array = self._arguments(len(values))
        for number, value in enumerate(values):
            array[number] = value
        return array

    def seq(self, of: Iterable[Any]) -> Any:
        """A Scala sequence."""
        together = self._list()
        for item in of:
            together.add(item)
        return self._as_scala(together).toSeq()

    def texts(self, of: Sequence[str]) -> Any:
        """A Java array of texts, passed in one call."""
        return self._parsed(json.dumps(of), self._texts)


def handles(spark: SparkSession) -> Handles:
    return _of(spark.sparkContext._gateway)


@lru_cache(maxsize=8)
def _of(gateway: Any) -> Handles:
    return Handles(gateway)


def session_id(spark: SparkSession) -> str:
    """The id of a session, for which there may be more than one Python object."""
    if spark not in _SESSION_IDS:
        known = spark.session_id if is_remote(spark) else spark._jsparkSession.sessionUUID()  # type: ignore[attr-defined]
        _SESSION_IDS[spark] = str(known)
    return _SESSION_IDS[spark]


_SESSION_IDS: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()


def _module(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def field(of: Any, name: str) -> Any:
    """The field of a class with a name, made accessible."""
    found = of.getDeclaredField(name)
    found.setAccessible(True)
    return found


def _method(of: Any, name: str) -> Any:
    """The only method of a class with a name, made accessible."""
    (found,) = (method for method in of.getDeclaredMethods() if method.getName() == name)
    found.setAccessible(True)
    return found


def items(seq: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (seq.apply(i) for i in range(seq.size()))


def name_of(node: Any) -> str:
    return str(node.getClass().getSimpleName())


_NOTHING: WeakKeyDictionary[SparkContext, Any] = WeakKeyDictionary()


def nothing(spark: SparkSession) -> Any:
    """An RDD without rows."""
    context = spark.sparkContext
    if context not in _NOTHING:
        _NOTHING[context] = context._jsc.emptyRDD().rdd()
    return _NOTHING[context]
