"""Calls of the scalar functions with generated arguments, for comparing Spark with the reference.

The arguments are the odd ones of each type (empty, negative, largest, NaN, missing, other alphabets), mixed with random
ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.functions import EvaluationError, Function, convert
from mrql.algebra.functions.decimals import ApartDecimals, OfDecimals
from mrql.algebra.functions.running import KeyedDecimals
from mrql.algebra.functions.signatures import Built, Pattern, Variable
from mrql.algebra.terms import Get, Lit, Prim, Term, Var
from mrql.algebra.types import Type
from mrql.algebra.values.data import Element
from mrql.algebra.values.decimals import EXACT
from mrql.algebra.values.values import Bag, Document, Value

NAN, INF = float("nan"), float("inf")
ODD: dict[Type, Sequence[Value]] = {
    ty.BOOL: (True, False),
    ty.INT: (0, 1, -1, 2, 3, 5, 7, -8, 12, 31, 2**31 - 1, -(2**31)),
    ty.LONG: (0, 1, -1, 2, 3, 4, -5, 7, 12, 29, 60, 1000, -100_000, 2**33, 2**63 - 1, -(2**63)),
    ty.FLOAT: (0.0, -0.0, 1.5, -2.5, 0.5, NAN, INF, -INF),
    ty.DOUBLE: (
        *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 2.345, -2.345, 1e300, 1e-300, 5e-324, 9.2e18, NAN, INF, -INF),
        *(0.49999999999999994, -0.49999999999999994, 4503599627370497.0, -9007199254740991.0, -(2.0**63)),
    ),
    ty.STRING: (
        *("", " ", "a", "ab", "  x \t", "abcabc", "Ab Cd", "äÖß", "𝄞a𝄞", "e\u0301", "漢字", "a.b,,c,", "\\E.\\Q", "$1"),
        *("2026-01-31", "2026-02-30", " 2024-02-29 ", "2026-01-31T10:20:30.5+02:00", "1999-12-31 23:59", "0000-01-01"),
        *("9999-12-31 23:59:59.999999", "31.01.2026", "2026/01/31 10:20:30", "10:20", "a\nb", "'", '"', "x" * 60),
        *("12", "-7", "1e3", "true", "00fF", "AP8=", "AP9=", "0" * 99, "AAAA" * 50, "A===", "AP8=\n"),
    ),
    ty.BYTES: (b"", b"\0", b"a", "äß".encode(), b"\xff\xfe", b"\xed\xa0\x80", bytes(range(256)), b"x" * 100),
    ty.DATE: tuple(map(date.fromisoformat, ("0001-01-01", "9999-12-31", "1970-01-01", "2024-02-29", "1582-10-10"))),
    ty.TIMESTAMP: tuple(
        map(
            datetime.fromisoformat,
            ("0001-01-01", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-02-29 12:34"),
        )
    ),
    ty.ANY: tuple(map(Document, ('{"A":{"B":[1,null]},"b c":0.5}', '{"A":null}', "[1]", '"A"', "1", "true", "{}"))),
    ty.XML: tuple(
        map(
            Element,
            (
                '{"Node":["a",[],[]]}',
                '{"Node":["a",[],[{"CData":" t "}]]}',
                '{"Node":["book",[["k",""],["x-y","7"]],[{"CData":"x"},{"Node":["a",[],[]]},{"Node":["b:c",[["k","ä"]],[]]},{"CData":"y"}]]}',
                '{"Node":["b:c",[],[{"CData":" "},{"Node":["a",[["k","<"]],[{"CData":"𝄞"}]]}]]}',
                '{"Node":[null,null,null]}',
                '{"Node":["a",[["k",null],null],[null,{"Node":null}]]}',
                '{"CData":" "}',
                '{"CData":"t \\"u\\""}',
                '{"CData":null}',
            ),
        )
    ),
}  # fmt: skip
DECIMALS = tuple(
    ty.DecimalType(*digits) for digits in ((1, 0), (3, 3), (12, 2), (18, 9), (25, 4), (38, 0), (38, 18), (38, 38))
)
CHOICES: dict[str, Sequence[Type]] = {
    "n": ty.BINARY,
    "i": (ty.INT, ty.LONG),
    "o": (ty.STRING, ty.DecimalType(12, 2), ty.LONG, ty.DOUBLE, ty.DATE, ty.TupleType((ty.LONG, ty.STRING))),
    "a": (ty.STRING, ty.DecimalType(12, 2), ty.LONG, ty.DOUBLE, ty.BOOL, ty.DATE, ty.TIMESTAMP, ty.FLOAT),
    "t": (
        ty.STRING,
        ty.DecimalType(38, 10),
        ty.INT,
        ty.TupleType((ty.STRING, ty.LONG)),
        ty.ListType(ty.DOUBLE),
        ty.TIMESTAMP,
    ),
    "u": (ty.DATE, ty.DOUBLE),
}
CONSTANTS: dict[str, Sequence[tuple[Value, ...]]] = {
    "percentile": ((0.0,), (0.5,), (0.9,)),
    "round": tuple((digits,) for digits in (0, 1, 2, 5, -1, -3)),
    "regexp_like": tuple(
        (p,) for p in ("", "a", "^[a-z]+$", "b.c", r"\d{2,}", "(?i)AB", r"\bb", "x*", "[^,]$", "ß|漢")
    ),
    "regexp_extract": (("(a)(b)?", 2), ("([0-9]+)-([0-9]+)", 1), ("x*", 0), ("(?:b|(c))", 1), (".", 0)),
    "regexp_replace": (
        ("a", "[$0]"),
        ("x+", "-"),
        ("([0-9]+)-([0-9]+)", "$2/$1"),
        ("(a)|b", "<$1>"),
        ("[.,]", r"\$\\"),
    ),
    "date_trunc": tuple((unit,) for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "date_format": tuple(
        (p,)
        for p in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "d.M.yyyy 'o''clock' h:m:s a", "EEE, dd MMM", "EEEE D MMMM hh H SSS")
    ),
    "member": (("A",), ("b c",), ("z",)),
    "children": (("a",), ("b:c",), ("z",)),
    "attribute": (("k",), ("x-y",)),
    "parse_date": (("yyyy-MM-dd",), ("dd.MM.yyyy",), ("yyyy",)),
    "parse_timestamp": (("yyyy/MM/dd HH:mm:ss",), ("yyyy-MM-dd",), ("HH:mm",)),
}


@attrs.frozen
class Call:
    """A function at some rows of arguments; those in `constants` are the same in all of them."""

    function: Function
    types: tuple[Type, ...]
    constants: dict[int, Value]
    rows: tuple[tuple[Value, ...], ...]

    def term(self, columns: Sequence[str], row: Type) -> Term:
        """The call over columns of a row, the next one for each argument that is not constant."""
        names = iter(columns)
        args = [
            Lit(self.constants[i], t) if i in self.constants else Get(Var("v", row), next(names))
            for i, t in enumerate(self.types)
        ]
        return Prim(self.function, tuple(args))

    def value(self, row: Sequence[Value]) -> Value:
        """The reference's value.

        Raises: EvaluationError where there is none.
        """
        result = self.function.type_rule(self.types)
        assert result is not None
        return fn.apply(self.function, row, self.types, result)

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.types))}) with {self.constants}"


def calls(seed: int, rows: int, functions: Sequence[Function]) -> Iterator[Call]:
    """Calls of each version of each function; if it takes constants, with several of them."""
    draw = random.Random(seed)
    for function in functions:
        for version in function.versions:
            if isinstance(version.signature, OfDecimals):
                yield from _of_decimals(function, version.signature, rows, draw)
                continue
            if isinstance(version.signature, ApartDecimals):
                yield from _of_decimals_apart(function, rows, draw)
                continue
            if isinstance(version.signature, KeyedDecimals):
                lists = [(ty.ListType(ty.TupleType((ty.STRING, t))),) for t in DECIMALS]
                yield from (
                    Call(function, types, {}, tuple(_row(draw, types, {}) for _ in range(rows))) for types in lists
                )
                continue
            params = version.signature.params
            for constants in _constants(function, params):
                kinds = sorted({name for param in params for name in _variables(param)})
                for chosen in _choices(kinds, draw):
                    args = [*params, *([params[-1]] if version.signature.more else [])]
                    types = tuple(_type(param, chosen) for param in args)
                    wanted = (_row(draw, types, constants) for _ in range(rows))
                    yield Call(function, types, constants, tuple(wanted))


def _of_decimals(function: Function, signature: OfDecimals, rows: int, draw: random.Random) -> Iterator[Call]:
    """Calls of a function of decimals, of many digits and of few, with integers among the arguments."""
    others = (*DECIMALS, ty.INT, ty.LONG) if signature.of == 2 else (None,)
    for first in DECIMALS:
        for other in draw.sample(others, min(3, len(others))):
            types = (first,) if other is None else tuple(draw.sample((first, other), 2))
            if function == fn.QUOTIENT:
                types = (first, ty.LONG)
            yield Call(function, types, {}, tuple(_row(draw, types, {}) for _ in range(rows)))


def _of_decimals_apart(function: Function, rows: int, draw: random.Random) -> Iterator[Call]:
    """Calls with two decimals without a common type; some are equal, or equal but for rounding."""
    numbers = (*DECIMALS, ty.LONG)
    apart = [(a, b) for a in numbers for b in numbers if ty.join_types(a, b) is None]
    for types in draw.sample(apart, 2):
        yield Call(function, types, {}, tuple(_near(_row(draw, types, {}), types[1], draw) for _ in range(rows)))


def _near(row: tuple[Value, ...], t: Type, draw: random.Random) -> tuple[Value, ...]:
    try:
        return (row[0], convert(row[0], t)) if draw.random() < 0.5 else row
    except EvaluationError:
        return row


def _constants(function: Function, params: Sequence[Pattern]) -> Iterator[dict[int, Value]]:
    places = [place for place in function.constants if place < len(params)]
    for values in CONSTANTS[function.name] if places else [()]:
        yield dict(zip(places, values, strict=False))


def _choices(kinds: Sequence[str], draw: random.Random) -> Iterator[dict[str, Type]]:
    """Types for the variables of a signature, with each type that the first one may have."""
    if not kinds:
        yield {}
    for first in CHOICES[kinds[0]] if kinds else ():
        yield {kinds[0]: first, **{kind: draw.choice(CHOICES[kind]) for kind in kinds[1:]}}


def _variables(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Variable(name):
            yield name
        case Built(_, parts):
            for part in parts:
                yield from _variables(part)
        case _:
            pass


def _type(pattern: Pattern, chosen: dict[str, Type]) -> Type:
    match pattern:
        case Variable(name):
            return chosen[name]
        case Built("[", (part,)):
            return ty.ListType(_type(part, chosen))
        case Built("{", (part,)):
            return ty.BagType(_type(part, chosen))
        case Built("(", parts):
            return ty.TupleType(tuple(_type(part, chosen) for part in parts))
        case ty.Basic():
            return pattern
        case _:
            raise AssertionError(f"no argument is written {pattern}")


def _row(draw: random.Random, types: Sequence[Type], constants: dict[int, Value]) -> tuple[Value, ...]:
    return tuple(constants[i] if i in constants else value(draw, t) for i, t in enumerate(types))


def value(draw: random.Random, t: Type, nulls: float = 0.1) -> Value:
    """A value of a type, missing now and then."""
    if draw.random() < nulls:
        return None
    match t:
        case ty.ListType(item):
            return [value(draw, item) for _ in range(draw.choice((0, 1, 2, 3, 5, 20)))]
        case ty.BagType(item):
            return Bag(value(draw, item) for _ in range(draw.choice((0, 1, 2, 3, 5))))
        case ty.TupleType(items):
            return tuple(value(draw, item) for item in items)
        case _:
            return draw.choice(ODD[t]) if t in ODD and draw.random() < 0.6 else _random(draw, t)


def a_decimal(draw: random.Random, t: ty.DecimalType) -> Decimal:
    """A decimal of any number of digits: any, a short one, the largest one, or 1, 0 or 5 in the last place."""
    most = 10**t.precision - 1
    digits = draw.choice(
        (draw.randint(0, most), draw.randint(0, 10 ** draw.randint(0, t.precision) - 1), most, 1, 0, 5)
    )
    number = Decimal(draw.choice((digits, -digits))).scaleb(-t.scale, EXACT)
    return number if number else number.copy_abs()


def _random(draw: random.Random, t: Type) -> Any:
    match t:
        case ty.DecimalType():
            return a_decimal(draw, t)
        case ty.INT | ty.LONG:
            return draw.randint(-50, 50)
        case ty.FLOAT:
            return fn.to_single(draw.uniform(-100, 100))
        case ty.DOUBLE:
            return draw.choice((draw.uniform(-3, 3), draw.uniform(-1e6, 1e6), float(draw.randint(-9, 9)) / 2))
        case ty.STRING:
            return "".join(draw.choice("abcABC 01-,.äß𝄞\n") for _ in range(draw.randint(0, 8)))
        case ty.DATE:
            return date(1, 1, 1) + timedelta(days=draw.randint(0, 3_652_058))
        case ty.TIMESTAMP:
            return datetime(1, 1, 1) + timedelta(microseconds=draw.randint(0, 3_652_058 * 86_400_000_000))
        case _:
            return draw.choice(ODD[t])


def split(call: Call) -> tuple[list[tuple[tuple[Value, ...], Value]], list[tuple[tuple[Value, ...], str]]]:
    """The rows for which the call has a value, with the value, and those for which it fails, with the message."""
    good: list[tuple[tuple[Value, ...], Value]] = []
    bad: list[tuple[tuple[Value, ...], str]] = []
    for row in call.rows:
        try:
            good.append((row, call.value(row)))
        except EvaluationError as error:
            bad.append((row, str(error)))
    return good, bad
