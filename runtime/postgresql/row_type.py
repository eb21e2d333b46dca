"""The type of the rows of a table, found in the catalog of the database, for a stream that does not give it.

A column is taken if all values of its type are of one type here. A `numeric` of any number of digits has no such type,
nor has an array or an interval: such a column is left out, and so is one that the log does not have. A type in the
query says what a column is to be read as.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.runtime.postgresql.change_streams import published_table
from mrql.runtime.postgresql.columns import READ_FROM
from mrql.runtime.postgresql.connection import connect, translated
from mrql.runtime.postgresql.published import CatalogColumn, Looked
from mrql.runtime.postgresql.source import polled_table

OWN: Mapping[str, Type] = {
    **{source: t for t in (ty.BOOL, ty.STRING, ty.BYTES, ty.DATE, ty.TIMESTAMP, ty.ANY) for source in READ_FROM[t]},
    "int2": ty.INT,
    "int4": ty.INT,
    "int8": ty.LONG,
    "float4": ty.FLOAT,
    "float8": ty.DOUBLE,
    "time": ty.STRING,  # the texts have the order of the times
}
"""The types here of the types of columns, by their names in `pg_type`."""
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")


def row_type(spec: SourceSpec) -> ty.RecordType:
    """The columns of the table that a stream names.

    Raises: UserError where there is no table, or none of its columns is of a type of the language; EngineError where
        the server cannot be reached.
    """
    address = published_table(spec)[0] if spec.is_log else polled_table(spec)[0]
    with closing(connect(address.conninfo, address.shown)) as connection, translated(address.shown):
        columns = Looked(connection, address, (), None, spec.span).catalog()
    typed = {column.name: _own(column, is_logged=spec.is_log) for column in columns}
    kept = tuple((name, t) for name, t in typed.items() if t is not None)
    if not kept:
        found = ", ".join(f"{column.name} {column.shown}" for column in columns)
        raise UserError(f"{address.name} has no column of a type that the language has, but {found or 'none at all'}")
    gone = tuple((column.name, _shown(column)) for column in columns if typed[column.name] is None)
    return ty.RecordType(kept, left_out=gone)


def _own(column: CatalogColumn, *, is_logged: bool) -> Type | None:
    if column.generated and is_logged:
        return None
    if column.source == "numeric":
        digits = _NUMERIC.fullmatch(column.shown)
        precision, scale = map(int, digits.groups()) if digits else (0, 0)
        return ty.DecimalType(precision, scale) if scale <= precision <= ty.MAX_PRECISION and precision else None
    # A type that does not come with the server, such as an enumeration, is read as it is printed.
    return ty.STRING if not column.source and column.is_text else OWN.get(column.source)


def _shown(column: CatalogColumn) -> str:
    return f"{column.shown}, generated" if column.generated else column.shown
