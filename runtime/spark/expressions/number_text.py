"""Doubles and floats as text in SQL: the shortest text that reads back, and of these the nearest.

Java 19 and later write numbers so, and Spark's cast gives what Java writes. Of the numbers that are written with an
exponent, Java 17 and 18 write some with more digits than they need (`9.999999999999999E22` for `1.0E23`), and some with
a last digit that is not the nearest. So a number with many digits is rounded here to fewer, and the fewest digits that
read back as the same number are taken.

The same is done in JSON texts, whose doubles Spark writes as Java does (`json_text`): the text of a value is the same
on every version of Java and in the reference engine, and equal values have equal texts.
"""

from __future__ import annotations

import re

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.layout import sql_type

_NAME = re.compile(r"\w+|`([^`]|``)+`")  # an expression that may be repeated


@attrs.frozen
class _Format:
    """Properties of the numbers of a type."""

    digits: int  # no number needs more digits
    sure: int  # no two decimals of so many digits are read as the same number
    normal: str  # numbers below this have fewer digits


_FORMATS: dict[Type, _Format] = {
    ty.DOUBLE: _Format(17, 15, "2.2250738585072014E-308D"),
    ty.FLOAT: _Format(9, 6, "1.17549435E-38D"),
}


@attrs.frozen
class _Multiples:
    """A range of numbers that are all whole multiples of a unit, which is `digits · 10^power` exactly."""

    low: str
    below: str
    unit: str
    digits: str
    power: int


_EXACT = (  # where Java's digits are too few, or not the nearest
    _Multiples("0D", "2.2250738585072014E-308D", "4.9E-324D", "494065645841246544177", -344),
    _Multiples("9007199254740992D", "9223372036854775808D", "1D", "1", 0),  # from 2^53 to 2^63
    _Multiples("1.9342813113834067E25D", "3.8685626227668134E25D", "4294967296D", "4294967296", 0),  # from 2^84 to 2^85
)


def unsigned_sql(number: str, t: Type) -> str:
    """A double or float, with 0.0 for −0.0."""
    return f"({number} + {'0.0D' if t == ty.DOUBLE else 'CAST(0 AS FLOAT)'})"


_WITH_EXPONENT = "[0-9]E-?[0-9]"
_TOKENS = r'"(?:[^"\\\\]++|\\\\.)*+"|-?[0-9.]++E-?[0-9]++|[-0-9.]++|[^-0-9"]++'
"""A pattern, in SQL, of the tokens of a JSON text: strings, numbers with an exponent, other numbers, and the text
between these. No repetition backtracks, so that none takes room on the stack for each of its steps."""


def json_text(text: str, fresh: Fresh) -> str:
    """A JSON text of Spark's, with its doubles rewritten as `number_text` writes them."""
    return let(fresh, text, lambda t: f"if({t} RLIKE '{_WITH_EXPONENT}', {_rewritten(t, fresh)}, {t})")


def _rewritten(text: str, fresh: Fresh) -> str:
    token = fresh("k")
    number = number_text(f"CAST({token} AS DOUBLE)", ty.DOUBLE, fresh)
    written = f"if({token} RLIKE '^-?[0-9.]+E', {number}, {token})"
    return f"array_join(transform(regexp_extract_all({text}, '{_TOKENS}', 0), {token} -> {written}), '')"


def number_text(number: str, t: Type, fresh: Fresh) -> str:
    """A double or float as text, −0.0 as 0.0."""
    return _text(number, t, fresh) if _NAME.fullmatch(number) else let(fresh, number, lambda x: _text(x, t, fresh))


def _text(x: str, t: Type, fresh: Fresh) -> str:
    written = f"CAST({unsigned_sql(x, t)} AS STRING)"
    return f"CASE WHEN {_needs_care(x, written, t)} THEN {_shortest(x, t, fresh)} ELSE {written} END"


def _needs_care(x: str, written: str, t: Type) -> str:
    """Whether Java's digits of a number may be other than the wanted ones."""
    form, size = _FORMATS[t], f"abs(CAST({x} AS DOUBLE))"
    with_exponent = f"({size} >= 1E7D AND {size} < CAST('Infinity' AS DOUBLE) OR {size} > 0D AND {size} < 1E-3D)"
    long = f"length({written}) >= {form.sure + len('1.E7')}"
    return f"{with_exponent} AND ({long} OR {size} < {form.normal})"


ROUNDED_MAX_DIGITS = 18
"""A double, which has 17 digits, becomes 0 where more than so many of them are rounded away."""


