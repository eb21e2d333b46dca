"""Hints for the notation of SQL, Python and other languages: what to write here instead.

A hint is chosen where the parser cannot continue, by the text from there on and by the text before it.
"""

from __future__ import annotations

import re

import attrs

JOIN = "join by a condition: `select … from a in A, b in B where a.K = b.K`"
EACH_TIME = (
    "an element of the left stays as often as it is there, or goes, however often the right has it: leave out `all`"
)
PARTNERS = "what may have no partner is nested: `select (a, (select b from b in B where b.K = a.K)) from a in A`"
IF = "write `if c then a else b`"
ROUND = "a `,` behind a `from` goes on with it: put the select in round brackets"
WINDOW = (
    "a window is a list: `(x, n) in row_number(select x from x in X order by x.A)`, also of a group (docs/from-sql.md)"
)
LIKE = 'write `startswith(s, "a")`, `endswith`, `contains`, or `regexp_like(s, "^a.*z$")`'
SAME = "write `a = b or is_null(a) and is_null(b)`"
AS_A_TYPE = "write `e as date`, or as another type"
LATER = "write `add_days(d, 1)`, `add_months`, or `add_hours` of a timestamp"
PARTS = "take a part of a list: `(select … order by …)[10:19]`"
NO_WORD = "what is named needs no word before it: `x = 3;`, or in an expression `let x = 3 in x + 1`"
OPERANDS = r"(?!from\b)[\w\"'({\[]"
"""The beginning of an operand: a word that none follows may be the name of a column, and not an operator."""
COUNT = "`count(x)` counts the elements of a collection, or of a group by a variable of its `from`"
LET = "an `in` goes on with the `let`: put the select that it names in round brackets, `let y = (select …) in …`"
GENERATOR = "a `from` names the elements of each collection: `from x in X`"
FUNCTION = "a function says its types: `function f(x: long): long { … }`; a macro has none: `macro f(x) { … }`"
XML = "the first `|]` ends the literal: name the inner one before, `inner = [xml| … |];`, and write `{inner}`"
BODY = "the body stands in braces, without `=`: `{ … }`"
SELECT = "write `(select e from x in X where c)`"
PART = "a part of a list is written with both of its ends, from 0 on: `xs[1:3]` are the elements 1, 2 and 3"
ROW_TYPE = "a row with names is a record: `type(<a: int, b: string>)`"
RECORD = "what has names is a record: `<a: …, b: …>`"
NAMED = "a name stands before what it is of"
WHOLE = "a record as a whole is its name: `select x from x in X`, or `x, y` of two"
TYPES = r"bool|int|long|float|double|string|binary|date|timestamp|decimal(\([\d\s,]+\))?"
_LIST = "`[int]`, a list, or `{int}`, a bag"
_MAP = "`{(string, int)}`, a bag of pairs: `m[k]` is the value beside a key"
_RECORD = "`<a: int, b: string>`, a record"
_BAG = "`{int}`, a bag, in which a value may be several times"
NESTED_TYPES: dict[str, str] = {
    **dict.fromkeys(("array", "list", "vector"), _LIST),
    **dict.fromkeys(("map", "dict"), _MAP),
    **dict.fromkeys(("struct", "row", "record"), _RECORD),
    **dict.fromkeys(("set", "bag", "multiset"), _BAG),
}
"""Types with parameters, by their names in other systems, and how they are written here."""
LENGTH = "write `string`, without a length: texts of a file are not held against one"
IN_BRACKETS: tuple[tuple[str, str], ...] = (
    (r"n?(var)?char2?|character|string|text", LENGTH),
    (r"timestamp\w*|datetime2?|time", "leave the brackets out: a `timestamp` has six digits of a second's part"),
    (r"float|real|double", "leave the brackets out: a `float` has 24 bits of digits, a `double` 53"),
    (r"number", "write `decimal(12, 2)`"),
    (r"(big|small|tiny|medium)?int(eger)?|long|short|byte", "leave the brackets out: they say nothing of the values"),
)
"""Types that other systems write with numbers in brackets, as patterns of their names, and what to write instead."""


