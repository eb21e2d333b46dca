"""mrql: queries over nested data, written once and kept up to date on Spark."""

from mrql.algebra.errors import EngineError, InternalError, MrqlError, UserError
from mrql.api import Delta, Query, TableChanges, View, compile, key, table, table_changes
from mrql.version import __version__ as __version__

__all__ = [
    "Delta",
    "EngineError",
    "InternalError",
    "MrqlError",
    "Query",
    "TableChanges",
    "UserError",
    "View",
    "compile",
    "key",
    "table",
    "table_changes",
]
