"""Names of fields as data may have them, and queries to put them in.

The names of fields make no difference: a query with plain names, and the same one with odd names in their place, have
the same answer, but for these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.terms import Get, Rec
from mrql.algebra.types import RecordType, Type
from mrql.algebra.values.values import Bag, Record, Value

ODD = (
    *(
        "a`b",
        "`",
        "``",
        "a'b",
        "'",
        'a"b',
        '"',
        "a\\b",
        "\\",
        "\\'",
        "\\`",
        "\\u0041",
        "a.b",
        ".",
        "a b",
        " ",
        " a",
        "a ",
    ),
    *(
        "${x}",
        "${env:HOME}",
        "%",
        "%s",
        "\\%",
        "{0}",
        "{}",
        "*",
        "a:b",
        "a,b",
        "a;b",
        "<a>",
        "[0]",
        "$",
        "$.a",
        "?",
        "a?b",
    ),
    *("/*", "*/", "--", "#", "@a", "(", ")", "a\nb", "\t", "\r", "\x01", "é", "e\u0301", "ß", "SS", "ı", "I", "i", "İ"),
    *("😀", "\u200b", "\u00a0", "\ufeff", "\ufffd", "日本", "1", "1a", "-1", "0x1"),
)
"""Quotes, blanks, text with a meaning in SQL, formats or paths, and characters that are equal to others somewhere."""

WORDS = ("select", "SELECT", "from", "order", "null", "NULL", "true", "struct", "array", "map", "interval", "timestamp")
OURS = (
    "c__0",
    "c__1",
    "C__1",
    "k0",
    "k1",
    "K0",
    "w",
    "W",
    "x__v0",
    "v__v_0",
    "touched",
    "weight",
    "rows",
    "_1",
    "_2",
    "_10",
)
OURS += (
    "value",
    "Value",
    "is",
    "c",
    "v",
    "n",
    "support",
    "key",
    "mrql",
    "mrql_tag",
    "mrql_file",
    "mrql_corrupt",
    "file",
)
OURS += (
    "mrql_number",
    "m0",
    "mrql_array",
    "mrql_weight",
    "_metadata",
    "_corrupt_record",
    "line",
    "number",
    "partition",
)
LONG = ("x" * 300, "ä" * 300)
CASES = ("a", "A", "ab", "aB", "AB", "Ab", "ä", "Ä", "σ", "ς", "Σ")
NAMES = (*ODD, *WORDS, *OURS, *LONG, *CASES)


def names(count: int) -> st.SearchStrategy[list[str]]:
    """`count` different names, which often differ in case alone."""
    text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8)
    one = st.sampled_from(NAMES) | st.sampled_from(CASES) | st.sampled_from(OURS) | text
    return st.lists(one, min_size=count, max_size=count, unique=True)


def renamed(part: Any, to: Mapping[str, str]) -> Any:
    """A term or a type with its fields renamed."""
    match part:
        case RecordType(fields):
            return RecordType(tuple((to.get(name, name), renamed(t, to)) for name, t in fields))
        case Get():
            return attrs.evolve(part, term=renamed(part.term, to), name=to.get(part.name, part.name))
        case Rec(fields):
            return attrs.evolve(part, fields=tuple((to.get(name, name), renamed(item, to)) for name, item in fields))
        case tuple():
            return tuple(renamed(item, to) for item in part)
        case Record() | Bag() | list():
            return renamed_value(part, to)
        case _ if attrs.has(type(part)) and type(part).__module__.startswith("mrql.algebra"):
            named = {f.name: getattr(part, f.name) for f in attrs.fields(type(part)) if f.init and f.name != "span"}
            changed = {name: new for name, old in named.items() if (new := renamed(old, to)) is not old}
            return attrs.evolve(part, **changed) if changed else part
        case _:
            return part


def renamed_value(value: Value, to: Mapping[str, str]) -> Value:
    """A value with its fields renamed."""
    match value:
        case Record():
            return Record({to.get(name, name): renamed_value(item, to) for name, item in value.fields.items()})
        case tuple():
            return tuple(renamed_value(item, to) for item in value)
        case Bag():
            return Bag(renamed_value(item, to) for item in value)
        case list():
            return [renamed_value(item, to) for item in value]
        case _:
            return value


ROW: Type = ty.BagType(
    RecordType(
        (
            ("F0", ty.LONG),
            ("F1", ty.STRING),
            ("F2", RecordType((("F0", ty.LONG), ("F3", ty.DOUBLE)))),
            ("F4", ty.BagType(RecordType((("F0", ty.LONG), ("F1", ty.LONG))))),
        )
    )
)
OTHER: Type = ty.BagType(RecordType((("F0", ty.LONG), ("F1", ty.DOUBLE))))
STREAMS: Mapping[str, Type] = {"S": ROW, "T": OTHER}
FIELDS = ("F0", "F1", "F2", "F3", "F4")


def row(a: int | None, b: str | None, c: float | None, *inner: tuple[int, int]) -> Record:
    nested = Bag(Record({"F0": x, "F1": y}) for x, y in inner)
    return Record({"F0": a, "F1": b, "F2": Record({"F0": a, "F3": c}), "F4": nested})


CONTENTS: Mapping[str, Bag] = {
    "S": Bag(
        [row(1, "x", 0.5, (1, 2), (2, 3)), row(2, "y", None), row(1, None, 2.5, (1, 2)), row(3, "x", 1.5, (4, 4))]
    ),
    "T": Bag([Record({"F0": a, "F1": b}) for a, b in ((1, 0.5), (2, 1.5), (2, 2.5), (4, None))]),
}

QUERIES = (
    "select x from x in S",
    "select distinct x from x in S",
    "select (k, count(x)) from x in S group by k: x.F1",
    "select <F0: k, F1: sum(x.F0), F2: max(x.F2.F3)> from x in S group by k: x.F1",
    "select (k, count(x)) from x in S group by k: x.F2",
    "select (k, count(x)) from x in S group by k: x.F4",
    "select <F0: x, F1: y> from x in S, y in T where x.F0 = y.F0",
    "select <F0: x.F1, F1: y.F1, F2: x.F2.F3> from x in S, y in T where x.F2.F0 = y.F0 and x.F2.F3 < y.F1",
    "select <F0: x.F0, F1: (select y from y in T where y.F0 = x.F0)> from x in S",
    "select <F0: y.F0, F1: z.F1> from x in S, y in T, z in x.F4 where z.F0 = y.F0",
    "select x.F2 from x in S order by x.F2.F3, x.F1",
    "select <F0: x.F0, F1: sum(select z.F1 from z in x.F4)> from x in S",
    "select <F0: x.F0, F1: k> from x in S group by k: x.F1 having count(x) > 1",
    "(count(S), sum(select x.F2.F0 from x in S), max(select x.F1 from x in S))",
    "<F0: count(S), F1: sum(select x.F0 from x in S)>",
    "select x from x in S where exists(select y from y in T where y.F0 = x.F0)",
    "select x as any from x in S",
    "select (x as any).F0 from x in S",
    "repeat r = T step (select distinct <F0: z.F0, F1: z.F1> from z in"
    " (r union (select <F0: x.F0, F1: r0.F1> from x in S, r0 in r where x.F0 = r0.F0))) limit 2",
)
