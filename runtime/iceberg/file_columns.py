"""Whether a file of a table of Iceberg has the columns that are read, under the names that they have in the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.iceberg.columns import columns_of_file, other_names, parts_of_table
from mrql.runtime.iceberg.metadata import translated
from mrql.runtime.iceberg.snapshots import DataFile

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.name_mapping import MappedField
    from pyiceberg.types import NestedField


class FileColumns:
    """The columns of a table, which those of its files are checked against."""

    def __init__(self, spec: SourceSpec, table: TableMetadata, fields: Sequence[NestedField]) -> None:
        self.spec = spec
        self.parts = parts_of_table(fields)
        self.wanted = [f for f in fields if isinstance(spec.row, ty.RecordType) and f.name in spec.row.names]
        self.mapping = _name_mapping(table)
        self.partitioned = {s.spec_id: _as_they_are(s) for s in table.partition_specs}

    def checked(self, file: DataFile, path: Path) -> Path:
        """The path of a file, after checking its columns.

        Raises: UserError where the file does not identify its columns, or a column that is asked for has another name
            in it, or is not in it, although its values are not missing.
        """
        columns = columns_of_file(path, self.mapping)
        if columns is None or not self.wanted:
            return path
        if all(column.id is None for column in columns):
            message = f"{path} does not say which columns of {self.spec.path} its own are"
            raise UserError(message, hint="set schema.name-mapping.default, or rewrite the file")
        if (said := other_names(self.spec.row, self.parts, columns)) is not None:
            hint = "columns are read by their names: rewrite the data files, or leave it out with type(…)"
            raise UserError(f"the columns of {path} are called otherwise than those of the table: {said}", hint=hint)
        there = {column.id for column in columns}
        for field in self.wanted:
            if field.field_id not in there:
                self._must_be_missing(field, file, path)
        return path

    def _must_be_missing(self, field: NestedField, file: DataFile, path: Path) -> None:
        if field.initial_default is not None:
            value = f"the value {field.initial_default!r} that it has by default"
        elif field.field_id in self.partitioned.get(file.spec, ()):
            value = "the value of its partition"
        else:
            return
        hint = "rewrite the data files, or leave it out with type(…)"
        raise UserError(f"{path} has no column `{field.name}`, but {value}, which is not read here", hint=hint)


def _as_they_are(spec: PartitionSpec) -> set[int]:
    """The ids of the columns whose values a partition spec has as they are, not transformed."""
    from pyiceberg.transforms import IdentityTransform

    return {field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform)}


def _name_mapping(table: TableMetadata) -> Sequence[MappedField]:
    """The columns that the names in files without ids stand for."""
    with translated(f"schema.name-mapping.default of {table.location} cannot be read"):
        mapping = table.name_mapping()
    return () if mapping is None else mapping.root
