"""Functions for values that may be missing. None of them evaluates an argument that it does not need."""

from __future__ import annotations

from mrql.algebra.functions.function import Function, version
from mrql.algebra.values.values import Value, canonical


def _first_present(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def least(*values: Value) -> Value:
    return min((v for v in values if v is not None), key=canonical, default=None)


def greatest(*values: Value) -> Value:
    return max((v for v in values if v is not None), key=canonical, default=None)


def _null_if(a: Value, b: Value) -> Value:
    return None if a is not None and b is not None and canonical(a) == canonical(b) else a


IS_NULL = Function(
    "is_null",
    (version("t -> bool", lambda a: a is None, "({0} IS NULL)"),),
    "a value",
    "whether it is missing",
    (("is_null(null)", "true"), ("is_null(0)", "false")),
    null_safe=True,
)
COALESCE = Function(
    "coalesce",
    (version("t, t... -> t", _first_present, "coalesce({all})"),),
    "values of one type",
    "the first that is there; those after it are not evaluated",
    (("coalesce(null, 2, 3)", "2"), ("coalesce(1, 1 / 0)", "1")),
    ("if_null",),
    null_safe=True,
)
NULLS: tuple[Function, ...] = (
    IS_NULL,
    COALESCE,
    Function(
        "nullif",
        (version("a, a -> a", _null_if, "nullif({0}, {1})"),),
        "two atomic values of one type",
        "the first, and missing where the second equals it",
        (('nullif("", "")', "null"), ("nullif(1, 2)", "1")),
        null_safe=True,
    ),
    Function(
        "least",
        (version("a, a, a... -> a", least, "least({all})"),),
        "two or more atomic values of one type",
        "the least of those that are there",
        (("least(3, 1.5, null)", "1.5"),),
        null_safe=True,
    ),
    Function(
        "greatest",
        (version("a, a, a... -> a", greatest, "greatest({all})"),),
        "two or more atomic values of one type",
        "the greatest of those that are there",
        (('greatest("a", "b")', '"b"'),),
        null_safe=True,
    ),
)
