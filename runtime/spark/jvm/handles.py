"""Handles of what is used in each batch: to find a class or a field takes longer than to use it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession


class Handles:
    """Handles of what is used in each batch: to find a class or a field takes longer than to use it."""

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
        self._index = sql.execution.datasources.InMemoryFileIndex
        self._no_cache = _module(sql.execution.datasources, "NoopCache")
        self._path = gateway.jvm.org.apache.hadoop.fs.Path
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
        self._list = gateway.jvm.java.util.ArrayList
        self._parsed = gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper().readValue
        self._texts = gateway.new_array(gateway.jvm.java.lang.String, 0).getClass()

    def mapped(self, rdd: Any, function: Any) -> Any:
        """An RDD with a function of Spark's over the partitions of another."""
        tag = rdd.elementClassTag()
        return self._rdd(rdd, function, *self._flags, tag, tag)

    def likewise(self, made: Any) -> Callable[[Any], Any]:
        """What a plan of Spark's does with each partition of the RDD that it has `made`, for any other RDD."""
        if name_of(made) == "MapPartitionsRDD":  # where no code is generated
            function = field(made.getClass(), "f").get(made)
            return lambda rdd: self.mapped(rdd, function)
        factory, tag = field(made.getClass(), "evaluatorFactory").get(made), made.elementClassTag()
        return lambda rdd: self._evaluated(rdd, factory, *self._evaluated_flags, tag, tag)

    def leaf(self, rdd: Any, df: DataFrame) -> Any:
        """What Spark's plan for rows is that are kept in an RDD, and were computed as those of a DataFrame."""
        return self._logical.fromDataset(rdd, df._jdf, *self._logical_flags)

    def beside(self, spark: SparkSession, rdds: Sequence[Any]) -> Any:
        """The RDD whose each partition is one of each of some others, all with as many."""
        first = rdds[0]
        context, size = spark.sparkContext._jsc.sc(), first.getNumPartitions()
        return self._beside(context, self.seq(rdds), size, first.elementClassTag())

    def index_of_files(self, spark: SparkSession, files: Iterable[str], options: Any) -> Any:
        """What Spark knows files by. It does not name those that are not there."""
        paths = self.seq(map(self._path, files))
        return self._index(spark._jsparkSession, paths, options, self.none, self._no_cache, self.none, self.none)

    def arguments(self, *values: Any) -> Any:
        """What a method is called with."""
        array = self._arguments(len(values))
        for number, value in enumerate(values):
            array[number] = value
        return array

    def seq(self, of: Iterable[Any]) -> Any:
        """A sequence of Scala's."""
        together = self._list()
        for item in of:
            together.add(item)
        return self._as_scala(together).toSeq()

    def texts(self, of: Sequence[str]) -> Any:
        """An array of texts, handed over as one."""
        return self._parsed(json.dumps(of), self._texts)


def handles(spark: SparkSession) -> Handles:
    return _of(spark.sparkContext._gateway)


@lru_cache(maxsize=8)
def _of(gateway: Any) -> Handles:
    return Handles(gateway)


def session_id(spark: SparkSession) -> str:
    """What a session is known by: more than one object of Python may stand for it."""
    return str(spark._jsparkSession.sessionUUID())


def _module(package: Any, name: str) -> Any:
    """An object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def field(of: Any, name: str) -> Any:
    """What an object of a class was made with."""
    found = of.getDeclaredField(name)
    found.setAccessible(True)
    return found


def _method(of: Any, name: str) -> Any:
    """The one method of a class with a name."""
    (found,) = (method for method in of.getDeclaredMethods() if method.getName() == name)
    found.setAccessible(True)
    return found


def items(seq: Any) -> Iterator[Any]:
    """The items of a sequence of Scala's."""
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
