"""The built-in functions, by all their names."""

from __future__ import annotations

from mrql.algebra import functions as fn
from mrql.algebra.functions import Function
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.collection_functions import DERIVED

LIBRARY: dict[str, Function] = {
    name: function for kind in fn.LIBRARY.values() for function in kind for name in (function.name, *function.also)
}
"""The functions of the algebra."""

BUILT_IN: tuple[str, ...] = (*AGGREGATIONS, *LIBRARY, *DERIVED, "distinct")