def brackets_hint(name: str) -> str:
    """The hint for a type that is written with numbers in brackets, but takes none."""
    fitting = (hint for names, hint in IN_BRACKETS if re.fullmatch(names, name, re.IGNORECASE))
    return next(fitting, "decimal(12, 2) has")


@attrs.frozen
class Habit:
    """A hint, and the patterns of a text at an error that it is for: `here` from the error on, `before` up to it."""

    hint: str
    here: str = ""
    before: str = ""

    def fits(self, before: str, here: str) -> bool:
        return bool(
            re.match(self.here, here, re.IGNORECASE) and re.search(rf"(?:{self.before})\Z", before, re.IGNORECASE)
        )


ALIAS = r"(?:\bfrom\s+|,\s*)(\w+)\s+(?:as\s+)?(?!(?:where|group|order|on|limit|union)\b)([^\W\d]\w*)\s*\Z"
"""A collection that is followed by its variable, and not by a clause."""
NUMBERS: tuple[tuple[str, str, str], ...] = (
    ("write `2`, which is a `long` beside one, or `2 as long`", r"l\b", r"(?<![\w.])\d+"),
    ("write `1.5m`, a decimal", r"bd\b", r"(?<![\w.])\d+(\.\d+)?"),
    ("write `1.5`, a double, or `2 as double`", r"d\b", r"(?<![\w.])\d+(\.\d+)?(e[+-]?\d+)?"),
    ("write `1.5 as float`", r"f\b", r"(?<![\w.])\d+(\.\d+)?(e[+-]?\d+)?"),
    ("a number is written in tens: `16`, and not `0x10`", r"[xob][\da-f_]+\b", r"(?<![\w.])0"),
    ("the digits of a number stand together: `1000`", r"_\d", r"(?<![\w.])\d+"),
    ("a decimal is written with all of its digits: `1000m`", r"m\b", r"(?<![\w.])\d+(\.\d+)?e[+-]?\d+"),
)
"""Constants as other languages write them: the hint, and the patterns of the text from an error on and before it."""
COMMENT = "`//` begins a comment; the quotient of integers is a whole number: `a / b`"


def comment_hint(before: str) -> str | None:
    """The hint for a text that ends too early, if its last line has a comment that looks like a division."""
    line = before.rsplit("\n", 1)[-1]
    return COMMENT if re.search(r"[\w)\]]\s*//\s*(\d|\w+(\.\w+)?\s*[)\]}>,])", line) else None


