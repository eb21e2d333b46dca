"""The parser's errors for invalid texts: messages, hints and places."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.parser.parser import QUERY_MAX_LEVELS, parse_expression, parse_program, parse_type


def outcome_of(parse: Callable[[str], syntax.Node], text: str) -> syntax.Node | UserError:
    """The tree or the `UserError`; any other exception is a fault of the parser."""
    try:
        return parse(text)
    except UserError as error:
        return error


def error_of(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        parse_program(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # select
        ("select x", "unexpected end of the query: expected `from` after the head of the select"),
        ("select from x in X", "expected an expression, found `from`"),
        ("select x fron x in X", "expected `from` after the head of the select, found `fron`"),
        ("select * from x in X", "expected an expression, found `*`"),
        ("select x from", "unexpected end of the query: expected a pattern"),
        ("select x from x", "unexpected end of the query: expected `in` after the pattern"),
        ("select x from x X", "expected `in` after the pattern, found `X`"),
        ("select x from in X", "expected a pattern, found `in`"),
        ("select x from x in X where", "unexpected end of the query: expected an expression"),
        ("select x from x in X wher x", "expected `where`, `group by`, `order by`, `,` or `;`, found `wher`"),
        ("select x from x in X group k: x", "expected `by`, found `k`"),
        ("select 1 from x in X group by x+1: 3", "expected a pattern before the `:`"),
        ("select x from x in X having p", "expected `;`, found `having`"),
        ("select x from x in X limit 3", "expected `;`, found `limit`"),
        (
            "select x from x in X order by x descending",
            "expected `asc`, `desc`, `limit`, `,` or `;`, found `descending`",
        ),
        # other expressions
        ("if a b", "expected `then` after the condition, found `b`"),
        ("if a then b", "unexpected end of the query: expected `else`, which every `if` needs"),
        ("let x = 1", "unexpected end of the query: expected `in` after the bindings of the let"),
        ("let x 1 in 2", "expected `=`, found `1`"),
        ("case x", "unexpected end of the query: expected `{` and the branches of the case"),
        ("case x { 1 2 }", "expected `:`, found `2`"),
        ("case x { 1: 2", "unexpected end of the query: expected `|` or `}`"),
        ("repeat x = 1", "unexpected end of the query: expected `step` after the first value of the repeat"),
        ("some x in X", "unexpected end of the query: expected `:`"),
        ("\\(x: int): int", "unexpected end of the query: expected `.`"),
        ("a < b < c", "comparisons do not chain"),
        ("1..2..3", "ranges do not chain"),
        ("x.", "unexpected end of the query: expected a field name"),
        ("x.3", "expected a field name, found `3`"),
        ("x.@1", "expected the name of an attribute, found `1`"),
        ("x#y", "expected a whole number, found `y`"),
        ("x as 3", "expected a type, found `3`"),
        ("1 + * 2", "expected an expression, found `*`"),
        ("x + from", "expected an expression, found `from`"),
        ("f(1 2)", "expected `,` or `)`, found `2`"),
        ("f(1", "unexpected end of the query: expected `,` or `)`"),
        ("(1, 2]", "expected `,` or `)`, found `]`"),
        ("[1, 2", "unexpected end of the query: expected `,` or `]`"),
        ("<A 1>", "expected `:`, found `1`"),
        ("<A: 1, >", "expected a field name, found `>`"),
        ("<A: 1", "unexpected end of the query: expected `,` or `>`"),
        ("<A: x > y>", "expected `;`, found `y`"),
        ("source()", "expected a name, found `)`"),
        # words and signs
        ('"abc', "unterminated string"),
        ("x = 'abc; y", "unterminated string"),
        ("/* abc", "unterminated comment"),
        ("x + 1 /* abc", "unterminated comment"),
        ("x == y", "expected an expression, found `=`"),
        ("x && y", "unexpected character `&`"),
        ("a ~ b", "unexpected character `~`"),
        ("9" * 500, "the number is too large"),
        ("1e999", "the number is too large for a double"),
        (r'"\ud800"', "the string holds half a surrogate pair"),
        # XML
        ("[xml| <a> |]", "`<a>` is not closed"),
        ("[xml| <a></b> |]", "`</b>` closes nothing"),
        ("[xml| <a/><b/> |]", "an XML literal is one element"),
        ("[xml| |]", "expected an XML element"),
        ("[xml| <a b=3/> |]", "expected an attribute's value in quotes"),
        ("[xml| <a b/> |]", "expected an attribute, `>` or `/>` in the tag `a`"),
        ("[xml| <a> < </a> |]", "expected an XML tag"),
        ("[xml| <a>{{1 + }}</a> |]", "unexpected end of the expression: expected an expression"),
        ("[xml| <a>{{1 </a> |]", "`{{` is not closed"),
        ("[xml| <a", "unterminated XML literal"),
        ("[html| <a/> |]", "`[html| … |]` is not known"),
        # statements
        (")", "expected a statement, found `)`"),
        ("x = ;", "expected an expression, found `;`"),
        ("x = 1\ny = 2", "expected `;`, found `y`"),
        ("x := 3", "expected `;`, found `:=`"),
        ("store x = 3;", "expected `from`, found `;`"),
        ('dump "x" select 1', "expected `from`, found `select`"),
        ("type T = 3;", "expected a type, found `3`"),
        ("type T = pair(int);", "`pair` does not make a type of others"),
        ("type T = bag(int, int);", "`bag` has one type in its brackets, not 2"),
        ("data T = ", "unexpected end of the query: expected a name"),
        ("function f(x) { x };", "expected `:`, found `)`"),
        ("function f(x: int) { x };", "expected `:`, found `{`"),
        ("function f(x: int): int x;", "expected `{`, found `x`"),
        ("function where(x: int): int { x };", "expected a name, found `where`"),
        ("macro f(x { x };", "expected `,` or `)`, found `{`"),
        (
            "aggregation f(a): int",
            "an aggregation has a way to combine, a zero and perhaps a unit and an inverse, not 1 part",
        ),
        ('import "m" as f;', "an import under a name says which callable of which module"),
    ],
)
def test_messages(text: str, message: str) -> None:
    """The message says what was expected and what was found, without the grammar's own names."""
    assert message == error_of(text).message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("select x from x in X wher x", "did you mean `where`?"),
        ("select * from x in X", "a record as a whole is its name: `select x from x in X`, or `x, y` of two"),
        ("select (a): x.a from x in X", "a name stands before what it is of: `select a: e, b: f from …`"),
        ("select <x.a, x.b> from x in X", "a field has a name: `<A: x.A, B: x.B>`"),
        ("select <a: x.a, b> from x in X", "a field has a name: `<A: x.A, B: x.B>`"),
        ("select (a, b from x in X", "the `(` on line 1 is not closed"),
        ("f(\n[1, 2)", "the `[` on line 2 is not closed"),
        ("x == y", "equality is written `=`"),
        ("x && y", "write `and`"),
        ("x || y", "`or` is for conditions; texts are joined by `+`"),
        ("!x", "write `not`"),
        ("# comment", "comments begin with `//`"),
        ("x := 3", "`x = e;` names an expression; `store x := e;` evaluates it once"),
        ("x = 1\ny = 2", "a statement ends with `;`"),
        ("<A: x > y>", "inside a record, put a comparison with `>` in round brackets"),
        ("select x from x in X limit 3", "`limit` follows the keys of an `order by`, or the step of a `repeat`"),
        ('x = "abc;\ny = "def";', "the string that begins on line 1 has several lines"),
        ("1 < x < 3", "write `a < b and b < c`, or use round brackets"),
    ],
)
def test_hints(text: str, hint: str) -> None:
    """Where the likely mistake is known, the hint says what would be right."""
    assert hint == error_of(text).hint


