"""The scalar functions: a table of arguments and results, and the rules for nulls, overflow and NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions import FUNCTIONS, STATISTICS, convert, convert_from, to_single, xml
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import BOOL, DATE, DOUBLE, FLOAT, INT, LONG, NOTHING, STRING, TIMESTAMP, Type
from mrql.algebra.values.atom_text import show_atom
from mrql.algebra.values.data import Element
from mrql.algebra.values.decimals import literal_type
from mrql.algebra.values.json_values import of_value
from mrql.algebra.values.values import Bag, Document, Record, Value, same
from mrql.runtime.engine.row_format import to_json
from tests.support.function_calls import calls, split
from tests.support.strategies import types, values

INF, NAN = math.inf, math.nan
MAX_LONG, MIN_LONG = 2**63 - 1, -(2**63)
MAX_INT, MIN_INT = 2**31 - 1, -(2**31)
LIST = parse_type("[long]")
KINDS: dict[type, Type] = {bool: BOOL, int: LONG, float: DOUBLE, str: STRING, type(None): NOTHING}
KINDS |= {Document: ty.ANY, Element: ty.XML}


def type_of(value: Value) -> Type:
    """The type of an argument in a test: integers are longs."""
    if isinstance(value, tuple):
        return ty.TupleType(tuple(map(type_of, value)))
    if isinstance(value, list):
        return ty.ListType(type_of(value[0]) if value else NOTHING)
    if isinstance(value, Decimal):
        return literal_type(value) or NOTHING
    return KINDS[type(value)]


def apply(name: str, args: Sequence[Value], types_: Sequence[Type] | None = None) -> Value:
    """The result of a function; its type is that of the type rule."""
    own = [type_of(arg) for arg in args] if types_ is None else types_
    if name == "element":
        own = [STRING, ty.ListType(STRING), ty.ListType(STRING), ty.ListType(ty.XML)]
    result = FUNCTIONS[name].type_rule(own)
    assert result is not None, f"{name} does not apply to {own}"
    return fn.apply(FUNCTIONS[name], args, own, result)


TABLE: list[tuple[str, tuple[Value, ...], Value]] = [
    ("+", (1, 2), 3),
    ("+", (1, 0.5), 1.5),
    ("+", ("a", "b"), "ab"),
    ("-", (1, 2), -1),
    ("*", (3, -2), -6),
    ("/", (7, 2), 3),
    ("/", (-7, 2), -3),
    ("/", (7, -2), -3),
    ("/", (-7, -2), 3),
    ("/", (7.0, 2), 3.5),
    ("/", (1.0, 0.0), INF),
    ("/", (-1.0, 0.0), -INF),
    ("/", (0.0, 0.0), NAN),
    ("mod", (7, 3), 1),
    ("mod", (-7, 3), -1),
    ("mod", (7, -3), 1),
    ("mod", (-6, 3), 0),
    ("mod", (MIN_LONG, -1), 0),
    ("mod", (7.5, 2.0), 1.5),
    ("mod", (7.5, 0.0), NAN),
    ("mod", (INF, 2.0), NAN),
    ("mod", (2.0, INF), 2.0),
    ("neg", (3,), -3),
    ("neg", (1.5,), -1.5),
    ("=", (1, 1.0), True),
    ("=", ("a", "b"), False),
    ("=", ((1, "a"), (1.0, "a")), True),
    ("=", (NAN, NAN), True),
    ("=", ([1], [1]), True),
    ("<>", (1, 2), True),
    ("<>", ("a", "a"), False),
    ("<", (1, 2), True),
    ("<", (1, 1), False),
    ("<", (INF, NAN), True),
    ("<", ("A", "a"), True),
    ("<", ((1, "a"), (1, "b")), True),
    ("<", (False, True), True),
    ("<=", (1, 1.0), True),
    (">", (NAN, INF), True),
    (">", (2, 1), True),
    (">=", (1, 2), False),
    ("and", (True, True), True),
    ("and", (True, False), False),
    ("or", (False, False), False),
    ("or", (False, True), True),
    ("not", (True,), False),
    ("is_null", (None,), True),
    ("is_null", (0,), False),
    ("is_null", ((None,),), False),
    ("has_null", ((1, None),), True),
    ("has_null", ((1, 2),), False),
    ("÷", (6.0, 4), 1.5),
    ("÷", (6, 4), 1.5),
    ("÷", (6.0, 0), None),
    ("abs", (-3,), 3),
    ("abs", (-0.5,), 0.5),
    ("round", (2.5,), 3),
    ("round", (-2.5,), -2),
    ("round", (2.4,), 2),
    ("round", (7,), 7),
    ("floor", (2.7,), 2),
    ("floor", (-2.1,), -3),
    ("floor", (MAX_LONG,), MAX_LONG),
    ("ceil", (2.1,), 3),
    ("ceil", (-2.7,), -2),
    ("sqrt", (9.0,), 3.0),
    ("sqrt", (4,), 2.0),
    ("sqrt", (-1.0,), NAN),
    ("exp", (0.0,), 1.0),
    ("exp", (1000.0,), INF),
    ("log", (1.0,), 0.0),
    ("log", (0.0,), None),
    ("log", (-1.0,), None),
    ("log", (NAN,), NAN),
    ("log10", (1000.0,), 3.0),
    ("log10", (0.0,), None),
    ("pow", (2.0, 10.0), 1024.0),
    ("pow", (10.0, 400.0), INF),
    ("pow", (-10.0, 401.0), -INF),
    ("pow", (-8.0, 0.5), NAN),
    ("pow", (0.0, -1.0), INF),
    ("sin", (0.0,), 0.0),
    ("sin", (INF,), NAN),
    ("cos", (0.0,), 1.0),
    ("tan", (0.0,), 0.0),
    ("upper", ("aß",), "ASS"),
    ("lower", ("AÄ",), "aä"),
    ("trim", ("  a b\t ",), "a b\t"),
    ("contains", ("abc", "bc"), True),
    ("contains", ("abc", ""), True),
    ("contains", ("abc", "d"), False),
    ("startswith", ("abc", "ab"), True),
    ("endswith", ("abc", "ab"), False),
    ("replace", ("a.b.c", ".", "-"), "a-b-c"),
    ("length", ("a𝄞",), 2),
]

JSON = Document('{"A":{"B":[1,null]},"N":null}')
EMPTY = Element('{"Node":["a",[],[]]}')
TEXT = Element('{"CData":"t"}')
A = Element(f'{{"Node":["a",[],[{TEXT}]]}}')
B = Element('{"Node":["b",[["id","8"]],[]]}')
BOOK = Element(f'{{"Node":["book",[["id","7"],["k",""]],[{{"CData":" x "}},{EMPTY},{B},{A},{{"CData":"y"}}]]}}')

DOCUMENTS: list[tuple[str, tuple[Value, ...], Value]] = [
    ("member", (JSON, "A"), Document('{"B":[1,null]}')),
    ("member", (JSON, "N"), None),
    ("member", (JSON, "Z"), None),
    ("member", (Document("[1]"), "A"), None),
    ("children", (BOOK, "a"), [EMPTY, A]),
    ("children", (BOOK, "z"), []),
    ("children", (TEXT, "a"), []),
    ("children", ([BOOK, None, A], "b"), [B]),
    ("all_children", (BOOK,), [EMPTY, B, A]),
    ("attribute", (BOOK, "id"), "7"),
    ("attribute", (A, "id"), None),
    ("attribute", ([BOOK, A, B], "id"), ["7", "8"]),
    ("attributes", (BOOK,), ["7", ""]),
    ("attributes", ([B, A, B],), ["8", "8"]),
    ("text", (BOOK,), "x y"),
    ("text", (EMPTY,), ""),
    ("text", ([A, EMPTY, BOOK],), "t x y"),
    ("tag", (BOOK,), "book"),
    ("tag", (TEXT,), None),
    ("text_node", (' "',), Element('{"CData":" \\""}')),
    (
        "element",
        ("a", ["k", "n"], ["1", None], [TEXT, A, EMPTY]),
        Element(f'{{"Node":["a",[["k","1"]],[{TEXT},{A},{EMPTY}]]}}'),
    ),
    ("element", ("a", [], [], []), EMPTY),
    ("element", ("a", [], [], [Element('{"CData":" \\n"}'), TEXT]), A),
]


WORD = 2**32
SIDES: list[tuple[str, tuple[Value, ...], Value]] = [
    ("high", (5 * WORD + 7,), 5),
    ("high", (-1,), -1),
    ("low", (5 * WORD + 7,), 7),
    ("low", (-1,), WORD - 1),
    ("times_high", (5, 7, -1, WORD - 1), -6),  # (5 · 2³² + 7) · -1
    ("times_low", (5, 7, -1, WORD - 1), WORD - 7),
    ("magnitude", (-200.0,), -1000),
    ("magnitude", (2.0**32,), 1002),
    ("magnitude", (math.nan,), 3000),
    ("mantissa", (3 * 2.0**32,), 3.0),
    ("mantissa", (-math.inf,), 0.0),
    ("huge_magnitude", (2.0**93,), 0),
    ("huge_magnitude", (-(2.0**112),), -1007),
    ("huge_magnitude", (math.nan,), 3000),
    ("huge_mantissa", (2.0**93,), 0.0),
    ("huge_mantissa", (3 * 2.0**112,), 3.0),
    *((name, (math.inf,), 0) for name in ("pairs_limb", "words_limb", "ones_limb", "fractions_limb")),
    ("pairs_limb", (-5 * 2.0**64 + 2.0**63,), -4),
    ("words_limb", (-5 * 2.0**64 + 2.0**63,), -(2**31)),
    ("ones_limb", (2.0**32 - 0.25,), 0),
    ("fractions_limb", (2.0**32 - 0.25,), -(2**30)),
    ("rest_limb", (1 + 2.0**-34,), 2.0**-34),
    ("rest_limb", (math.nan,), 0.0),
    ("magnitudes", (1002, -1001), -1003),
    ("magnitudes", (0, 2000), 3000),
    ("magnitudes", (0, None), None),
    ("first_digits", (Decimal("-123456789012345678901234.56"),), Decimal(-123456)),
    ("last_digits", (Decimal("-123456789012345678901234.56"),), Decimal("-789012345678901234.56")),
    ("last_digits", (Decimal("1.0000000001"),), Decimal(10000000001)),
]
GREATEST = 2**63 - 1
ATTEMPTS: list[tuple[str, tuple[Value, ...], Value]] = [
    ("try_add", (GREATEST, 1), None),
    ("try_add", (GREATEST, -1), GREATEST - 1),
    ("try_add", (GREATEST, None), None),
    ("try_subtract", (-GREATEST, 2), None),
    ("try_subtract", (-GREATEST, 1), -GREATEST - 1),
    ("try_multiply", (GREATEST, 2), None),
    ("try_multiply", (2**62, -2), -GREATEST - 1),
    ("try_negate", (-GREATEST - 1,), None),
    ("try_negate", (-GREATEST,), GREATEST),
    ("none_missing", (5, 0), 5),
    ("none_missing", (None, 0), None),
]


@pytest.mark.parametrize(("name", "args", "expected"), TABLE + DOCUMENTS + SIDES + ATTEMPTS)
def test_table(name: str, args: tuple[Value, ...], expected: Value) -> None:
    """Each function at some arguments."""
    found = apply(name, args)
    assert same(found, expected), f"{name}{args} = {found!r}"
    assert type(found) is type(expected)


def test_size() -> None:
    """The number of elements, missing ones among them."""
    assert [apply("size", (items,), (LIST,)) for items in ([], [7, None], None)] == [0, 2, None]


def test_table_is_complete() -> None:
    """Each function stands in the table, or has a test of its own."""
    tested = {name for name, _, _ in TABLE + DOCUMENTS + SIDES + ATTEMPTS} | {
        "substring",
        "range",
        "at",
        "size",
        "slice",
        "only",
        "trace",
        *(f.name for f in STATISTICS),  # test_statistics.py
    }
    assert tested | {f.name for f in FUNCTIONS.values() if f.examples} == set(FUNCTIONS)


@pytest.mark.parametrize("value", [1, "a", None, True])
def test_trace_is_the_value(value: Value) -> None:
    """`trace` returns its argument, of any type, missing or not; printing is up to the evaluator."""
    assert apply("trace", (value,)) == value


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 2, "ab"), (1, 1, ""), (1, 99, "bcd"), (-3, 2, "ab"), (3, 1, ""), (9, 12, ""), (-3, -1, "")],
)
def test_substring_is_cut_to_the_string(start: int, end: int, expected: str) -> None:
    """Positions count from 0, the end is not included, and no range is an error."""
    assert apply("substring", ("abcd", start, end), (STRING, INT, INT)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1, 3, [1, 2, 3]), (2, 2, [2]), (3, 1, []), (-1, 0, [-1, 0]), (MAX_LONG, MAX_LONG, [MAX_LONG])],
)
def test_a_range_has_both_its_ends(low: int, high: int, expected: list[int]) -> None:
    """A range has both its ends, and is empty if the second one is before the first."""
    assert apply("range", (low, high), (LONG, LONG)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [7, 8]), (1, 9, [8, 9]), (-5, 0, [7]), (2, 1, []), (5, 7, []), (-3, -1, []), (0, MAX_LONG, [7, 8, 9])],
)
def test_a_slice_is_cut_to_the_list(low: int, high: int, expected: list[int]) -> None:
    """Both ends are included, and no range is an error."""
    assert apply("slice", ([7, 8, 9], low, high), (LIST, LONG, LONG)) == expected


@pytest.mark.parametrize(
    ("name", "args", "types", "message"),
    [
        ("at", ([7], 1), (LIST, INT), "there is no element 1 in a list of 1"),
        ("at", ([7], -1), (LIST, INT), "there is no element -1 in a list of 1"),
        ("only", (Bag(),), (parse_type("{long}"),), "there is no value under this key"),
        ("only", (Bag([1, 1]),), (parse_type("{long}"),), "there are 2 values under this key"),
        ("range", (0, MAX_LONG), (LONG, LONG), "a range of more than 2147483632 elements"),
    ],
)
def test_what_is_not_there_is_an_error(
    name: str, args: tuple[Value, ...], types: tuple[Type, ...], message: str
) -> None:
    """A place outside a list, a key without exactly one value, and a range that is too long are errors."""
    with pytest.raises(EvaluationError, match=message):
        apply(name, args, types)


def test_elements_by_place_and_by_key() -> None:
    """Places count from 0."""
    assert apply("at", ([7, 8], 1), (LIST, INT)) == 8
    assert apply("only", (Bag([7]),), (parse_type("{long}"),)) == 7


@pytest.mark.parametrize(
    ("name", "args", "t"),
    [
        ("+", (MAX_INT, 1), INT),
        ("+", (MAX_LONG, 1), LONG),
        ("-", (MIN_LONG, 1), LONG),
        ("*", (2**32, 2**31), LONG),
        ("*", (2**16, 2**15), INT),
        ("/", (MIN_LONG, -1), LONG),
        ("/", (MIN_INT, -1), INT),
        ("neg", (MIN_LONG,), LONG),
        ("neg", (MIN_INT,), INT),
        ("abs", (MIN_LONG,), LONG),
    ],
)
def test_overflow_is_an_error(name: str, args: tuple[int, ...], t: Type) -> None:
    """Integer arithmetic never yields a wrong number."""
    with pytest.raises(EvaluationError, match="integer overflow"):
        apply(name, args, (t,) * len(args))


@pytest.mark.parametrize("name", ["round", "floor", "ceil"])
@pytest.mark.parametrize("x", [NAN, INF, -INF, 1e19])
def test_rounding_out_of_range_is_an_error(name: str, x: float) -> None:
    """A number outside the range of longs is not rounded to a long."""
    with pytest.raises(EvaluationError):
        apply(name, (x,))


@pytest.mark.parametrize("name", ["/", "mod"])
def test_integer_division_by_zero_is_an_error(name: str) -> None:
    """Only floating-point division has a result at zero."""
    with pytest.raises(EvaluationError, match="division by zero"):
        apply(name, (1, 0))


@given(st.integers(MIN_LONG, MAX_LONG), st.integers(MIN_LONG, MAX_LONG).filter(bool))
def test_division_with_remainder(a: int, b: int) -> None:
    """`a = (a / b) · b + a mod b`, the remainder is smaller than `b` and has the sign of `a`."""
    if (a, b) == (MIN_LONG, -1):
        return
    quotient, remainder = apply("/", (a, b)), apply("mod", (a, b))
    assert quotient * b + remainder == a
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)


@pytest.mark.parametrize("name", sorted(name for name, f in FUNCTIONS.items() if not f.null_safe))
def test_nulls_give_null(name: str) -> None:
    """A missing argument gives a missing result, whichever it is, typed or not."""
    if name == "only":
        assert apply(name, (None,), (parse_type("{long}"),)) is None
        return
    for call in calls(0, 1, [FUNCTIONS[name]]):
        (args,) = call.rows
        for i in set(range(len(args))) - set(call.constants):
            with_null = [*args[:i], None, *args[i + 1 :]]
            assert apply(name, with_null, call.types) is None
            if isinstance(call.types[i], ty.Basic) and FUNCTIONS[name] not in fn.DIGITS:
                assert apply(name, with_null, [*call.types[:i], NOTHING, *call.types[i + 1 :]]) is None


@pytest.mark.parametrize("name", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize(("a", "b"), [(1, None), (None, 1), (None, None)])
def test_comparisons_with_null_are_false(name: str, a: Value, b: Value) -> None:
    """Comparisons with null are false, also `<>`, and also if a part of a tuple is missing."""
    pair = parse_type("(long, long)")
    assert apply(name, (a, b), (LONG, LONG)) is False
    assert apply(name, ((a, 2), (b, 2)), (pair, pair)) is False


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("and", False, None, False),
        ("and", None, False, False),
        ("and", True, None, None),
        ("and", None, None, None),
        ("or", True, None, True),
        ("or", None, True, True),
        ("or", False, None, None),
        ("or", None, None, None),
    ],
)
def test_three_valued_logic(name: str, a: Value, b: Value, expected: Value) -> None:
    """If one side decides the result, the other one may be missing."""
    assert apply(name, (a, b), (BOOL, BOOL)) is expected


@pytest.mark.parametrize(
    ("name", "types_", "result"),
    [
        ("+", "(int, int)", "int"),
        ("+", "(int, long)", "long"),
        ("+", "(long, float)", "float"),
        ("+", "(float, double)", "double"),
        ("+", "(nothing, int)", "int"),
        ("+", "(string, string)", "string"),
        ("+", "(string, int)", None),
        ("+", "(bool, bool)", None),
        ("+", "(int)", None),
        ("+", "(int, int, int)", None),
        ("-", "(string, string)", None),
        ("neg", "(float)", "float"),
        ("neg", "(int, int)", None),
        ("=", "({int}, {long})", "bool"),
        ("=", "(int, string)", None),
        ("=", "(<A: int>, <A: long>)", "bool"),
        ("=", "(int)", None),
        ("<", "([int], [long])", "bool"),
        ("<", "({int}, {long})", None),
        ("<", "((int, {int}), (int, {int}))", None),
        ("and", "(bool, nothing)", "bool"),
        ("and", "(bool, int)", None),
        ("and", "(bool)", None),
        ("not", "(bool, bool)", None),
        ("is_null", "({int})", "bool"),
        ("is_null", "()", None),
        ("÷", "(double, long)", "double"),
        ("÷", "(string, long)", None),
        ("abs", "(int)", "int"),
        ("abs", "(string)", None),
        ("abs", "(int, int)", None),
        ("round", "(float)", "long"),
        ("sqrt", "(int)", "double"),
        ("sqrt", "(string)", None),
        ("length", "(string)", "int"),
        ("substring", "(string, int, int)", "string"),
        ("substring", "(string, int)", "string"),
        ("substring", "(string)", None),
        ("least", "(int, double, long)", "double"),
        ("least", "(int, string)", None),
        ("least", "(int)", None),
        ("coalesce", "(nothing, int)", "int"),
        ("first", "([(int, string)])", "(int, string)"),
        ("first", "([nothing])", "nothing"),
        ("zip", "([int], [string])", "[(int, string)]"),
        ("unique", "([{int}])", None),
        ("year", "(date)", "int"),
        ("add_days", "(date, int)", "date"),
        ("add_days", "(timestamp, int)", "timestamp"),
        ("date_diff", "(timestamp, date)", None),
        ("=", "(date, timestamp)", "bool"),
        ("=", "(date, string)", None),
        ("contains", "(string, string)", "bool"),
    ],
)
def test_type_rules(name: str, types_: str, result: str | None) -> None:
    """The result type of each function for the number and types of its arguments."""
    args = parse_type(types_)
    assert isinstance(args, ty.TupleType)
    assert FUNCTIONS[name].type_rule(args.items) == (None if result is None else parse_type(result))


def test_floats_stay_floats() -> None:
    """Arithmetic on 32-bit floats is rounded to 32 bits."""
    third = apply("/", (1.0, 3.0), (FLOAT, FLOAT))
    assert third == to_single(third) != 1 / 3
    assert to_single(1e300) == INF
    assert to_single(-1e300) == -INF


@pytest.mark.parametrize(
    ("value", "t", "expected"),
    [
        (1, DOUBLE, 1.0),
        (1.9, LONG, 1),
        (-1.9, LONG, -1),
        (0.1, FLOAT, to_single(0.1)),
        (True, INT, 1),
        (0, BOOL, False),
        (" 42 ", LONG, 42),
        ("1e3", DOUBLE, 1000.0),
        ("TRUE", BOOL, True),
        ("NaN", DOUBLE, NAN),
        (7, STRING, "7"),
        (None, LONG, None),
        ("2026-01-31", DATE, date(2026, 1, 31)),
        (" 2026-01-31T10:20Z", TIMESTAMP, datetime(2026, 1, 31, 10, 20)),
        ("2026-01-31 10:20:30.5-01:30", TIMESTAMP, datetime(2026, 1, 31, 11, 50, 30, 500_000)),
        ("2026-01-31", TIMESTAMP, datetime(2026, 1, 31)),
        (date(2026, 1, 31), TIMESTAMP, datetime(2026, 1, 31)),
        (datetime(2026, 1, 31, 23), DATE, date(2026, 1, 31)),
        (date(7, 1, 31), STRING, "0007-01-31"),
        (datetime(2026, 1, 31, 10, 0, 0, 50_000), STRING, "2026-01-31 10:00:00.05"),
        ((1, None), parse_type("(double, long)"), (1.0, None)),
        (Record({"A": 1}), parse_type("<A: double>"), Record({"A": 1.0})),
        ([1], parse_type("[double]"), [1.0]),
        ([1, 2], parse_type("{double}"), Bag([2.0, 1.0])),
        (Bag([1]), parse_type("{string}"), Bag(["1"])),
    ],
)
def test_convert(value: Value, t: Type, expected: Value) -> None:
    """Casts and widenings, part by part."""
    found = convert(value, t)
    assert same(found, expected)
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "t"),
    [
        ("x", LONG),
        ("", INT),
        ("1.5", LONG),
        ("1_000", LONG),
        ("١٢", LONG),
        ("1d", DOUBLE),
        ("+nan", DOUBLE),
        ("2026-02-30", DATE),
        ("2026-2-3", DATE),
        ("2026-01-31 10:20", DATE),
        ("0000-01-01", DATE),
        ("10000-01-01", DATE),
        ("2026-01-31 24:00", TIMESTAMP),
        ("2026-01-31 10", TIMESTAMP),
        ("2026-01-31 10:20+25:00", TIMESTAMP),
        ("0001-01-01 00:00+01:00", TIMESTAMP),
        ("1_0.5", DOUBLE),
        ("yes", BOOL),
        (NAN, LONG),
        (1e30, INT),
        (2**31, INT),
        ("2147483648", INT),
    ],
)
def test_convert_refuses(value: Value, t: Type) -> None:
    """A value that does not convert to a type is an error, not a null."""
    with pytest.raises(EvaluationError):
        convert(value, t)


@given(types().flatmap(lambda t: st.tuples(st.just(t), values(t))))
def test_converting_to_the_own_type_changes_nothing(pair: tuple[Type, Value]) -> None:
    """`convert` is the identity on values of the type."""
    t, value = pair
    assert same(convert(value, t), value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (-0.0, "0.0"),
        (1234567.0, "1234567.0"),
        (1e7, "1.0E7"),
        (1.5e-4, "1.5E-4"),
        (0.001, "0.001"),
        (123456789.125, "1.23456789125E8"),
        (1e300, "1.0E300"),
        (NAN, "NaN"),
        (-INF, "-Infinity"),
        ("a", "a"),
    ],
)
def test_show_atom(value: Value, text: str) -> None:
    """Numbers become strings as in Spark."""
    assert show_atom(value) == text


@given(st.floats())
def test_shown_doubles_read_back(x: float) -> None:
    """A double that is cast to a string and back is the same."""
    assert same(convert(show_atom(x), DOUBLE), x)


def test_no_function_tells_the_zeros_apart() -> None:
    """−0.0 equals 0.0, and every function gives equal results for the two."""
    compared = set()
    functions = [f for f in fn.FUNCTIONS.values() if f not in (*xml.DOCUMENTS, fn.ONLY, fn.TRACE)]
    for call in calls(2026, 60, functions):
        result = call.function.type_rule(call.types)
        assert result is not None
        for row, value in split(call)[0]:
            if any(isinstance(x, float) and x == 0 for x in row):
                for zero in (0.0, -0.0):
                    signed = tuple(zero if isinstance(x, float) and x == 0 else x for x in row)
                    assert same(fn.apply(call.function, signed, call.types, result), value), (call, row)
                compared.add(call.function.name)
    assert len(compared) >= 40


def test_zeros_have_one_text() -> None:
    assert [convert_from(-0.0, t, ty.STRING) for t in (ty.DOUBLE, ty.FLOAT)] == ["0.0", "0.0"]
    assert of_value([-0.0]) == of_value([0.0])
    assert str(to_json((-0.0,))) == "[0.0]"


def test_texts_of_doubles_and_floats() -> None:
    """The text is the shortest one that reads back, with at least one digit after the point; of these, the nearest."""
    doubles = {1e23: "1.0E23", 2e23: "2.0E23", 8.41e21: "8.41E21", 0.002: "0.002", 5e-324: "4.9E-324"}
    doubles |= {1e-322: "9.9E-323", 9.5e-322: "9.5E-322", -0.0: "0.0", 1e7: "1.0E7"}
    assert {x: convert(x, STRING) for x in doubles} == doubles
    floats = {
        0.1: "0.1",
        2.0**-96: "1.2621775E-29",
        1e-45: "1.4E-45",
        16777216.0: "1.6777216E7",
        1.5: "1.5",
        9e9: "9.0E9",
    }
    assert {convert_from(to_single(x), FLOAT, STRING): x for x in floats} == {text: x for x, text in floats.items()}


@given(st.floats(-9e18, 9e18) | st.integers(-(2**54), 2**54).map(lambda n: n / 2))
def test_rounding_is_exact(x: float) -> None:
    """A double is rounded as an exact fraction, without rounding in between."""
    exact = Fraction(x)
    assert apply("round", (x,)) == math.floor(exact + Fraction(1, 2))
    assert (apply("floor", (x,)), apply("ceil", (x,))) == (math.floor(exact), math.ceil(exact))
