"""mrql: queries over nested data, written once and kept up to date on Spark."""

from mrql.algebra.errors import EngineError, InternalError, MrqlError, UserError
from mrql.api import Delta, Query, View, compile

__all__ = ["Delta", "EngineError", "InternalError", "MrqlError", "Query", "UserError", "View", "compile"]
__version__ = "0.1.0"
