"""Completion in the shell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lark import Token

from mrql import syntax
from mrql.algebra.terms import Stream
from mrql.parser.grammar import grammar
from mrql.parser.parser import parse_program
from mrql.shell.completion import KEYWORDS, completed
from mrql.shell.session import Session
from tests.support.cases import Case, cases

QUERIES = Path(__file__).parent.parent.parent.parent / "queries"

DEFINED = """
type Point = <X: long, Y: double>;
points = source(csv, "points.csv", ",", type(<X: long, Y: double>));
nested = {<A: 1, B: {<Q: "a">}>};
function squared(x: double): double { x * x };
data Shape = Circle: double | Nowhere;
"""


def offered(marked: str) -> list[str]:
    """The candidates at the `|` in a text."""
    session = Session()
    session.define(DEFINED)
    cursor = marked.index("|")
    found = completed(marked.replace("|", "", 1), cursor, session.definitions)
    return [candidate.text for candidate in found.candidates]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("select p from p in points where p.|", ["X", "Y"]),
        ("select p from p in points where p.Y|", ["Y"]),
        ("select p from p in points where p.Z|", []),
        ("select p.| from p in points", ["X", "Y"]),
        ("select p.|Y from p in points where", ["X", "Y"]),
        ("select (k, avg(p.|)) from p in points group by k: p.X", ["X", "Y"]),
        ("select p from p in points order by p.|", ["X", "Y"]),
        ("select b from n in nested, b in n.|", ["A", "B"]),
        ("select b.| from n in nested, b in n.B", ["Q"]),
        ("select (select p.| from p in points) from p in nested", ["X", "Y"]),
        ("select (select 1 from p in points) from p in nested where p.|", ["A", "B"]),
        ("select x from x in points where some p in nested: p.|", ["A", "B"]),
        ("select k from p in points group by k: <K: p.X> having k.|", ["K"]),
        ("select (select c.| from c in p) from p in points group by p.X", ["X", "Y"]),
        ("select p from p in points group by p: <K: p.|", ["X", "Y"]),
        ("select p from p in points group by p: <K: p.X> order by p.|", ["K"]),
        ("let q = <C: 1> in q.|", ["C"]),
        ("function f(p: Point): long { p.|", ["X", "Y"]),
        ("function f((n, p): (long, Point)): long { p.|", ["X", "Y"]),
        ("f = \\(p: Point). p.|", ["X", "Y"]),
        ("nested.|", ["A", "B"]),
        ("(<D: nested>).|", ["D"]),
        ("select p.| from p in {<`a b`: 1, c: 2>}", ["`a b`", "c"]),
        (":type nested.|", ["A", "B"]),
        (":explain select p.| from p in points", ["X", "Y"]),
        ("select p.| from p in nowhere", []),
        ("select p.|", []),
        ("1.|", []),
    ],
)
def test_fields(text: str, fields: list[str]) -> None:
    """After a dot, the fields of the value before it are offered, wherever its name is bound."""
    assert offered(text) == fields


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("|", {"select", "function", "points", "type"}, {"from", "X", "upper"}),
        ("select p from p in po|", {"points", "pow"}, {"nested"}),
        ("select p from p in points where |", {"p", "points", "not", "exists"}, {"upper", "from"}),
        ("select x from <X: x, Y: y> in points where |", {"x", "y"}, {"X"}),
        ("select u| from p in points", {"upper"}, {"union"}),
        ("select sq| from p in points", {"squared", "sqrt"}, set()),
        ("select p |", {"from", "and", "as", "in"}, {"p", "where", "select"}),
        ("select p from p in points w|", {"where"}, {"points"}),
        ("select p from p in points g|", {"group by"}, set()),
        ("select p from p in points order by p.X |", {"asc", "desc", "limit"}, {"having"}),
        ("if p |", {"then"}, {"else"}),
        ("repeat x = 1 |", {"step"}, {"limit"}),
        ("let q = 1 |", {"in"}, {"from"}),
        ("f = \\(p: Point).|", {"p", "points"}, {"X"}),
        ("f = \\x.|", {"points", "select"}, {"X"}),
        ("source(|", {"csv", "json"}, {"points", "select"}),
        ('x = stream(csv, "a", ",", t|', {"type", "tagged"}, set()),
        ('x = stream(csv, "a", ",", n|', {"nullValue"}, set()),
        ("type T = |", {"Point", "Shape", "long", "bag"}, {"points", "select"}),
        ("x as P|", {"Point"}, {"points"}),
        ("case s { |", {"Circle", "Nowhere"}, {"points"}),
        (":|", {"type", "explain", "load", "help", "quit", "names"}, {"select"}),
        (":ex|", {"explain"}, {"exists"}),
        (":help subs|", {"substring"}, {"select"}),
        (":type po|", {"points"}, set()),
    ],
)
def test_words(text: str, wanted: set[str], unwanted: set[str]) -> None:
    """Keywords that are possible at the cursor, known names, and functions once a letter is typed are offered."""
    found = set(offered(text))
    assert wanted <= found
    assert not unwanted & found


@pytest.mark.parametrize("text", ["// sel|", "/* sel|", '"sel|', "'sel|", "select ) p|", "[xml| <se|"])
def test_nothing_where_nothing_can_be_said(text: str) -> None:
    """Nothing is offered inside comments, strings and XML literals, or after invalid text."""
    assert offered(text) == []


def test_nothing_is_defined_by_it() -> None:
    """The fields of a source in the text are offered, but the source is not defined afterwards."""
    session = Session()
    text = 'select p. from p in source(csv, "a.csv", ",", type(<X: long>))'
    found = completed(text, 9, session.definitions)
    assert [(candidate.text, candidate.about) for candidate in found.candidates] == [("X", "long")]
    assert session.definitions.sources == {}


def test_every_word_of_the_grammar_is_offered() -> None:
    """Each terminal of the grammar that is made of letters has its words in `KEYWORDS`."""
    words = {terminal.name for terminal in grammar().terminals if re.search("[a-z]{2}", terminal.pattern.value)}
    assert words | {"_LET_IN"} == set(KEYWORDS)


@pytest.mark.parametrize("file", sorted(QUERIES.rglob("*.mrql")), ids=lambda file: str(file.relative_to(QUERIES)))
def test_what_is_written_could_have_been_completed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each keyword and field in the query files is offered after its first letter, with and without the rest of the
    statement behind it; a field in the head of a select, only with it."""
    monkeypatch.chdir(file.parent)
    session = Session(args=("1", "2", "3"))
    checked = 0
    whole = file.read_text(encoding="utf-8")
    elements = "source(xml" in whole  # the children of XML elements are not declared
    for statement in parse_program(whole).statements:
        text = statement.span.text
        for token in tokens(text):
            start = token.start_pos
            assert start is not None
            field = text[:start].endswith(".") and not isinstance(
                statement, syntax.MacroDef
            )  # the parameters of a macro have no types
            field = field and not elements
            if not token.isidentifier() or not (field or token.type in KEYWORDS):
                continue
            word = str(token) if field else token.lower()
            for rest in (text[start:], text[start : start + 1]):
                if field and rest != text[start:] and in_head(text[:start]):
                    continue
                found = completed(text[:start] + rest, start + 1, session.definitions)
                candidates = [candidate.text.split()[0] for candidate in found.candidates]
                assert word.split()[0] in candidates, text[:start] + "|" + rest
                checked += 1
        session.define(f"{text};")
    assert checked > 3


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_any_place_in_any_text(case: Case) -> None:
    """Completion works at any place, also after a new dot, and all candidates begin with the typed text."""
    session = Session()
    for name, t in case.streams.items():
        session.definitions.globals.values[name] = Stream(name, t)
    for cursor in range(case.line % 5, len(case.query) + 1, 20):
        for text, at in ((case.query, cursor), (f"{case.query[:cursor]}.{case.query[cursor:]}", cursor + 1)):
            found = completed(text, at, session.definitions)
            assert all(candidate.text.startswith(text[found.start : at]) for candidate in found.candidates)


def tokens(text: str) -> list[Token]:
    return list(grammar().parse_interactive(text, start="program").iter_parse())


def in_head(before: str) -> bool:
    """Whether a place is in the head of a select, whose names are bound after it."""
    return before.count("select") > len(re.findall(r"\bfrom\b", re.sub(r"^dump\s+\S+\s+from\b", "", before)))
