"""Hints for functions that are called like methods of other languages, as in `s.upper()`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mrql import syntax
from mrql.translate.library import BUILT_IN
from mrql.translate.other_names import HERE
from mrql.translate.scope import Scope

GROUPED = "groups are made by `select (k, count(x)) from x in X group by k: x.A`"


def method_hint(name: str, of: syntax.Expr, args: Sequence[syntax.Expr], scope: Scope) -> str | None:
    """The hint for `of.name(args)`, if a function of that name is known here or elsewhere."""
    if name.lower() == "groupby" or re.search(r"\.\s*groupby\s*\(", of.span.text, re.IGNORECASE):
        return GROUPED
    known = scope.globals
    if name in BUILT_IN or name in known.functions or name in known.macros or name in known.aggregations:
        written = ", ".join(arg.span.text for arg in (of, *args))
        return f"a function stands before what it takes: `{name}({written})`"
    return HERE.get(name.lower())