def rounded(number: str, digits: str, fresh: Fresh) -> str:
    """A double rounded to so many digits behind the point, halves away from zero: Spark rounds the digits of Java."""

    def by_digits(x: str) -> str:
        parts = let(fresh, _shortest(x, ty.DOUBLE, fresh), _read)
        made = let(fresh, parts, lambda p: _without(p, f"(-{p}.power - {digits})", x, digits, fresh))
        written = f"CAST({unsigned_sql(x, ty.DOUBLE)} AS STRING)"
        return f"CASE WHEN {_needs_care(x, written, ty.DOUBLE)} THEN {made} ELSE round({x}, {digits}) END"

    return let(fresh, number, by_digits)


def _without(parts: str, dropped: str, x: str, digits: str, fresh: Fresh) -> str:
    """A number rounded so that its last `dropped` digits are dropped."""
    unit = f"CAST(concat('1', repeat('0', {dropped})) AS DECIMAL(38, 0))"
    whole = let(fresh, unit, lambda u: f"({parts}.whole + {u} / 2) div {u}")
    made = f"CAST(concat(if({x} < 0D, '-', ''), {whole}, 'E', -({digits})) AS DOUBLE)"
    return f"CASE WHEN {dropped} <= 0 THEN {x} WHEN {dropped} > {ROUNDED_MAX_DIGITS} THEN 0D ELSE {made} END"


def _shortest(x: str, t: Type, fresh: Fresh) -> str:
    """The text of a number that Java writes with an exponent, with the fewest digits that read back."""

    def found(parts: str) -> str:
        texts = let(fresh, f"CAST({parts}.whole AS STRING)", lambda digits: candidates(parts, digits))
        text = fresh("s")
        reads_back = f"CAST({text} AS {sql_type(t)}) = abs({x})"
        return f"filter({texts}, {text} -> {reads_back})[0]"

    def candidates(parts: str, digits: str) -> str:
        count = fresh("n")
        dropped = f"length({digits}) - {count}"
        rounded = let(
            fresh,
            f"CAST(concat('1', repeat('0', {dropped})) AS DECIMAL(38, 0))",
            lambda unit: _rounded(parts, unit, dropped, fresh),
        )
        counts = f"sequence(least(2, length({digits})), least({_FORMATS[t].digits}, length({digits})))"
        return f"flatten(transform({counts}, {count} -> {rounded}))"

    found_text = let(fresh, _parts(x, fresh), found)
    sign = f"if({x} < 0, '-', '')"
    return f"concat({sign}, {let(fresh, found_text, _as_java)})"


def _parts(x: str, fresh: Fresh) -> str:
    """The digits of a number without its sign, as a whole number, and the power of ten to multiply it by."""
    size = f"abs(CAST({x} AS DOUBLE))"
    exactly = []
    for exact in _EXACT:
        whole = f"CAST(CAST({size} / {exact.unit} AS BIGINT) AS DECIMAL(19, 0)) * {exact.digits}BD"
        inside = f"{size} >= {exact.low} AND {size} < {exact.below}"
        exactly.append(f"WHEN {inside} THEN {_struct(whole, str(exact.power))}")
    written = let(fresh, f"CAST(CAST({x} AS DOUBLE) AS STRING)", _read)
    return f"CASE {' '.join(exactly)} ELSE {written} END"


def _read(text: str) -> str:
    """The digits and the power of ten (`_parts`) of a text with an exponent."""
    digits = f"regexp_replace(substring_index({text}, 'E', 1), '[-.]', '')"
    return _struct(digits, f"CAST(substring_index({text}, 'E', -1) AS INT) - length({digits}) + 1")


def _struct(whole: str, power: str) -> str:
    return f"named_struct('whole', CAST({whole} AS DECIMAL(38, 0)), 'power', {power})"


def _rounded(parts: str, unit: str, dropped: str, fresh: Fresh) -> str:
    """The texts of a whole number rounded to units: the nearest, half to even, then the neighbour on the other side.

    Below a power of two, doubles are nearer to each other than above it, so only the other one may read back.
    """

    def both(low: str) -> str:
        rest = f"{parts}.whole - {low} * {unit}"
        up = f"2 * ({rest}) > {unit} OR (2 * ({rest}) = {unit} AND {low} % 2 = 1)"
        texts = [f"concat({number}, 'E', {parts}.power + {dropped})" for number in (low, f"({low} + 1)")]
        return f"if({up}, array({texts[1]}, {texts[0]}), array({texts[0]}, {texts[1]}))"

    low = f"{parts}.whole DIV {unit}"
    return let(fresh, low, both)


def _as_java(text: str) -> str:
    """`12300E5` as `1.23E9`."""
    digits = f"substring_index({text}, 'E', 1)"
    power = f"CAST(substring_index({text}, 'E', -1) AS INT) + length({digits}) - 1"
    behind = f"regexp_replace(substring({digits}, 2), '0+$', '')"
    return f"concat(left({digits}, 1), '.', if({behind} = '', '0', {behind}), 'E', {power})"
