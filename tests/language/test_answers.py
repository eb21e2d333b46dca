"""The meaning of the language: one-line queries and their values in the reference evaluator."""

from __future__ import annotations

import pytest

from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Record, Value, same
from mrql.output.tables import type_name
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program

STREAMS = {
    "S": "{(long, long)}",
    "P": "{<X: long, Y: double, T: {<U: int, V: string>}>}",
    "N": "{<A: long, B: string>}",
}
DATA = {
    "S": Bag([(1, 2), (3, 4), (1, 5), (3, 4)]),
    "P": Bag(
        [
            Record({"X": 1, "Y": 0.5, "T": Bag([Record({"U": 1, "V": "a"}), Record({"U": 2, "V": "b"})])}),
            Record({"X": 1, "Y": 1.5, "T": Bag()}),
            Record({"X": 2, "Y": None, "T": Bag([Record({"U": 3, "V": "a"})])}),
        ]
    ),
    "N": Bag([Record({"A": 1, "B": "x"}), Record({"A": None, "B": "y"}), Record({"A": 1, "B": None})]),
}


def answer(text: str) -> tuple[Value, str]:
    """The value of a query and its type."""
    program = compile_program(text, "query", {name: parse_type(t) for name, t in STREAMS.items()}, catalog=CATALOG)
    query = program.queries[-1]
    return evaluate(query.term, DATA), type_name(query.type)