@pytest.mark.parametrize(
    ("text", "line", "column", "marked"),
    [
        ("x = 1;\ny = select a form a in A;", 2, 14, "form"),
        ("x = 1;\n  y = ;", 2, 7, ";"),
        ("a;\nb + 'c", 2, 5, "'"),
        ("a;\n  [xml| <a>\n{{b c}}</a> |]", 3, 5, "c"),
        ("select a\n\n// nothing follows\n", 3, 19, ""),
        ("a = b <\n c < d", 2, 4, "<"),
    ],
)
def test_places(text: str, line: int, column: int, marked: str) -> None:
    """The span of an error is the place where the text becomes invalid."""
    span = error_of(text).span
    assert span is not None
    assert (line, column, marked) == (span.line, span.column, span.text)


def test_rendering() -> None:
    """A rendered error has the file and place, the line with carets below the span, and the hint."""
    with pytest.raises(UserError) as caught:
        parse_program("x = 1;\ny = select a form a in A;", "q.mrql")
    assert caught.value.render() == (
        "q.mrql:2:14: error: expected `from` after the head of the select, found `form`\n"
        " 2 | y = select a form a in A;\n"
        "   |              ^^^^\n"
        "   = hint: did you mean `from`?"
    )


def test_one_expression_or_type_only() -> None:
    """A text for one expression or one type holds exactly that."""
    with pytest.raises(UserError, match="expected the end of the query, found `;`"):
        parse_expression("1; 2")
    with pytest.raises(UserError, match="expected the end of the query, found `int`"):
        parse_type("int int")
    with pytest.raises(UserError, match="unexpected end of the query: expected an expression"):
        parse_expression("")


