"""Files as DataFrames, by Spark's own readers, with the same rows that the reference reader finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import InternalError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.algebra.values.zset import ZSet
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.files.compression import must_be_whole, packed_suffix
from mrql.runtime.files.quarantine import Malformed, Quarantine, Reject, fail, pass_over
from mrql.runtime.sources.arrived import Arrived, Part, files_of_all_directories
from mrql.runtime.sources.files import check_file, list_files, read_changes
from mrql.runtime.sources.partitions import Apart
from mrql.runtime.sources.partitions import apart as of_path
from mrql.runtime.sources.places_of_rows import placed
from mrql.runtime.sources.source import Portion, everything
from mrql.runtime.spark.expressions.layout import quote, sql_type
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.io.csv import TAG, TAGGED
from mrql.runtime.spark.io.formats import FORMATS
from mrql.runtime.spark.io.path_columns import completed
from mrql.runtime.spark.io.paths import path_of, path_to_read
from mrql.runtime.spark.io.rows_files import rows_files
from mrql.runtime.spark.io.spark_format import ParsedRows
from mrql.runtime.spark.relation.file_scans import FileScan
from mrql.runtime.spark.relation.frame import ColumnNames, Frame, changes, from_dataframe, net, union
from mrql.runtime.spark.relation.keyed_columns import net_of_upserts
from mrql.runtime.spark.session.session import MEANING, settings


def read(
    spark: SparkSession,
    spec: SourceSpec,
    files: Iterable[Path] | None = None,
    quarantine: Quarantine | None = None,
    *,
    again: bool = False,
    called: Callable[[Malformed], Malformed] = lambda row: row,
) -> Frame:
    """The rows of a source, or of some of its files. Malformed rows are put into the quarantine, if there is one,
    except where they are read `again` and are in it already. `called` turns a malformed row of a copy into one of the
    file.

    Raises: UserError, without a quarantine, at a file that is malformed as a whole. A malformed row raises one when it
        is read.
    """
    to = fail if quarantine is None else pass_over if again else quarantine.reject

    def reject(row: Malformed) -> None:
        to(called(row))

    given = list_files(spec) if files is None else [*files]
    for file in given:
        if spec.format.name not in COLUMNAR:
            packed_suffix(file)  # Spark would read some as if they were not packed
        must_be_whole(file)
    paths = [file for file in given if _is_whole(spec, file, reject)]
    if not paths:
        return from_dataframe(spark.createDataFrame([], row_schema(spec.row)), spec.row)

    kept = None if again else quarantine
    apart = quarantine is not None
    tables = [
        _table(spark, spec, parts, some, None if kept is None else reject, apart=apart)
        for parts, some in _alike(spec, paths)
    ]
    table = tables[0] if len(tables) == 1 else reduce(DataFrame.unionAll, (t.selectExpr("*") for t in tables))
    frame = from_dataframe(table, spec.row)
    return attrs.evolve(frame, weight=TAGGED, mixed=True) if spec.tagged else frame


def _alike(spec: SourceSpec, paths: Iterable[Path]) -> list[tuple[Apart, list[Path]]]:
    """The files grouped by their columns, which headers may have in any order, and by which of these are in their
    paths."""
    found: dict[Apart, list[Path]] = {}
    format = FORMATS[spec.format.name]
    for path in paths:
        parts = of_path(spec, path).without_values()
        found.setdefault(attrs.evolve(parts, own=format.resolved(parts.own, path)), []).append(path)
    return [
        (parts, [*some])
        for parts, files in found.items()
        for some in (format.apart(parts.own, files) if parts.columns else [files])
    ]


def _table(
    spark: SparkSession, spec: SourceSpec, parts: Apart, paths: Sequence[Path], reject: Reject | None, *, apart: bool
) -> DataFrame:
    """The rows of files that are read alike; with `apart`, malformed rows are left out."""
    kept = len(parts.names) if parts.columns else 0
    named = {path_to_read(spark, path, kept): path for path in paths}

    def rows() -> ParsedRows:
        return FORMATS[spec.format.name].read(spark, parts.own, [*named], apart)

    def whole(found: ParsedRows) -> DataFrame:
        return completed(found.kept(), spec, parts, [TAG] if spec.tagged else [])

    def all_rows() -> DataFrame:
        with settings(spark, MEANING):
            return whole(rows())

    names = FORMATS[spec.format.name].columns(spec)
    if reject is not None:
        with settings(spark, MEANING):
            found = rows()
            _set_aside(spec, found, named, reject)
            return whole(found)
    if names is None:
        return all_rows()
    kind = (_kind(spec), attrs.evolve(parts, own=_kind(parts.own)), apart)
    size = sum(path.stat().st_size for path in paths)
    return FileScan(spark, kind, names, [*named], all_rows, size)


def _kind(spec: SourceSpec) -> SourceSpec:
    """How files are read: the source without its name and paths."""
    return attrs.evolve(spec, name="", path="", deletions=None)


def _is_whole(spec: SourceSpec, file: Path, reject: Reject) -> bool:
    fault = check_file(spec, file)
    if fault is not None:
        reject(fault)
    return fault is None


def _set_aside(spec: SourceSpec, rows: ParsedRows, named: Mapping[str, Path], reject: Reject) -> None:
    """Rejects the malformed rows. Spark finds the files with such rows; the reference reader, their lines.

    Raises: InternalError where the two do not find as many.
    """
    if rows.malformed is None:
        return
    counted = {path_of(uri): n for uri, n in rows.malformed.groupBy("file").count().collect()}
    for name, file in named.items():
        if name in counted:
            found: list[Malformed] = []
            for _ in read_changes(spec, file, reject=found.append):
                pass
            if len(found) != counted[name]:
                message = f"{counted[name]} malformed rows in {file}, of which {len(found)} are found again"
                raise InternalError("readers", message)
            for row in found:
                reject(row)


COLUMNAR = ("parquet", "orc")
"""The formats that compress what is in a file, whatever its name is."""


def read_batch(
    spark: SparkSession,
    spec: SourceSpec,
    arrived: Iterable[Part],
    columns: ColumnNames,
    quarantine: Quarantine | None = None,
) -> Frame:
    """The rows of a batch, with weights where the source can delete rows."""
    if not spec.lies_in_files:
        return _of_portions(spark, spec, [part for part in arrived if isinstance(part, Portion)], columns)
    sides: list[Frame | None] = []
    parts = [part for part in arrived if isinstance(part, Arrived)]
    for weight in (1, -1):
        new = [part for part in parts if part.weight == weight and part.withdrawn is None]
        back = [part.file for part in parts if part.weight == weight and part.withdrawn is not None]
        by_place = {part.read_from: part for part in new}

        def called(row: Malformed, by_place: Mapping[Path, Arrived] = by_place) -> Malformed:
            return by_place[row.file].called(row)

        kinds = {part.format: part.described(spec) for part in new}
        frames = [
            read(spark, kind, [part.read_from for part in new if part.format == format], quarantine, called=called)
            for format, kind in kinds.items()
        ]
        frames += [read(spark, spec, back, quarantine, again=True)] if back else []
        sides.append(union(frames, spec.row, columns) if len(frames) > 1 else next(iter(frames), None))
    inserted, deleted = sides
    if deleted is None:
        return inserted or read(spark, spec, [], quarantine)
    return changes(inserted, deleted, columns)


def _of_portions(spark: SparkSession, spec: SourceSpec, portions: Sequence[Portion], columns: ColumnNames) -> Frame:
    """The rows that an adapter has read, as values or in files."""
    files = [file for part in portions for file in part.files]
    if not files:
        return _given(spark, spec, [change for part in portions for change in part.rows], columns)
    assert not any(part.rows for part in portions)
    inserted, deleted = (rows_files(spark, spec.row, [f for f in files if f.weight == weight]) for weight in (1, -1))
    if deleted is None:
        assert inserted is not None
        return inserted
    return changes(inserted, deleted, columns)


def _given(spark: SparkSession, spec: SourceSpec, changes_: Sequence[tuple[Value, int]], columns: ColumnNames) -> Frame:
    """Rows that an adapter has read in the driver, as a frame."""

    def frame(sign: int) -> Frame:
        rows = [row for row, weight in changes_ for _ in range(max(0, sign * weight))]
        return from_dataframe(to_dataframe(spark, rows, ty.BagType(spec.row)), spec.row)

    if all(weight > 0 for _, weight in changes_):
        return frame(1)
    return changes(frame(1) if any(weight > 0 for _, weight in changes_) else None, frame(-1), columns)


def read_net(spark: SparkSession, spec: SourceSpec, quarantine: Quarantine | None = None) -> Frame:
    """The rows of a source: all that were inserted, without those that were deleted.

    Raises: MissingRow when a row is deleted that is not there.
    """
    if spec.lies_in_files and (spec.versioned or not spec.shrinks):
        return read(spark, spec, None, quarantine)
    columns = ColumnNames()
    come: list[Part]
    if spec.lies_in_files:
        come = [*files_of_all_directories(spec)]
    else:
        whole = everything(spec)
        if spec.key is None:  # deletions by an adapter of rows that are not there leave no rows
            return _of_portions(spark, spec, [attrs.evolve(whole, rows=tuple(ZSet.weighted(whole.rows)))], columns)
        come = [whole]
    with placed({spec.name: spec}):
        rows = read_batch(spark, spec, come, columns, quarantine)
        if spec.key is not None:
            return net_of_upserts(spec.name, spec.key, rows, spark)
        return net(spec.name, rows, columns, spark)


def row_schema(row: Type) -> str:
    """The columns of a row type, in DDL."""
    return ", ".join(f"{quote(name)} {sql_type(t)}" for name, t in row_columns(row))


def find_malformed(specs: Iterable[tuple[SourceSpec, Iterable[Arrived]]]) -> None:
    """Reads files with the reference reader.

    Raises: UserError at the first malformed row, with its file and line.
    """
    for spec, parts in specs:
        for part in parts:

            def reject(row: Malformed, part: Arrived = part) -> None:
                fail(part.called(row))

            with part.named():
                for _ in read_changes(part.described(spec), part.read_from, reject=reject):
                    pass
