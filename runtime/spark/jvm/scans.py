"""Physical plans that read files, used again for other files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.runtime.spark.jvm.handles import field, handles, items, name_of, nothing
from mrql.runtime.spark.jvm.physical_plan import can_be_copied
from mrql.runtime.spark.jvm.prepared_plan import PreparedPlan, paths

BY_ROWS = ("CSVFileFormat", "JsonFileFormat", "TextFileFormat")
"""The formats that Spark reads row by row, whatever the settings and the files are."""


@attrs.frozen
class Opened:
    """Files as Spark has opened them: where they lie, and how they are read."""

    relation: Any

    @staticmethod
    def of(df: DataFrame) -> Opened | None:
        """The files of a DataFrame that has all their columns, and nothing else. None for any other."""
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
        """The columns, the format, and a number for the options: equal where files are read alike."""
        relation = self.relation
        return relation.dataSchema().json(), name_of(relation.fileFormat()), _options(relation).hashCode()


@attrs.frozen
class Scan:
    """The physical plan of a DataFrame over files of this machine, and the function by which Spark reads such a file.

    That is made with the settings of the file system, hundreds of them, which Spark sends to its executors anew for
    each plan. For files elsewhere they may be others from one batch to the next: they have credentials in them.
    """

    spark: SparkSession
    plan: PreparedPlan
    """With an RDD in place of the files."""
    leaf: Any
    """The node of the plan that reads the files."""
    read: Any
    first: Opened
    """The files that it was made for."""

    @staticmethod
    def of(df: DataFrame) -> Scan | None:
        """That of a DataFrame; None where it reads something else too, or cannot be copied."""
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
        # The node above has noted what its child was; a copy of it looks at what it is.
        prepared = PreparedPlan.of(spark, plan if above else rows, (0,))
        return Scan(spark, prepared, leaf, read, Opened(leaf.relation()))

    def as_the_first(self, files: Opened | None) -> Opened | None:
        """Files of the same kind, where they have the same options too."""
        alike = files is not None and _options(files.relation).equals(_options(self.first.relation))
        return files if alike else None

    def opened(self, paths: Sequence[str]) -> Opened | None:
        """Other files, to be read as the first ones were; None where one of them is not there."""
        relation = self.first.relation
        index = handles(self.spark).index_of_files(self.spark, paths, relation.options())
        # What is not there is passed over.
        if index.allFiles().size() != len(paths):
            return None
        like = (relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(), relation.fileFormat())
        return Opened(relation.copy(index, *like, relation.options(), relation.sparkSession()))

    def rows(self, files: Opened) -> Any:
        """The rows of files that are read as the first ones were."""
        java = handles(self.spark)
        leaf = self.leaf.clone()
        java.files_scanned.set(leaf, files.relation)
        read = java.read_rows.invoke(leaf, java.arguments(self.read, leaf.selectedPartitions()))
        return java.executed(self.plan.over(self.spark, [read]), self.spark._jsparkSession.sessionState().conf())


def _options(relation: Any) -> Any:
    """How files are read, without which they are."""
    return getattr(relation.options(), "$minus")("path")


def _are_local(index: Any) -> bool:
    """Whether all files are of this machine's file system."""
    return all(path.toUri().getScheme() == "file" for path in items(index.rootPaths()))