HABITS: tuple[Habit, ...] = (
    *(
        Habit(f"write {here}", *at)
        for name, here in NESTED_TYPES.items()
        for at in (
            (r"[<\[]", rf"(?:[:(,<{{\[]|\bas|\btype\s+\w+\s*=)\s*{name}\s*"),
            ("", rf"\bas\s+{name}\s*<[^;]*>\s*"),
        )
    ),
    Habit("write `[int]`, a list, or `{int}`, a bag", r"\[\s*\]", rf"[:(,<{{\[]\s*({TYPES}|\w*int)\s*"),
    Habit("write `double`", r"precision\b", r"\bdouble\s+"),
    Habit("write `long`", r"\w*int\b", r"\bunsigned\s+"),
    Habit("write `string`", r"varying\b", r"\bchar(acter)?\s+"),
    Habit("write `timestamp`: what the clock shows in UTC", r"with(out)?\s+(local\s+)?time\b", r"\btimestamp\s+"),
    Habit("a field is written with a `:`: `<a: int>`", rf"({TYPES}|\w*(int|char)|decimal)\b", r"<\s*\w+\s+"),
    Habit("write `not is_null(e)`", r"is\s+not\s+(null|none)\b"),
    Habit("write `is_null(e)`", r"is\s+(null|none)\b"),
    Habit(SAME, r"is\s+(not\s+)?distinct\b"),
    Habit(SAME, ">", "<="),
    Habit(
        "write `coalesce(c, false)`, which is false where c is missing, or `not coalesce(c, true)`",
        r"is\s+(not\s+)?(true|false|unknown)\b",
    ),
    Habit("write `e < low or e > high`", r"not\s+between\b"),
    Habit("write `e >= low and e <= high`", r"between\b"),
    Habit(LIKE, r"(not\s+)?(i?like|rlike|similar)\b"),
    Habit(LIKE, rf"(not\s+)?(regexp|glob|matches|contains|(starts|ends)(\s*with)?)\s+{OPERANDS}"),
    Habit('write `regexp_like(s, "^a.*z$")`, or `not regexp_like(…)`', "!?~", r"[\w)\]\"'=!]\s*"),
    Habit('the format comes first: `source(csv, "file.csv", ",", header)`', r"\"", r"\b(source|stream)\s*\(\s*"),
    Habit(
        "a function is defined by `macro f(x) { … };`, or with types by `function`",
        r"\w+\s*\(",
        r"(?:^|;|\n)\s*(def|define|fn|func?|proc|procedure|sub)\s+",
    ),
    Habit("the body is the value: leave out `return`", before=r"\breturn\s+"),
    Habit(NO_WORD, before=r"(?:^|;|\n)\s*(set|var|val|const|final|auto|declare)\s+"),
    Habit(NO_WORD, r";|\Z", r"(?:^|;|\n)\s*let\s+\w+\s*=[^;]*"),
    Habit(
        "`mrql explain FILE` shows what a batch costs; in the shell it is `:explain e`",
        before=r"(?:^|;|\n)\s*explain\s+",
    ),
    Habit(
        "`mrql infer FILE…` finds the type of the rows of files; in the shell `:type e` shows that of an expression",
        before=r"(?:^|;|\n)\s*(describe|desc|show)\s+",
    ),
    Habit("the `select` stands first: `select f.A from f in F`", r"from\b[^;]*\bselect\b", r"(?:^|[;({=])\s*"),
    Habit("write `from x in X, y in x.Ys`, for the elements of a part of each row", r"lateral\s+view\b"),
    Habit("write `from x in X, y in x.Ys`, for the elements of a part of each row", before=r"\blateral\s+"),
    Habit(PARTNERS, r"(left|right|full)\s+(outer\s+)?join\b"),
    Habit(JOIN, r"((inner|cross|natural)\s+)?join\b"),
    Habit(JOIN, before=r"\bjoin\s+\w+\s+"),
    Habit(JOIN, r"using\s*\("),
    Habit(JOIN, r"on\s+[\w`.]+\s*="),
    Habit(GENERATOR, r"\{", r"\bfrom\s+"),
    Habit(
        "what a function is given stands in round brackets: `count(x)`",
        r"\w",
        r"(?:\A|[;(,=]|\bselect)\s*(count|sum|avg|min|max|abs|round|length|upper|lower|is_null)\s+",
    ),
    Habit(XML, r"\}", r"\[xml\|[^;]*\{[^}]*\[xml\|[^;]*\|\]\s*"),
    Habit(WINDOW, rf"over\s*{OPERANDS}"),
    Habit(
        "choose by the number: `select x from (x, n) in row_number(select x from x in X order by x.A) where n = 1`",
        r"qualify\b",
    ),
    Habit("name it before the query: `name = select …;`", before=r"\bwith\s+(recursive\s+)?"),
    Habit(f"{IF}, or `case e {{ 1: a | 2: b | _: c }}`", before=r"\bcase\s+when\s+"),
    Habit(f"write `case e {{ 1: a | 2: b | _: c }}`, or {IF.removeprefix('write ')}", r"when\b"),
    Habit(COUNT, r"\*", r"\bcount\s*\(\s*"),
    Habit("write `year(d)`, `month(d)`, `day(d)`, `hour(t)`", r"from\b", r"\bextract\s*\(\s*\w+\s+"),
    Habit("write `count_distinct(e)`, or `sum(distinct(e))`", before=r"\w\s*\(\s*distinct\s+"),
    Habit(
        "missing values come first, with `desc` last: put `is_null(e)` before `e` for last, `not is_null(e)` for first",
        r"nulls\s+(first|last)\b",
    ),
    Habit("`union` keeps all that both sides have: leave out `all`", before=r"\bunion\s+all\s+"),
    Habit(EACH_TIME, before=r"\b(intersect|except)\s+all\s+"),
    Habit("write `distinct(X union Y)`", before=r"\b(union|intersect|except)\s+distinct\s+"),
    Habit("write `X except Y`; each element once is `distinct(X except Y)`", r"minus\s*(\(|select\b)"),
    Habit("it stands between two collections: `X union Y`", r"(union|intersect|except)\b", r"(?:\A|[;(\[{,=])\s*"),
    Habit(PARTS, r"(offset|fetch)\b"),
    Habit(f"{PARTS}, the ten behind the first ten", ",", r"\blimit\s+\w+\s*"),
    Habit("write `order by`", r"sort\s+by\b"),
    Habit("leave it out: rows go where they are needed", r"(cluster|distribute)\s+by\b"),
    Habit("aggregate a select over the group: `sum(select x.A from x in g where x.A > 1)`", r"filter\s*\("),
    Habit(AS_A_TYPE, r"::"),
    Habit(AS_A_TYPE, ":", before=":"),
    Habit(f"{NAMED}: `select n: e from …`", r"[\"']", r"\bas\s+"),
    Habit("leave out the `,` before the `from`", r"from\b", r",\s*"),
    Habit(r"in a text, a quote is written `\'`", "'", r"'[^']*'"),
    Habit('write `date("2026-01-31")`, or `timestamp("2026-01-31 10:20:30")`', r"[\"']", r"\b(date|timestamp)\s*"),
    Habit(LATER, before=r"\binterval\s+"),
    Habit(LATER, r"(micro|milli)?(second|minute|hour|day|week|month|quarter|year)s?\b", r"[+-]\s*\d+\s+"),
    Habit("a `timestamp` is in UTC: what a clock elsewhere shows is `add_hours(t, 2)`, say", r"at\s+time\s+zone\b"),
    *(Habit(*number) for number in NUMBERS),
    Habit("a part of a tuple has a place, from 0 on: `t#0`", r"\d", r"\."),
    Habit("a field whose name has other signs is in backquotes: p.`unit price`", r"[\"']", r"[\w)\]]\.\s*"),
    Habit("the quotient of integers is a whole number: `a / b`", rf"div\s+{OPERANDS}"),
    Habit("any value may be missing: leave it out", r"\?|(not\s+)?null\b", rf":\s*({TYPES})\s*"),
    Habit("what is missing has missing parts: write `x.A`", r"\?\."),
    Habit("write `coalesce(a, b)`", r"\?[?:]"),
    Habit(IF, r"\?"),
    Habit(IF, r"if\b(?:(?!\bthen\b)[^;])*\belse\b"),
    Habit(SELECT, ">", r"\.\s*(filter|where|map|flatmap|select|foreach)\s*\(\s*\(?\s*\w+\s*\)?\s*[-=]"),
    Habit(SELECT, r"for\s[^;]*?\bin\b"),
    Habit("a function without a name is `\\x. e`", before=r"\blambda\s+"),
    Habit("write `pow(x, y)`", r"\*", r"\w\)?\s*\*"),
    Habit("write `pow(x, y)`", r"\^"),
    Habit(PART, ":", r"[\w)\]]\[\s*"),
    Habit(PART, r"\]", r"[\w)\]]\[[^\[\]]*:\s*"),
    Habit("write `select x from x in X order by x.A limit 3`", r"\d", r"\bselect\s+(distinct\s+)?top\s+"),
    Habit(FUNCTION, r"[,)]", r"\bfunction\s+\w+\s*\([^()]*"),
    Habit(FUNCTION, r"[={]", r"\bfunction\s+\w+\s*\([^()]*\)\s*"),
    Habit(BODY, "=", r"\b(function|macro)\s+\w+\s*\([^;{}=]*\)[^;{}=]*"),
    Habit(RECORD, ":", r"(?<!\w)\(\s*\w+\s*"),
    Habit(RECORD, ":", r"\{\s*[^\W\d]\w*\s*"),
    Habit(
        f'{RECORD}; keys that are values stand in pairs: `{{("a", 1), ("b", 2)}}`',
        ":",
        r"\{\s*(\d+|\"[^\"]*\"|'[^']*')\s*",
    ),
    Habit(ROW_TYPE, r":|\w", r"\btype\s*\(\s*\w+\s*"),
    Habit("a row of several columns is one type: `type((int, string))`", ",", r"\btype\s*\(\s*\w+\s*"),
    Habit("arguments have no names, and stand in the order of the parameters", ":", r"\w\(\s*\w+\s*"),
    Habit(
        "one row of each key is `select min_by(x, x.B) from x in X group by k: x.A`",
        before=r"\bselect\s+distinct\s+on\s*\([^;]*\)\s*",
    ),
    Habit("write `not is_null(e)`", r"not\s*null\b"),
    Habit("write `is_null(e)`", r"isnull\b"),
    Habit(
        'a stream is named as anything else: `x = stream(csv, "path", …)`', r"\w+\s*=", r"(?:\A|;)\s*(stream|source)\s+"
    ),
    Habit("leave out the `,` before the `limit`", r"\w", r",\s*limit\s+"),
    Habit("what is gone through is separated by `,`: `from x in X, y in Y where …`", r"\w+\s+in\b", r"\bfrom\b[^;]*"),
    Habit(
        "`where` stands before `group by` and `order by`; a `having` chooses groups",
        r"where\b",
        r"\b(group|order)\s+by\b[^;]*",
    ),
    Habit(
        'a query reads: rows come and go by the files of its streams, and `store "path" from e;` writes',
        before=r"(?:\A|;)\s*(insert|update|delete|create|drop|alter|merge)\s+",
    ),
    Habit(
        "a select for each set of keys, joined by `union`",
        r"(with\s+(rollup|cube)|sets)\b",
        r"\bgroup\s+by\s[^;]*",
    ),
    Habit(
        'order the elements first: `join((select x.B from x in g order by x.A), ", ")`',
        r"order\s+by\b",
        r"\b(string_agg|group_concat|listagg)\s*\([^()]*",
    ),
    Habit("`or` is for conditions; texts are joined by `+`", r"\|\|"),
    Habit("a query begins with `select`: `select e from x in X`", r"from\b", r"(?:\A|;)(?:(?!\bselect\b)[^;])+"),
)