CASES = [
    # arithmetic, as Apache MRQL answers it or better
    ("7/2", "3", "int"),
    ("-7/2", "-3", "int"),
    ("7/2.0", "3.5", "double"),
    ("(0-7)%3", "-1", "int"),
    ("(0-7) mod 3", "-1", "int"),
    ("1.0/0", "Infinity", "double"),
    ("2147483648", "2147483648", "long"),
    ("-2147483648", "-2147483648", "int"),
    ("1 = 1.0", "true", "bool"),
    ("1 <> 2", "true", "bool"),
    ("1 != 2", "true", "bool"),
    ("1.5", "1.5", "double"),
    ("round(2.5)", "3", "long"),
    ("round(-2.5)", "-2", "long"),
    ("1 + 2 * 3 - 4", "3", "int"),
    ('"a" + "b"', '"ab"', "string"),
    ('upper("ab")', '"AB"', "string"),
    ('substring("hello", 1, 3)', '"el"', "string"),
    ("not true or true", "true", "bool"),
    ("3 as double", "3.0", "double"),
    ('"12" as int', "12", "int"),
    ("if true then 1 else 2.5", "1.0", "double"),
    # aggregations
    ("avg({1, 2})", "1.5", "double"),
    ("sum({1, 2})", "3", "long"),
    ("sum({})", "0", "long"),
    ("count({})", "0", "long"),
    ("max({-1.5, -2.5})", "-1.5", "double"),
    ('max({"a", "b"})', '"b"', "string"),
    ("max({(1, 2), (1, 3)})", "(1, 3)", "(int, int)"),
    ("all({true, false})", "false", "bool"),
    ("some({true, false})", "true", "bool"),
    ("exists(S)", "true", "bool"),
    ("count(N)", "3", "long"),
    ("sum(select n.A from n in N)", "2", "long"),
    ("avg(select p.Y from p in P)", "1.0", "double"),
    ("min(select p.Y from p in P where p.X > 5)", "null", "double"),
    ("avg(select p.Y from p in P where p.X > 5)", "null", "double"),
    # collections
    ("{1, 2.5}", "{1.0, 2.5}", "bag(double)"),
    ("[1, 2] + [3]", "[1, 2, 3]", "list(int)"),
    ("{1, 2} + {2}", "{1, 2, 2}", "bag(int)"),
    ("{1, 2} union {2}", "{1, 2, 2}", "bag(int)"),
    ("{1, 2} = {2, 1}", "true", "bool"),
    ("[1, 2] = [2, 1]", "false", "bool"),
    ("distinct({1, 2, 1})", "{1, 2}", "bag(int)"),
    ("select x from x in [1, 2]", "{1, 2}", "bag(int)"),
    ('(1, "a")#1', '"a"', "string"),
    ("<A: 1, B: 2>.B", "2", "int"),
    # comprehensions
    ("select x + y from (x, y) in S where x = 1", "{3, 6}", "bag(long)"),
    ("select distinct x from (x, y) in S", "{1, 3}", "bag(long)"),
    ("select (x, sum(y)) from (x, y) in S group by x", "{(1, 7), (3, 8)}", "bag((long, long))"),
    ("select (k, count(y)) from (x, y) in S group by k: x mod 2", "{(1, 4)}", "bag((long, long))"),
    ("select (a, b, count(x)) from (x, y) in S group by a: x, b: y", None, "bag((long, long, long))"),
    ("select (i, j) from (i, j) in S group by (i, j)", "{(1, 2), (1, 5), (3, 4)}", "bag((long, long))"),
    ("select x from (x, y) in S group by x having count(y) > 1 and sum(y) > 7", "{3}", "bag(long)"),
    ("select (x, y) from (x, y) in S order by y desc, x limit 2", "[(1, 5), (3, 4)]", "list((long, long))"),
    ("select y from (x, y) in S order by inv(y)", "[5, 4, 4, 2]", "list(long)"),
    ("select (p.X, t.V) from p in P, t in p.T where t.U > 1", '{(1, "b"), (2, "a")}', "bag((long, string))"),
    ("select (k, count(t)) from p in P, t in p.T group by k: t.V", '{("a", 2), ("b", 1)}', "bag((string, long))"),
    ("select (p.X, count(p.T)) from p in P", "{(1, 2), (1, 0), (2, 1)}", "bag((long, long))"),
    ("select x from (x, x) in {(1, 1), (1, 2)}", "{1}", "bag(int)"),
    ("select y from (1, y) in S", "{2, 5}", "bag(long)"),
    ("select a from <X: 1, Y: a> in P", "{0.5, 1.5}", "bag(double)"),
    ("select x from (x, *) in S, x in {1}", "{1, 1}", "bag(long)"),
    ("select (k, p) from p in P group by k: p.X having k = 2", None, None),
    ("select count(partition) from (x, y) in S group by x", "{2, 2}", "bag(long)"),
    ("select sum(x * y) from (x, y) in S group by k: 1", "{31}", "bag(long)"),
    ("select (x, count(select z from z in S where z#0 = x)) from x in {1, 2}", "{(1, 2), (2, 0)}", "bag((int, long))"),
    # nulls: comparisons are false, join keys match nothing, groups of nulls are one group
    ("select n.B from n in N where n.A = 1", '{"x", null}', "bag(string)"),
    ("select n.B from n in N where not (n.A = 1)", '{"y"}', "bag(string)"),
    ("select m.B from n in N, m in N where n.A = m.A", '{"x", null, "x", null}', "bag(string)"),
    ("select (a, count(n)) from n in N group by a: n.A", "{(null, 1), (1, 2)}", "bag((long, long))"),
    # definitions
    ("x = 3; x + 1", "4", "int"),
    ("let (a, b) = (1, 2), c = a + b in c * 2", "6", "int"),
    ("function f(n: int): int { n * 2 }; f(3) + f(4)", "14", "int"),
    ("macro twice(e) { e + e }; twice(3)", "6", "int"),
    ("type T = <A: int>; function g(r: T): int { r.A }; g(<A: 5>)", "5", "int"),
    ("incr count(S)", "4", "long"),
]


@pytest.mark.parametrize(("text", "expected", "expected_type"), CASES)
def test_answer(text: str, expected: str | None, expected_type: str | None) -> None:
    """A query has the expected value and type."""
    value, t = answer(text)
    if expected_type is not None:
        assert t == expected_type
    if expected is not None:
        wanted, _ = answer(expected) if not expected.startswith("Infinity") else (float("inf"), "")
        assert same(value, wanted), show_value(value)


MISSING = "a comparison with a missing value is false"

