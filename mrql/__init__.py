"""mrql: queries over nested data, written once and kept up to date on Spark."""

from mrql.algebra.errors import EngineError, InternalError, MrqlError, UserError
from mrql.api import (
    Delta,
    FollowedSource,
    Query,
    TableChanges,
    View,
    compile,
    delta_table,
    iceberg_table,
    key,
    postgresql_cdc,
    table,
    table_changes,
)
from mrql.version import __version__ as __version__

__all__ = [
    "Delta",
    "EngineError",
    "FollowedSource",
    "InternalError",
    "MrqlError",
    "Query",
    "TableChanges",
    "UserError",
    "View",
    "compile",
    "delta_table",
    "iceberg_table",
    "key",
    "postgresql_cdc",
    "table",
    "table_changes",
]
