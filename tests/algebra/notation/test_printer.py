"""The text of terms: what it looks like, and that it reads back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.functions.function import version
from mrql.algebra.notation.parser import parse, parse_type
from mrql.algebra.notation.printer import pretty, show, show_pattern
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import (
    CMap,
    Empty,
    Lambda,
    Lit,
    PAny,
    Prim,
    PTuple,
    PVar,
    Rec,
    Single,
    Stream,
    Term,
    Tup,
    Union,
    Var,
)
from tests.support.strategies import STREAMS, VARIABLES, terms, typed_terms

X = Var("x", ty.LONG)
P = Stream("P", ty.BagType(ty.TupleType((ty.LONG, ty.TupleType((ty.INT, ty.DOUBLE))))))
READ_WITH = {**STREAMS, "P": P}


def again(text: str) -> Term:
    return parse(text, READ_WITH, VARIABLES)


@settings(max_examples=150, deadline=None)
@given(typed_terms(variables=VARIABLES))
def test_text_reads_back(term: Term) -> None:
    """`parse(show(t)) == t`, and the text is one line."""
    text = show(term)
    assert "\n" not in text
    assert parse(text, STREAMS, VARIABLES) == term


@settings(max_examples=60, deadline=None)
@given(terms(ty.BagType(ty.LONG), variables=VARIABLES), st.sampled_from([1, 20, 60, 100]))
def test_pretty_text_reads_back(term: Term, width: int) -> None:
    """Breaking the text over lines changes nothing but white space."""
    assert parse(pretty(term, width), STREAMS, VARIABLES) == term
    assert "".join(pretty(term, width).split()) == "".join(show(term).split())


@pytest.mark.parametrize(
    "text",
    [
        # literals
        "1",
        "-1",
        "1L",
        "-9223372036854775808L",
        "1.0",
        "-0.0",
        "1e-07",
        "1e+16",
        "1.0f",
        "0.1f",
        "NaN",
        "NaNf",
        "Infinity",
        "-Infinity",
        "-Infinityf",
        "true",
        "false",
        "null:long",
        "null:<A: {long}>",
        '"a\\n\\"b\\\\\\u2028λ"',
        # the opposite of a literal is no literal
        "-(1)",
        "-(-1)",
        "--x",
        "x - -1",
        "-(1) as long",
        # precedence and association
        "1 + 2 * 3",
        "(1 + 2) * 3",
        "1 - 2 - 3",
        "1 - (2 - 3)",
        "1 / (2 mod 3)",
        "-x * 2",
        "-(x * 2)",
        "x as double ÷ 1L",
        "(x + 1) as double",
        "x as double as string",
        "-x as double",
        "not x = 1",
        "not (x = 1 and true)",
        "not not true",
        "(not true) = false",
        "(x = 1) = true",
        "true or false and true",
        "(true or false) and true",
        "x < 1 or not x > 1 and true",
        "{1} ⊎ {2} ⊎ {3}",
        "{1} ⊎ ({2} ⊎ {3})",
        "[1] ++ []:[int]",
        "{1} ⊎ {2} = {3}",
        "{1 = 2} ⊎ {true}",
        "(if x = 1 then 1 else 2) + 1",
        "if x = 1 then 1 else if x = 2 then 2 else 3 + 1",
        "let y = let x = 1 in x in y + x",
        "1 + (let x = 1 in x)",
        # tuples and records
        "()",
        "(1,)",
        "(1, (2L, 3.0))",
        "<>",
        "<A: 1, `a b`: <B: 2>>",
        "<A: (1 < 2)>",
        "<A: {1} ⊎ {2}>",
        "<A: <B: 1>>.A.B = 1",
        "(1, (2, 3))#1#0",
        "`if`.`in` = 1.0",
        # collections
        "{}:{long}",
        "[]:[<A: int>]",
        "[1, 2]",
        "{{1}}",
        "cMap(λx. {x}, k)",
        "cMap(λ(j, (a, b)). {(j, a as double ÷ 1L)}, P)",
        "cMap(λ_. {1L}, P)",
        "cMap(λ(_, (a, _)). {a}, P)",
        "cMap(λ(x: long, _: int). {x}, {}:{nothing})",
        "cMap(λx: long. {x}, {}:{nothing})",
        "groupBy(P)",
        "coGroup(P, groupBy(P))",
        "reduce(+, cMap(λ(j, _). {j}, P))",
        "reduce(⇑⊎, cMap(λ(j, v). {(j, {v})}, P))",
        "reduce((+ × max), cMap(λ(j, (a, _)). {(j, a)}, P))",
        "orderBy(cMap(λ(j, (a, b)). {((j, b), a)}, P); asc, desc)",
        "orderBy(cMap(λ(j, _). {((), j)}, P))",
        "take(2, [1, 2, 3])",
        'substring("abc", 0, 2)',
        "is_null(x)",
        # names
        "cMap(λS. {S}, S)",
        "cMap(λS. cMap(λx. {S.A + x.A}, stream S), S)",
        "cMap(λ`reduce`. {`reduce`}, `reduce`)",
        "cMap(λ`a b`. {`a b`}, `reduce`)",
        "cMap(λ`_`. {`_`}, `reduce`)",
        "cMap(λmin. {min}, `reduce`)",
    ],
)
def test_notation_is_canonical(text: str) -> None:
    """These texts are what `show` writes for the terms that they stand for."""
    assert show(again(text)) == text


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("{1, 2, 3}", "{1} ⊎ {2} ⊎ {3}"),
        ("{}", "{}:{nothing}"),
        ("[]", "[]:[nothing]"),
        ("null", "null:nothing"),
        ("((x))", "x"),
        ("cMap(\\x. {x}, `reduce`)", "cMap(λx. {x}, `reduce`)"),
        ("(1)+(2)", "1 + 2"),
        ("let (a, b) = (1, 2) in a + b", "let (a, b) = (1, 2) in a + b"),
        ("not(x=1)", "not x = 1"),
        ("x as  double", "x as double"),
        ("1f", "1.0f"),
        ("1e3", "1000.0"),
    ],
)
def test_reader_takes_more_than_is_written(text: str, meaning: str) -> None:
    """Other ways to write the same term."""
    assert show(again(text)) == meaning


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("(", 1, "the text ends too early"),
        ("1 + ", 1, "the text ends too early"),
        ("x modulo y", 1, "unexpected modulo"),
        ("1 < 2 < 3", 1, "unexpected <"),
        ("x ? 1", 1, "unexpected ?"),
        ("1 +\n  foo(1)", 2, "there is no function foo"),
        ("1 +\n z", 2, "there is no variable or stream z"),
        ("stream x", 1, "there is no stream x"),
        ("1 + true", 1, "ill-typed: + over int, bool"),
        ("x.A", 1, "ill-typed: .A of a value of type long"),
        ("cMap(λ(a, b). {a}, S)", 1, "a pattern of 2 parts meets a value of type <A: long, B: string>"),
        ("cMap(λ(a, a). {a}, R)", 1, "(a, a) binds a twice"),
        ("reduce(++, S)", 1, "++ does not commute, and a bag has no order"),
        ("if 1 then 2 else 3", 1, "the condition has type int"),
        ("orderBy(R; asc)", 1, "1 directions for a key of type int"),
        ("3000000000", 1, "the literal 3000000000 is not a value of type int"),
        ("{}:[long]", 1, "an empty collection cannot have type [long]"),
        ("x as numeral", 1, "there is no type numeral"),
        ("take(1, S)", 1, "the first elements of a {<A: long, B: string>}, which has no order"),
        ('"\\q"', 1, "in a string: Invalid \\escape"),
    ],
)
def test_errors_have_a_place(text: str, line: int, message: str) -> None:
    """What cannot be read is refused with a message and the line."""
    with pytest.raises(UserError) as caught:
        again(text)
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_terms_know_their_place() -> None:
    """The span of a subterm covers its text."""
    term = again("x + (1 *\n x)")
    assert isinstance(term, Prim)
    assert term.span is not None
    inner = term.args[1].span
    assert inner is not None
    assert inner.text == "1 *\n x"


def test_variables_stand_before_streams() -> None:
    """A free variable with the name of a stream keeps the plain name, and the stream is marked as one."""
    term = Tup((Var("S", ty.LONG), STREAMS["S"]))
    assert show(term) == "(S, stream S)"
    assert parse("(S, stream S)", STREAMS, {"S": ty.LONG}) == term


def test_static_sources_come_from_the_caller() -> None:
    """Whether a source is static is not in the text: the reader is given the source."""
    static = Stream("R", ty.BagType(ty.LONG), static=True)
    assert parse("R", {"R": static}) == static
    assert parse("R", {"R": ty.BagType(ty.LONG)}) == Stream("R", ty.BagType(ty.LONG))


def test_functions_of_the_caller() -> None:
    """A function that is not built in is read when the caller knows it."""
    twice = Function("my twice", (version("n -> n", lambda a: a * 2, None),), "a number")
    term = Prim(twice, (X,))
    assert show(term) == "`my twice`(x)"
    assert parse("`my twice`(x)", {}, {"x": ty.LONG}, {"my twice": twice}) == term


@pytest.mark.parametrize("name", ["if", "λx", "a`b", 'a"b', "a\\b", "1a", "", "a\nb", "ab\u2028", "_", "·1", "ä1"])
def test_any_name_reads_back(name: str) -> None:
    """Variables, fields and streams may be called anything."""
    t = ty.RecordType(((name, ty.LONG),))
    body = Single(Rec(((name, Var(name, t)),)))
    term = CMap(Lambda(PVar(name, t), body), Stream(name, ty.BagType(t)))
    text = show(term)
    assert "\n" not in text
    assert parse(text, {name: ty.BagType(t)}) == term


@given(st.floats(), st.sampled_from([ty.DOUBLE, ty.FLOAT]))
def test_floating_point_literals_read_back(x: float, t: ty.Type) -> None:
    """Every double and every float reads back, with its sign."""
    value = fn.to_single(x) if t == ty.FLOAT else x
    found = parse(show(Lit(value, t)))
    assert found == Lit(value, t)
    assert isinstance(found, Lit)
    assert math.isnan(x) or math.copysign(1, found.value) == math.copysign(1, value)


@given(st.text())
def test_strings_read_back(text: str) -> None:
    """Every string is written on one line and reads back."""
    shown = show(Lit(text, ty.STRING))
    assert len(shown.splitlines()) == 1
    assert parse(shown) == Lit(text, ty.STRING)


def test_literals_of_different_types_differ() -> None:
    """`1`, `1L`, `1.0`, `1.0f` and `true` are five different terms."""
    texts = ["1", "1L", "1.0", "1.0f", "true"]
    assert len({parse(text) for text in texts}) == len(texts)


def test_pretty_breaks_what_does_not_fit() -> None:
    """The layout of a longer term: brackets open on the line of their operator, chains have one operator per line."""
    term = again(
        "cMap(λx. cMap(λy. if x.A = y.A then {(x.B, y.B, x.A + y.A + 12345678910L * 7L)} "
        "else {}:{(string, string, long)}, S), S)"
    )
    assert pretty(term, 48) == (
        "cMap(\n"
        "  λx. cMap(\n"
        "    λy.\n"
        "      if x.A = y.A\n"
        "        then {(\n"
        "          x.B,\n"
        "          y.B,\n"
        "          x.A + y.A + 12345678910L * 7L\n"
        "        )}\n"
        "        else {}:{(string, string, long)},\n"
        "    S\n"
        "  ),\n"
        "  S\n"
        ")"
    )


def test_pretty_for_people() -> None:
    """Without types, and indented, for a report; a term that fits stays on its line."""
    term = again("if x = 1L then {x} else {}:{long}")
    assert pretty(term, indent=4, types=False) == "    if x = 1L then {x} else {}"
    assert pretty(Lit(None, ty.LONG), types=False) == "null"


def test_pretty_keeps_the_width() -> None:
    """Lines are no wider than asked where breaking can help, indentation included."""
    term = again("let (a, b) = (x + 1L, x + 2L) in {(a, b)} ⊎ {(b, a)} ⊎ {(a + b, a + b)} ⊎ {(x, x)}")
    lines = pretty(term, width=30, indent=4).splitlines()
    assert max(map(len, lines)) <= 30
    assert all(line.startswith("    ") for line in lines)


def test_ill_formed_terms_can_be_shown() -> None:
    """An error message must be able to show what is wrong."""
    wrong = CMap(Lambda(PTuple((PVar("a", ty.LONG), PAny(ty.INT))), Prim(fn.PLUS, (Lit(True, ty.BOOL),))), X)
    assert show(wrong) == "cMap(λ(a: long, _: int). `+`(true), x)"
    assert show(Union(X, Empty(ty.LONG))) == "x ⊎ []:long"


def test_patterns() -> None:
    """The types of a pattern are written unless they are known to be those of the value that it meets."""
    pattern = PTuple((PVar("a", ty.LONG), PTuple((PAny(ty.INT),))))
    assert show_pattern(pattern, pattern.type) == "(a, (_,))"
    assert show_pattern(pattern) == "(a: long, (_: int,))"


def test_a_long_pattern_is_broken() -> None:
    """A line of a broken pattern has as many variables as fit into the width."""
    streams = {"S": parse_type("{(long, long, (long, long), long, long)}")}
    term = parse("cMap(λ(one, two, (three, four), five, six). {one}, S)", streams)
    shown = pretty(term, width=20)
    assert shown.split("\n")[1:4] == ["  λ(one, two,", "    (three, four),", "    five, six). {"]
    assert parse(shown, streams) == term


@settings(max_examples=100, deadline=None)
@given(typed_terms(variables=VARIABLES))
def test_generated_terms_are_well_formed(term: Term) -> None:
    """What the strategies generate passes the checker."""
    check(term, VARIABLES)
