"""Regular expressions: those that Java and Python both have, with the same meaning.

`.` is any character but a line feed, `$` the end or the line feed before it; `\\d`, `\\w`, `\\s`, `\\b` and case
mean ASCII. An expression must be a constant, so that one that the two would read in different ways, or that may take
exponential time, is refused at compile time (`wrong_pattern`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mrql.algebra.functions.function import Function, Sql, version
from mrql.algebra.functions.regex_syntax import NotAlike, Pattern
from mrql.algebra.functions.regex_time import check_time
from mrql.algebra.functions.sql_text import text_of, text_sql

_REFERENCE = re.compile(r"\\(.)|\$(\d)|([\\$])", re.DOTALL)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _checked(text: str) -> Pattern:
    """An expression that both read alike, and that does not take exponential time.

    Raises: NotAlike if it is not one.
    """
    pattern = Pattern(text)
    check_time(pattern)
    return pattern


def wrong_pattern(args: Sequence[Any]) -> str | None:
    """The error message for a regular expression; None if it is valid."""
    pattern = args[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled(pattern)
        _checked(pattern)
    except NotAlike as error:
        return str(error)
    except RecursionError:
        return "this regular expression is nested too deeply"
    except (re.error, FutureWarning, OverflowError) as error:
        # Java, and so Spark, has more escapes and extensions than Python.
        elsewhere = re.match(r"bad escape (\\[A-Za-z])|unknown extension (\?.)", str(error))
        if elsewhere is not None:
            what = elsewhere[1] or f"({elsewhere[2]}"
            return f"in a regular expression, `{what}` is not the same everywhere"
        return f"this is not a regular expression: {error}"
    return None


def _wrong_group(args: Sequence[Any]) -> str | None:
    found = wrong_pattern(args)
    if found is not None:
        return found
    groups = compiled(args[0]).groups
    return None if 0 <= args[1] <= groups else f"there is no group {args[1]} in a regular expression of {groups} groups"


def _wrong_replacement(args: Sequence[Any]) -> str | None:
    found = wrong_pattern(args)
    if found is not None:
        return found
    if _checked(args[0]).whole.empty:
        # After a match, Java and Python look for an empty match in different places.
        return "this regular expression fits the empty text, which cannot be replaced"
    groups = compiled(args[0]).groups
    for _, group, alone in _REFERENCE.findall(args[1]):
        if group and int(group) > groups:
            return f"there is no group {group} in a regular expression of {groups} groups"
        if alone:
            return f"a `{alone}` in a replacement is written `\\{alone}`"
    # Java reads a second digit as part of a reference if there are that many groups.
    if re.search(r"\$\d\d", args[1]) and groups > 9:
        return "a reference to one of more than 9 groups"
    return None


def _like(text: str, pattern: str) -> bool:
    return compiled(pattern).search(text) is not None


def _extract(text: str, pattern: str, group: int = 0) -> str:
    found = compiled(pattern).search(text)
    return (found[group] or "") if found else ""


def _substitute(text: str, pattern: str, replacement: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda r: (found[int(r[2])] or "") if r[2] else r[1], replacement)

    return compiled(pattern).sub(replaced, text)


def _in_java(sql: str) -> Sql:
    """The SQL of a function of a string, a pattern, which is rewritten for Java, and further arguments."""
    return lambda text, pattern, *more: sql.format(text, _java(pattern), *more)


def _java(pattern: str) -> str:
    """The pattern for Java: only a line feed ends a line, word borders are those of ASCII, and a choice between single
    characters is a class.

    A `\\b` is a border after an even number of backslashes; after an odd number it is an escaped backslash and a `b`.
    """
    if pattern.startswith("'"):
        pattern = text_sql(_checked(text_of(pattern)).with_classes())
    border = r"(?:(?<=\\\\w)(?!\\\\w)|(?<!\\\\w)(?=\\\\w))"
    with_borders = rf"regexp_replace({pattern}, '(?<!\\\\)((?:\\\\\\\\)*)\\\\b', '$1{border}')"
    return f"concat('(?d)', {with_borders})"


REGULAR: tuple[Function, ...] = (
    Function(
        "regexp_like",
        (version("string, string -> bool", _like, _in_java("({0} RLIKE {1})")),),
        "a string and a regular expression",
        "whether a part of the string fits",
        (('regexp_like("a1", "[0-9]$")', "true"),),
        constant=wrong_pattern,
        constants=(1,),
    ),
    Function(
        "regexp_extract",
        (
            version("string, string -> string", _extract, _in_java("regexp_extract({0}, {1}, 0)")),
            version("string, string, long -> string", _extract, _in_java("regexp_extract({0}, {1}, CAST({2} AS INT))")),
        ),
        "a string, a regular expression and the number of a group",
        "the first part that fits, or that part's group; empty where there is none",
        (('regexp_extract("k=12", "([a-z]+)=([0-9]+)", 2)', '"12"'), ('regexp_extract("k=12", "[0-9]+")', '"12"')),
        constant=lambda args: wrong_pattern(args) if len(args) == 1 else _wrong_group(args),
        constants=(1, 2),
    ),
    Function(
        "regexp_replace",
        (version("string, string, string -> string", _substitute, _in_java("regexp_replace({0}, {1}, {2})")),),
        "a string, a regular expression and a replacement",
        "with the replacement for each part that fits; `$1` in it is the part's first group",
        (('regexp_replace("2026-01", "([0-9]+)-([0-9]+)", "$2/$1")', '"01/2026"'),),
        constant=_wrong_replacement,
        constants=(1, 2),
    ),
)
