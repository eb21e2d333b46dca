"""Functions written behind what they take, as methods are elsewhere: `s.upper()`, and what to write here."""

from __future__ import annotations

from collections.abc import Sequence

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.collection_functions import DERIVED
from mrql.translate.other_names import HERE
from mrql.translate.scope import Scope

BUILT_IN = {
    *(name for kind in fn.LIBRARY.values() for function in kind for name in (function.name, *function.also)),
    *AGGREGATIONS,
    *DERIVED,
    "distinct",
}
"""The functions that there are without a program's own."""


def method_hint(name: str, of: syntax.Expr, args: Sequence[syntax.Expr], scope: Scope) -> str | None:
    """The hint for `of.name(args)`, if a function of that name is known here or elsewhere."""
    known = scope.globals
    if name in BUILT_IN or name in known.functions or name in known.macros or name in known.aggregations:
        written = ", ".join(arg.span.text for arg in (of, *args))
        return f"a function stands before what it takes: `{name}({written})`"
    return HERE.get(name.lower())
