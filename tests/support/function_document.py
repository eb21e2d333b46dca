"""`docs/functions.md`, written from the table of functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra import functions as fn
from mrql.algebra.functions import Function
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.collection_functions import DERIVED

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "functions.md"

MARK = "<!-- What follows is written by `python -m tests.regenerate`. -->\n"

AGGREGATED = ", ".join(f"`{name}`" for name in AGGREGATIONS)
DERIVED_HEAD = f"""
## Collections

These functions take bags and lists, also those made from streams. So do the aggregations {AGGREGATED}
and the operators of [language.md](language.md): `distinct`, `union`, `except`, `in`, `e[i]`, `a..b`.
Missing elements are ignored, except by `size`, `sort` and `collect`. After a `group by`, the collection may be an
expression over the elements of the group, `median(x.A * 2)`, and a pair may be two arguments, `corr(x.A, x.B)`.
[incremental.md](incremental.md) has what a batch costs for each.

| function | takes → gives | | example |
|---|---|---|---|
"""
TABLE_HEAD = "| function | takes → gives | | example |\n|---|---|---|---|\n"


def document(text: str) -> str:
    """The document with its tables regenerated."""
    parts = [text.partition(MARK)[0], MARK]
    for kind, functions in fn.LIBRARY.items():
        parts += [
            f"\n## {kind if kind != 'Dates and timestamps' else 'Functions of dates and timestamps'}\n\n",
            TABLE_HEAD,
        ]
        parts += [_row(function) for function in functions if function.examples]
    parts.append(DERIVED_HEAD)
    for function in DERIVED.values():
        parts.append(_line(f"`{function.name}`", function.signature, function.meaning, function.examples))
    return "".join(parts)


def _row(function: Function) -> str:
    names = ", ".join(f"`{name}`" for name in (function.name, *function.also))
    written = dict.fromkeys(str(version.signature) for version in function.versions)  # some have two forms in SQL
    signatures = "<br>".join(f"`{_quoted(signature)}`" for signature in written)
    meaning = function.meaning
    if function.constants:
        meaning += "; " + " and ".join(_ordinal(place) for place in function.constants) + " must be constant"
    return _line(names, signatures, meaning, function.examples)


def _line(name: str, types: str, meaning: str, examples: tuple[tuple[str, str], ...]) -> str:
    shown = "<br>".join(f"`{_quoted(call)}` = `{_quoted(value)}`" for call, value in examples)
    return f"| {name} | {types} | {meaning} | {shown} |\n"


def _ordinal(place: int) -> str:
    return f"the {('first', 'second', 'third')[place]} argument"


def _quoted(text: str) -> str:
    return text.replace("|", "\\|")


def examples() -> Iterator[tuple[str, str]]:
    """All calls in the document with their values."""
    for kind in fn.LIBRARY.values():
        for function in kind:
            yield from function.examples
    for function in DERIVED.values():
        yield from function.examples