def sql_hint(before: str, here: str) -> str | None:
    """The hint for a text that the parser could not read: `here` is the text from the error on, `before` that up to it.

    >>> sql_hint("select x from x in X where x.A ", "is null")
    'write `is_null(e)`'
    """
    return next((habit.hint for habit in HABITS if habit.fits(before, here)), None)


def head_hint(here: str) -> str | None:
    """The hint for a select with an error before its `from`."""
    alias = re.match(r"([^\W\d]\w*)\s*(?:,|from\b)", here, re.IGNORECASE)
    if alias:
        return f"{NAMED}: `select {alias[1]}: … from …`"
    if here[:1] == ":":
        return f"{NAMED}: `select a: e, b: f from …`"
    return "a value without a `from` needs no `select`" if here[:1] in {"", ";", ")", "}", "]"} else None


def generator_hint(before: str, here: str, in_brackets: bool) -> str:
    """The hint for a `from` whose collection has no variable; `in_brackets` says whether the select is in brackets."""
    if re.match(r"in\b", here, re.IGNORECASE) and re.search(r"\blet\b[^;]*=\s*select\b[^;]*\Z", before, re.IGNORECASE):
        return LET
    if in_brackets and here[:1] in {")", "]", "}"} and re.search(r"\bin\b[^;]*,[^,]*\Z", before, re.IGNORECASE):
        return ROUND
    if re.match(r"join\b", here, re.IGNORECASE):
        return JOIN
    word = re.match(r"\w*", here)
    # Of `F f`, the parser cannot read the variable; of `F as f`, a pattern with a type, it cannot read what follows.
    for text in (f"{before}{word[0] if word else ''}", before):
        if alias := re.search(ALIAS, text, re.IGNORECASE):
            return f"write `from {alias[2]} in {alias[1]}`"
    return GENERATOR
