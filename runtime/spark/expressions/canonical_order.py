"""Values whose bags are sorted, the innermost first, so that equal bags have the same order; in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mrql.algebra import types as ty
from mrql.algebra.functions.sql_text import let_sql
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.layout import labels, quote, record_sql


class Fresh(Protocol):
    """A supply of names for lambda variables."""

    def __call__(self, base: str = ..., /) -> str: ...


def has_bag(t: Type) -> bool:
    """Whether there is a bag in the values of a type."""
    return any(isinstance(inner, ty.BagType) for inner in ty.walk(t))


def let(fresh: Fresh, value: str, body: Callable[[str], str]) -> str:
    """An expression that names a value which it uses more than once."""
    x = fresh("v")
    return let_sql(x, value, body(x))


def in_order(sql: str, t: Type, fresh: Fresh) -> str:
    """A value in which equal bags are equal arrays."""
    if not has_bag(t):
        return sql
    x = fresh("x")
    match t:
        case ty.BagType(item) if not has_bag(item):
            return f"sort_array({sql})"
        case ty.BagType(item):
            return f"sort_array(transform({sql}, {x} -> {in_order(x, item, fresh)}))"
        case ty.ListType(item):
            return f"transform({sql}, {x} -> {in_order(x, item, fresh)})"
        case _:
            fields = ((name, in_order(f"({sql}).{quote(name)}", item, fresh)) for name, item in labels(t))
            return f"if({sql} IS NULL, NULL, {record_sql(fields)})"