# --- depth ------------------------------------------------------------------------------------------------------------

DEEP = {
    "round brackets": ("(", "1", ")"),
    "tuples": ("(1, ", "1", ")"),
    "lists": ("[", "1", "]"),
    "records": ("<A: ", "1", ">"),
    "calls": ("f(", "1", ")"),
    "minus": ("- ", "1", ""),
    "not": ("not ", "a", ""),
    "sums": ("1 + ", "1", ""),
    "fields": ("", "x", ".a"),
    "indexes": ("x[", "1", "]"),
    "ifs": ("if a then 1 else ", "2", ""),
    "conditions": ("if ", "a", " then 1 else 2"),
    "lets": ("let x = 1 in ", "x", ""),
    "let values": ("let x = ", "1", " in 2"),
    "lambdas": ("\\x. ", "x", ""),
    "selects": ("select x from x in ", "X", ""),
    "heads": ("select ", "1", " from x in X"),
    "subqueries": ("count(select x from x in X where ", "p", ")"),
    "quantifiers": ("some x in X: ", "p", ""),
    "cases": ("case x { a: ", "1", "}"),
    "loops": ("repeat x = 1 step ", "1", ""),
    "incr": ("incr ", "x", ""),
    "types": ("x as {", "int", "}"),
    "bag types": ("x as bag(", "int", ")"),
    "patterns": ("let (a, ", "b", ") = 1 in 2"),
    "keys": ("select 1 from x in X group by (a, ", "b", "): 1"),
    "bodies of functions": ("f(", "x", ")"),
    "parameters": ("(_, ", "b", ")"),
    "XML": ("<a>", "", "</a>"),
}
ONCE = {"x as {": ("x as ", "{"), "x as bag(": ("x as ", "bag(")}


def deep_text(title: str, depth: int) -> str:
    """The construct, nested in itself `depth` times."""
    opening, middle, closing = DEEP[title]
    if title == "XML":
        return f"[xml| {opening * depth}{closing * depth} |]"
    if opening in ONCE:
        start, opening = ONCE[opening]
        return start + opening * depth + middle + closing * depth
    if title == "bodies of functions":
        return f"function f((x, y): (int, int)): int {{ {opening * depth}{middle}{closing * depth} }}"
    if title == "parameters":
        return f"macro f({opening * depth}{middle}{closing * depth}) {{ b }}"
    if title == "patterns":
        return "let " + "(a, " * depth + "b" + ")" * depth + " = 1 in 2"
    if title == "keys":
        return "select 1 from x in X group by " + "(a, " * depth + "b" + ")" * depth + ": 1"
    return opening * depth + middle + closing * depth


