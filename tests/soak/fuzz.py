"""Texts that are no queries, or almost: each of them has a value or is a user error.

Three kinds are generated: any characters and sequences of tokens; the query files and cases of this repository, with
parts removed, doubled and mixed; and what the grammar allows, whether it means something or not.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from datetime import date
from importlib import resources
from pathlib import Path

import attrs
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark
from lark.lexer import PatternStr

from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.evaluation.evaluate import Evaluator
from mrql.algebra.functions import FUNCTIONS
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.stack import deep
from mrql.algebra.terms import Term
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Record, Value
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.sources.catalog import CATALOG
from mrql.runtime.sources.files import row_type
from mrql.translate.compile_program import compile_program
from tests.support.cases import cases
from tests.support.planning import planned

ROOT = Path(__file__).parent.parent.parent
STEPS = 20_000
"""The most steps of an evaluation; a longer one is aborted, and says nothing."""


@attrs.frozen
class Text:
    """A program and the streams that it may read."""

    text: str
    streams: Mapping[str, Type]
    data: Mapping[str, Bag] = attrs.field(repr=False)


S = "{<A: long, B: string, C: {(int, double)}>}"
STREAMS = {"S": parse_type(S), "T": parse_type("{(date, int)}"), "X": parse_type("{long}")}
DATA = {
    "S": Bag(
        [
            Record({"A": 1, "B": "b", "C": Bag([(1, 0.5)])}),
            Record({"A": None, "B": None, "C": Bag()}),
            Record({"A": 2**63 - 1, "B": "\ufffd", "C": Bag([(2**31 - 1, math.nan), (None, math.inf), None])}),
            Record({"A": -(2**63), "B": "\U0001f600\0", "C": Bag([(-(2**31), -0.0), (0, 5e-324), (1, 1e308)])}),
            Record({"A": 1, "B": "", "C": None}),
        ]
    ),
    "T": Bag([(None, 1), (date.min, -(2**31)), (date.max, 2**31 - 1)]),
    "X": Bag([1, 2, 2, None, 2**63 - 1, -(2**63)]),
}
"""Ordinary rows, and some with the extreme values of the types, and with missing parts."""
LARGE = re.compile(r"\d{5}|\d[eE][+]?\d")
"""Numbers that may make a range or a string larger than any test wants: such texts are not evaluated."""


class BrokenOff(Exception):
    """An evaluation that is too long."""


class Bounded(Evaluator):
    """An evaluator that is aborted after `STEPS` steps."""

    def __init__(self, streams: Mapping[str, Bag]) -> None:
        super().__init__(streams)
        self.steps = 0

    def value(self, term: Term, env: Mapping[str, Value]) -> Value:
        self.steps += 1
        if self.steps > STEPS:
            raise BrokenOff
        return super().value(term, env)


@deep
def evaluate_bounded(term: Term, streams: Mapping[str, Bag]) -> Value:
    """The value of a term.

    Raises: BrokenOff where it takes long, UserError where there is none.
    """
    return Bounded(streams).value(term, {})


def check_error(error: UserError, text: str) -> None:
    """Raises: AssertionError where an error has no message, or no place in the text or in one that the text
    includes."""
    span = error.span
    assert error.message.strip(), "an error without words"
    assert error.render(), error
    assert span is not None, f"an error without a place: {error.message}"
    assert span.source.included or span.source.text == text, f"an error of another text: {error.message}"
    assert 0 <= span.start <= span.end <= len(span.source.text), f"an error outside of its text: {error.message}"


def outcome(program_text: Text, base: Path) -> str:
    """The outcome of a text: `value`, `error` or `long`; any other exception is a bug of mrql, and is raised. A user
    error must name its place."""
    text = program_text.text
    try:
        program = compile_program(text, "text", program_text.streams, base, row_of=row_type, catalog=CATALOG)
        for query in program.queries:
            planned(query.term)
            if not LARGE.search(text):
                streams = {**program_text.data, **{name: Bag() for name in program.sources}}
                evaluate_bounded(query.term, streams)
                evaluate_bounded(normal_form(query.term), streams)
    except UserError as error:
        check_error(error, text)
        return "error"
    except EngineError as error:
        # The types of a table of PostgreSQL are read from its server, and there is none.
        if not error.message.startswith("cannot connect to postgresql:"):
            raise
        return "error"
    except BrokenOff:
        return "long"
    return "value"


# --- texts ----------------------------------------------------------------------------------------

LANGUAGE = """
select from where group by having order desc limit distinct if then else let in not and or mod union except
intersect some all exists case repeat step function macro aggregation data type store dump include import as incr
source stream json csv line parquet tagged deletions null true false partition args int long double string date
timestamp bag list any x y S T X A B C 0 1 7 2147483648 1.5 1e3 "a" 'b' "2026-01-31" count sum avg min max
"""
WORDS = (*LANGUAGE.split(), *(name for name in FUNCTIONS if name.isidentifier()))
SIGNS = (
    *"()[]{}<>,;:.=+-*/%#\\|@!\"'",
    *("<=", ">=", "<>", "!=", ":=", "..", "...", "//", "/*", "*/", "[xml|", "|]", "\n", "\u2028"),
)
TOKENS = re.compile(r"\s+|\w+|\"(?:[^\"\\]|\\.)*\"|[<>!:]=|<>|\.+|.", re.DOTALL)
tokens = st.sampled_from(WORDS) | st.sampled_from(SIGNS)


def over_these(text: str) -> Text:
    """A text over the streams above."""
    return Text(text, STREAMS, DATA)


def texts() -> st.SearchStrategy[Text]:
    """Any characters, and sequences of words and signs."""
    rows = st.lists(tokens, max_size=30)
    return st.one_of(st.text(max_size=40), rows.map(" ".join), rows.map("".join)).map(over_these)


@functools.cache
def corpus() -> tuple[Text, ...]:
    """The query files and the programs of the cases."""
    files = sorted((ROOT / "queries").rglob("*.mrql"))
    of_files = (over_these(file.read_text(encoding="utf-8")) for file in files)
    return (*of_files, *(Text(case.query, case.streams, case.data) for case in cases()))


@st.composite
def mutants(draw: st.DrawFn) -> Text:
    """A program with a few of its tokens left out, doubled, exchanged, or taken from another one."""
    original = draw(st.sampled_from(corpus()))
    parts = TOKENS.findall(original.text)
    other = TOKENS.findall(draw(st.sampled_from(corpus())).text)
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(parts)))
        length = draw(st.integers(0, 6))
        match draw(st.sampled_from(("out", "double", "exchange", "put", "mix", "cut"))):
            case "out":
                parts[at : at + length] = []
            case "double":
                parts[at:at] = parts[at : at + length]
            case "exchange":
                parts[at : at + 1] = [draw(tokens)]
            case "put":
                parts[at:at] = [draw(tokens)]
            case "mix":
                start = draw(st.integers(0, len(other)))
                parts[at : at + length] = other[start : start + length]
            case "cut":
                parts = parts[: max(at, 1)]
    return attrs.evolve(original, text="".join(parts))


CHOSEN = {
    "NAME": (
        "x",
        "y",
        "z",
        "S",
        "T",
        "X",
        "A",
        "B",
        "C",
        "f",
        "count",
        "sum",
        "length",
        "date",
        "first",
        "coalesce",
        "int",
    ),
    "INT": ("0", "1", "2", "7"),
    "CONSTANT": ("1.5", "true", "false", "null"),
    "STRING": ('"a"', '""', '"2026-01-31"', '"csv"'),
    "TEMPLATE": ("[xml| <a>{{1}}</a> |]", "[xml|<a|]"),
    "XPATH": ("xpath(.//a)",),
    "OPERATOR": ("or", "and", "mod", "<>", "<=", ">=", "..", "/", "%", "not in"),
    "SET_OPERATOR": ("union", "intersect", "except"),
    "DIRECTION": ("asc", "desc"),
    "PREFIX": ("not", "exists"),
    "QUANTIFIER": ("some", "all"),
    "SOURCE": ("source", "stream"),
    "_RECORD_END": (">",),
    "_LET_IN": ("in",),
    "FIELD_NAME": ("`a b`", "`in`", "`c``d`"),
    "COMMENT": ("// \n",),
    "WHITESPACE": (" ",),
}


@functools.cache
def grammatical() -> st.SearchStrategy[Text]:
    """Programs that the grammar allows, apart from rules that are checked outside of it."""
    text = resources.files("mrql.parser").joinpath("grammar.lark").read_text(encoding="utf-8")
    grammar = Lark(text, start=["program"], keep_all_tokens=True, parser="earley", lexer="dynamic")
    explicit: dict[str, st.SearchStrategy[str]] = {
        name: st.sampled_from([f" {word} " for word in words]) for name, words in CHOSEN.items()
    }
    for terminal in grammar.terminals:
        if terminal.name not in explicit:
            pattern = terminal.pattern
            word = pattern.value if isinstance(pattern, PatternStr) else re.match(r"[a-z]*", pattern.value)[0]  # type: ignore[index]
            explicit[terminal.name] = st.just(f" {word} ")
    return from_lark(grammar, start="program", explicit=explicit).map(over_these)


def programs() -> Mapping[str, st.SearchStrategy[Text]]:
    """The kinds of texts, by name."""
    return {"texts": texts(), "mutants": mutants(), "grammatical": grammatical()}
