"""Physical plans that read files, reused for other files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import field, handles, items, name_of, nothing
from mrql.runtime.spark.jvm.physical_plan import can_be_copied
from mrql.runtime.spark.jvm.prepared_plan import PreparedPlan, paths

BY_ROWS = ("CSVFileFormat", "JsonFileFormat", "TextFileFormat")
"""The formats that Spark reads row by row, whatever the settings and the files."""


@attrs.frozen
class Opened:
    """Files as Spark has opened them: where they lie, and how they are read."""

    relation: Any

    @staticmethod
    def of(df: DataFrame) -> Opened | None:
        """The files of a DataFrame that consists of all their columns and nothing else. None for any other DataFrame,
        and for files that are partitioned, not local, or not read row by row."""
        plan = df._jdf.queryExecution().analyzed()
        if name_of(plan) != "LogicalRelation":
            return None
        relation = plan.relation()
        if name_of(relation) != "HadoopFsRelation" or name_of(relation.fileFormat()) not in BY_ROWS:
            return None
        plain = relation.partitionSchema().isEmpty() and relation.bucketSpec().isEmpty()
        return Opened(relation) if plain and _are_local(relation.location()) else None

    @property
    def kind(self) -> Hashable:
        """The columns, the format, and a hash of the options: equal where files are read alike."""
        relation = self.relation
        return relation.dataSchema().json(), name_of(relation.fileFormat()), _options(relation).hashCode()


@attrs.frozen
class Scan:
    """The physical plan of a DataFrame over files of this machine, and the function by which Spark reads such a file.

    The function is made with the settings of the file system, hundreds of them, which Spark sends to its executors anew
    for each plan. For files elsewhere the settings may differ from one batch to the next, since they contain
    credentials.
    """

    spark: SparkSession
    plan: PreparedPlan
    """The plan, with an RDD in place of the files."""
    leaf: Any
    """The node of the plan that reads the files."""
    read: Any
    first: Opened
    """The files that it was made for."""

    @staticmethod
    def of(df: DataFrame) -> Scan | None:
        """The scan of a DataFrame; None if that reads something else, too, or cannot be copied."""
        spark, java = df.sparkSession, handles(df.sparkSession)
        plan = df._jdf.queryExecution().executedPlan().clone()
        leaves = list(paths(plan))
        if len(leaves) != 1 or name_of(leaves[0][0]) != "FileSourceScanExec" or not can_be_copied(plan):
            return None
        ((leaf, above),) = leaves
        rows = java.rows_scanned(
            leaf.output(), nothing(spark), "files", leaf.outputPartitioning(), java.seq(()), java.none
        )
        if above:
            field(above[-1].getClass(), "child").set(above[-1], rows)
        read = java.read_by.get(leaf.inputRDD())
        # The node above has noted properties of its former child; a copy of it looks at the new one.
        prepared = PreparedPlan.of(spark, plan if above else rows, (0,))
        return Scan(spark, prepared, leaf, read, Opened(leaf.relation()))

    def as_the_first(self, files: Opened | None) -> Opened | None:
        """The files, if they have the same options as the first ones; otherwise None."""
        alike = files is not None and _options(files.relation).equals(_options(self.first.relation))
        return files if alike else None

    def opened(self, paths: Sequence[str]) -> Opened | None:
        """Other files, to be read like the first ones; None if one of them does not exist."""
        relation = self.first.relation
        index = handles(self.spark).index_of_files(self.spark, paths, relation.options())
        # Files that do not exist are skipped.
        if index.allFiles().size() != len(paths):
            return None
        like = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
        return Opened(relation.copy(index, *like, relation.options(), relation.sparkSession()))

    def rows(self, files: Opened) -> Any:
        """The rows of files that are read like the first ones."""
        java = handles(self.spark)
        leaf = self.leaf.clone()
        java.files_scanned.set(leaf, files.relation)
        read = java.read_rows.invoke(leaf, java.arguments(self.read, leaf.selectedPartitions()))
        return java.executed(self.plan.over(self.spark, [read]), self.spark._jsparkSession.sessionState().conf())


def _options(relation: Any) -> Any:
    """The options with which files are read, without their path."""
    return getattr(relation.options(), "$minus")("path")


def _are_local(index: Any) -> bool:
    """Whether all files are of this machine's file system."""
    return all(path.toUri().getScheme() == "file" for path in items(index.rootPaths()))