@pytest.mark.parametrize("title", DEEP)
def test_deep_texts(title: str) -> None:
    """A thousand levels of a construct are an error, or a tree for round brackets, but never a stack overflow."""
    outcome = outcome_of(parse_program, deep_text(title, 1000))
    if title == "round brackets":
        assert isinstance(outcome, syntax.Script)
    else:
        assert isinstance(outcome, UserError)
        assert outcome.message == f"nested too deeply: more than {QUERY_MAX_LEVELS} levels"


def test_a_very_deep_text() -> None:
    """Tens of thousands of levels do not overflow Python's own stack either, where a tree is taken apart."""
    assert isinstance(outcome_of(parse_program, "(" * 24_000 + "1" + ")" * 24_000), syntax.Script)
    assert isinstance(outcome_of(parse_program, "- " * 50_000 + "1"), UserError)


@pytest.mark.parametrize("title", DEEP)
def test_deep_texts_without_an_end(title: str) -> None:
    """A deep text that breaks off is an error like any other."""
    with pytest.raises(UserError):
        parse_program(deep_text(title, 1000)[:-1] + " (")


@pytest.mark.parametrize("title", DEEP)
def test_texts_that_are_deep_enough_for_anybody(title: str) -> None:
    """Fifty levels of each construct parse."""
    assert len(parse_program(deep_text(title, 50)).statements) == 1


# --- any text ---------------------------------------------------------------------------------------------------------

WORDS = re.findall(
    r"\S+",
    r"""
select distinct from where group order by having asc desc limit if then else let in case repeat step incr true false
null as or and not union intersect except exists some all mod source stream type deletions xpath store dump data
function macro aggregation include parser import bag list int x y f A C count _ header tagged
( ) [ ] { } < > <= >= <> != = := : , ; | . .. ... @ # ! \ + - * / % " ' 1 2.5 1e3 "a" 'b' // /* */
[xml| |] <a> </a> <a/> {{ }}
""",
)

any_text = st.text(max_size=60)
token_soup = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
tight_soup = st.lists(st.sampled_from(WORDS), max_size=20).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.one_of(any_text, token_soup, tight_soup))
def test_any_text_is_a_tree_or_an_error(text: str) -> None:
    """Any text is a tree, or an error that can be rendered, with a span inside the text."""
    for parse in (parse_program, parse_expression, parse_type):
        outcome = outcome_of(parse, text)
        if isinstance(outcome, UserError):
            assert outcome.span is not None
            assert 0 <= outcome.span.start <= outcome.span.end <= len(text)
            assert outcome.render().startswith("<query>:")


PIECES = re.findall(
    r"\S+",
    r"""
select (k, count(x)) from x in X, (a, b) in Y where x.a = b and not exists Z group by k: x.a having k > 1
order by k desc limit 3; let y = 1 in if y > 2 then <A: y> else <A: 3>; case c { C(z): z | *: 1 };
f(\(x: int): int. x); data T = C: int | D; import g from "m"; store z := some q in Q: q#0 = y.@b;
""",
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_queries(data: st.DataObject) -> None:
    """A query with a word missing, doubled or replaced is a tree or an error that can be shown."""
    words = list(PIECES)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at : at + 1] = data.draw(st.lists(st.sampled_from(WORDS), max_size=2))
    outcome = outcome_of(parse_program, " ".join(words))
    if isinstance(outcome, UserError):
        assert outcome.render().startswith("<query>:")
        # Messages do not show the names of the grammar's terminals.
        assert not re.search(r"_[A-Z]|[A-Z]{4}", outcome.message.split(", found")[0])