ERRORS = [
    ("select x from x in", "query:1:19"),
    ("1 + true", "`+` takes two numbers or two strings, not int and bool"),
    ("select x.Z from x in N", "unknown field `Z`"),
    ("select y from x in N", "unknown name `y`"),
    ("select x from x in NN", "did you mean `N`?"),
    ("select x from x in 3", "`from` takes a collection, not int"),
    ("select x from x in S where x#0", "the condition of `where` must be of type bool, not long"),
    ("select (a, b, c) from (a, b, c) in S", "takes a tuple of 3 apart, but the value is of type (long, long)"),
    ('[1, "a"]', "the elements of a list must be of one type"),
    ("if 1 then 2 else 3", "a condition must be of type bool, not int"),
    ('if true then 2 else "a"', "the branches of an if must be of one type"),
    ('sum({"a"})', "`sum` takes a collection of numbers, not of string"),
    ("count(3)", "`count` takes a collection, not int"),
    ("cuont(S)", "did you mean `count`?"),
    ("9223372036854775808", "out of the range of a long"),
    ("f(1)", "unknown function `f`"),
    ("function f(n: int): int { f(n) }; f(1)", "`f` calls itself too often: 5,000 calls are nested in each other"),
    ("function f(n: int): string { n }; 1", "the result of `f` must be of type string, not int"),
    ("x = 1; x = 2", "`x` is defined already"),
    ("select x from x in S order by {x}", "have no order"),
    ('source(csv, "f")', "the type of the rows is not given"),
    ('source(json, "f", type((int, int)))', "rows of json are records"),
    ('source(xlm, "f", {"a"})', "unknown format `xlm`"),
    ('source(csv, "d", ",", type((int)), tagged)', "nothing is taken away from a static source"),
    ('stream(json, "d", type(<A: int>), tagged)', "the rows of a csv stream can be tagged"),
    (
        'stream(csv, "d", ",", type((int)), tagged, deletions("e"))',
        "a stream is tagged or has a directory of deletions",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text: str, message: str) -> None:
    """A wrong query has one clear error with a place."""
    with pytest.raises(UserError) as caught:
        answer(text)
    assert message in str(caught.value)
    assert caught.value.span is not None


def test_error_shows_the_line_and_a_caret() -> None:
    """The rendered error has the place, the line and a caret under the fault."""
    with pytest.raises(UserError) as caught:
        answer("x = 1;\nselect n.A\nfrom n in N\nwhere n.A = n.C")
    expected = (
        "query:4:13: error: unknown field `C`\n 4 | where n.A = n.C\n   |             ^^^\n   = hint: did you mean `A`?"
    )
    rendered = str(caught.value)
    assert rendered.startswith(expected.split("\n   = hint")[0])


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("function f(n: long): long { if n = 0 then 0 else f(n + 1) }; f(1)", None),
        ("function f(n: long): long { if n > 0 then 0 else f(n) }; f(null)", MISSING),
        ("function f(p: (long, long)): long { if p#1 > 0 then 0 else f(p) }; f((1, null))", MISSING),
        ("function f(r: <a: long>): long { if r.a > 0 then 0 else f(r) }; f(<a: null>)", MISSING),
    ],
)
def test_calls_without_end(call: str, hint: str | None) -> None:
    """The hint names missing values if there are some: a function that counts upwards has none."""
    with pytest.raises(UserError, match="calls itself too often") as caught:
        answer(call)
    assert caught.value.hint == hint


RUNTIME_ERRORS = [
    ("1/0", "division by zero", "1/0"),
    ("1 mod 0", "remainder of a division by zero", "1 mod 0"),
    ("2147483647+1", "integer overflow", "2147483647+1"),
    ('"x" as int', '"x" is not a value of type int', '"x" as int'),
]


@pytest.mark.parametrize(("text", "message", "place"), RUNTIME_ERRORS)
def test_run_time_error_names_its_place(text: str, message: str, place: str) -> None:
    """An error at run time has the place of its operator."""
    with pytest.raises(UserError) as caught:
        answer(f"select {text} from x in S")
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.span.text == place
