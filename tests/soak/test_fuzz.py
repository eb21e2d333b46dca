"""Any text has a value, or is a user error with its place; a longer search is `make soak`."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.span import Source, Span
from mrql.algebra.stack import deep
from mrql.cli.main import main
from mrql.parser.depth import QUERY_MAX_LEVELS
from mrql.translate.case import CASE_MAX_BRANCHES
from mrql.translate.compile_program import compile_program
from mrql.translate.size_limits import CALLS_MAX_LEVELS
from tests.soak.fuzz import Text, check_error, outcome, over_these, programs
from tests.soak.large_data import SHAPES, assert_bounded

TEXT_MAX_SECONDS = 10
"""The processor time that no text may exceed, in seconds."""
EXAMPLES = {"texts": 600, "mutants": 300, "grammatical": 50}
DEEP: dict[str, Callable[[int], str]] = {
    "tuples": lambda n: "(" * n + "1" + ",2)" * n,
    "bags": lambda n: "{" * n + "1" + "}" * n,
    "lists": lambda n: "[" * n + "1" + "]" * n,
    "records": lambda n: "<A:" * n + "1" + ">" * n,
    "selects": lambda n: "select x from x in (" * n + "{1}" + ")" * n,
    "heads": lambda n: "select (" * n + "1" + ") from x in {1}" * n,
    "conditions": lambda n: "exists(select y from y in {1} where " * n + "true" + ")" * n,
    "ifs": lambda n: "if true then " * n + "1" + " else 2" * n,
    "elses": lambda n: "if true then 1 else " * n + "1",
    "minus": lambda n: "- " * n + "1",
    "not": lambda n: "not " * n + "true",
    "lets": lambda n: "let x = 1 in " * n + "x",
    "sums": lambda n: "+".join(["1"] * n),
    "ands": lambda n: " and ".join(["true"] * n),
    "ors": lambda n: " or ".join(["false"] * n),
    "calls": lambda n: "abs(" * n + "1" + ")" * n,
    "casts": lambda n: "1" + " as int" * n,
    "cases": lambda n: "case 1 { x: " * n + "1" + "}" * n,
    "quantifiers": lambda n: "some x in {1}: " * n + "true",
    "functions": lambda n: "(" + "\\x. " * n + "1)" + "(1)" * n,
    "types": lambda n: "null as " + "{" * n + "int" + "}" * n,
    "xml": lambda n: "[xml| " + "<a>" * n + "{{1}}" + "</a>" * n + " |]",
    "patterns": lambda n: "let " + "(" * n + "x" + ", y)" * n + " = 1 in x",
}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_any_text(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    """Arbitrary texts, mutations of the queries here, and texts that the grammar allows have a value or are a user
    error."""
    base = tmp_path_factory.mktemp("nothing")
    few = settings(max_examples=EXAMPLES[kind], deadline=None, database=None, suppress_health_check=list(HealthCheck))

    @few
    @given(programs()[kind])
    def check(text: Text) -> None:
        began = time.process_time()
        outcome(text, base)
        assert time.process_time() - began < TEXT_MAX_SECONDS

    check()


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (UserError("no"), "without a place"),
        (UserError(" ", Span(Source("text", "select"), 0, 1)), "without words"),
        (UserError("no", Span(Source("text", "select"), 5, 7)), "outside of its text"),
        (UserError("no", Span(Source("text", "from"), 0, 1)), "of another text"),
    ],
)
def test_errors_that_say_too_little(error: UserError, fault: str) -> None:
    """`check_error` detects an error without a message, or without a place in the text."""
    with pytest.raises(AssertionError, match=fault):
        check_error(error, "select")


@pytest.mark.parametrize("form", DEEP)
def test_a_thousand_levels(form: str) -> None:
    """A text that is nested a thousand times is one error, with its place."""
    with pytest.raises(UserError) as caught:
        compile_program(DEEP[form](1000), "query")
    assert caught.value.message == f"nested too deeply: more than {QUERY_MAX_LEVELS} levels"
    assert caught.value.span is not None
    assert caught.value.hint is not None


@pytest.mark.parametrize("form", [form for form in DEEP if form != "patterns"])
def test_as_deep_as_may_be(form: str) -> None:
    """A text that is nested almost as deeply as it may be is evaluated and rewritten like any other."""
    levels = {"selects": 95, "conditions": 60, "functions": 95}.get(form, QUERY_MAX_LEVELS - 10)
    assert outcome(over_these(DEEP[form](levels)), Path()) == "value"


@pytest.mark.parametrize("levels", [60, 150, QUERY_MAX_LEVELS - 10, 1000, 40_000])
@pytest.mark.parametrize("command", ["explain", "run"])
def test_deep_xml(tmp_path: Path, command: str, levels: int) -> None:
    """Deep XML is explained and evaluated, or is one error, also in the code that displays a query."""
    file = tmp_path / "q.mrql"
    file.write_text(DEEP["xml"](levels) + ";")
    ran = CliRunner().invoke(main, [command, *(["--engine", "reference"] if command == "run" else []), str(file)])
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    assert ran.exit_code == (0 if levels < QUERY_MAX_LEVELS else 1), ran.output
    assert ran.output.count("error:") == (levels > QUERY_MAX_LEVELS)


def test_as_many_branches_as_may_be() -> None:
    """A `case` is evaluated and rewritten with as many branches as it may have."""
    branches = " | ".join(f"{i}: {i}" for i in range(CASE_MAX_BRANCHES - 1))
    assert outcome(over_these(f"select case x {{{branches} | _: 0}} from x in X"), Path()) == "value"


def test_as_many_calls_as_may_be() -> None:
    """Functions that call each other may do so up to the limit."""
    calls = "f0 = \\x. x + 1;" + "".join(f"f{i} = \\x. f{i - 1}(x);" for i in range(1, CALLS_MAX_LEVELS))
    assert outcome(over_these(f"{calls} f{CALLS_MAX_LEVELS - 1}(1);"), Path()) in ("value", "long")


@pytest.mark.parametrize("operator", ["and", "or"])
def test_a_chain_of_conditions_is_evaluated_once(operator: str) -> None:
    """Each side of a condition is evaluated once, so that a chain of conditions does not take exponential time."""
    text = f" {operator} ".join(["1 = 1" if operator == "and" else "1 = 2"] * 60)
    assert evaluate(compile_program(text).queries[0].term) is (operator == "and")


def test_deep_terms_leave_python_as_it_is() -> None:
    """The recursion limit is restored after it was raised for deep terms."""
    before = sys.getrecursionlimit()
    assert deep(sys.getrecursionlimit)() > before
    compile_program("1")
    assert sys.getrecursionlimit() == before


def limited() -> None:
    """Limits the memory of a process with a large text."""
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))


BAG = ", ".join(map(str, range(20_000)))
LARGE: dict[str, tuple[str, str | None]] = {
    "values in definitions": (
        "s0 = {1};" + "".join(f"s{i} = s{i - 1} union s{i - 1};" for i in range(1, 25)) + "count(s24);",
        "becomes too large: definitions that it names stand in it in more than 20,000 parts",
    ),
    "numbers in definitions": (
        "s0 = 1;" + "".join(f"s{i} = s{i - 1} + s{i - 1};" for i in range(1, 25)) + "s24;",
        "becomes too large",
    ),
    "macros in each other": (
        "macro f(x) {(x, x)};" + "f(" * 20 + "1" + ")" * 20 + ";",
        "functions and macros make too much of this: more than 50,000 parts",
    ),
    "macros of macros": (
        "macro f0(x) {x + x};" + "".join(f"macro f{i}(x) {{f{i - 1}(f{i - 1}(x))}};" for i in range(1, 6)) + "f5(1);",
        "functions and macros make too much of this",
    ),
    "functions in each other": ("function f(x: int): int { x + x };" + "f(" * 20 + "1" + ")" * 20 + ";", None),
    "generators": ("select 1 from " + ", ".join(f"x{i} in {{1, 2, 3, 4, 5, 6, 7, 8}}" for i in range(9)) + ";", None),
    "a bag": (f"count({{{BAG}}});", None),
    "brackets": ("(" * 49_000, "unexpected end of the query"),
    "a string": ('"' + "a" * 999_000 + '";', None),
    "a string of 5 MB": ('"' + "a" * 5_000_000 + '";', "a query of more than 1,000,000 characters"),
    "a string without an end": ('"' + "a" * 999_000, "unterminated string"),
    "an integer": ("1" * 999_000 + ";", "the number is too large"),
    "a name": ("x" * 999_000 + ";", "unknown name"),
    "a sum": ("1" + " + 1" * 120_000 + ";", "a query of more than 50,000 words and signs"),
    "semicolons": (";" * 999_000, "a query of more than 50,000 words and signs"),
    "definitions of each other": (
        "x0 = 1;" + "".join(f"x{i} = x{i - 1} + 1;" for i in range(1, 5000)) + "x4999;",
        None,
    ),
    "definitions of the first one": (
        "x0 = 1 + 1;" + "".join(f"x{i} = x{i - 1} + x0;" for i in range(1, 5000)) + "x4999;",
        None,
    ),
    "attributes": ("[xml| <a " + " ".join(f'k{i}="v"' for i in range(20_000)) + "/> |];", None),
    "elements": ("[xml| <a>" + "<b/>" * 10_000 + "</a> |];", None),
    "elements and lists": ("l = [[xml| <c/> |]]; [xml| <a>" + "<b/>{{l}}t" * 3000 + "</a> |];", None),
    "a function of itself": (r"(\x. x(x))(\x. x(x));", "q.mrql:1:16: error: more than 500 calls of functions"),
    "many generators": ("select 1 from " + ", ".join(f"x{i} in {{1}}" for i in range(1500)) + ";", None),
    "fields": ("<" + ", ".join(f"f{i}: 1" for i in range(8000)) + ">;", None),
    "cases": ("case 5 {" + " | ".join(f"{i}: {i}" for i in range(8000)) + " | _: 0};", "more than 250 branches"),
    "constructors": ("data D = " + " | ".join(f"C{i}: int" for i in range(8000)) + "; C3(1);", None),
    "functions": ("".join(f"function f{i}(x: int): int {{ x + {i} }};" for i in range(3000)) + "f7(1);", None),
    "macros": ("".join(f"macro m{i}(x) {{ x + {i} }};" for i in range(4000)) + "m7(1);", None),
    "a list that is looked in": ("5 in {" + ", ".join(map(str, range(20_000))) + "};", None),
    "unions": (" union ".join(["{1}"] * 10_000) + ";", "nested too deeply"),
    "conditions": ("select x from x in {1} where " + " and ".join(["x > 1"] * 5000) + ";", "nested too deeply"),
    "orders": ("select x from x in {1, 2} order by " + ", ".join(["x"] * 3000) + ";", None),
    "groups": ("select 1 from x in {1} group by " + ", ".join(f"k{i}: x" for i in range(1000)) + ";", None),
    "definitions": ("".join(f"x{i} = {i};\n" for i in range(12_000)) + "x5;", None),
}


@pytest.mark.wide(keep=5)
@pytest.mark.parametrize("shape", LARGE)
def test_large_texts(tmp_path: Path, shape: str) -> None:
    """A large text is checked or is an error, in ten seconds of processor time and a gigabyte of memory."""
    text, error = LARGE[shape]
    (tmp_path / "q.mrql").write_text(text)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "mrql", "check", str(tmp_path / "q.mrql")]
    ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False, timeout=300)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < TEXT_MAX_SECONDS
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr) < 3000
    assert ran.returncode == (0 if error is None else 1), ran.stderr
    assert error is None or error in ran.stderr


FEW = ("csv, an open quote", "json, lists in lists", "json, a wide object", "xml, children", "text, no gzip")


@pytest.mark.parametrize("shape", FEW)
def test_large_data(tmp_path: Path, shape: str) -> None:
    """Files that are hard to read have a value or one error in bounded time and memory; `make soak` reads all of them,
    and generated ones."""
    file = SHAPES[shape]
    assert_bounded(file, file.sources[min(1, len(file.sources) - 1)], tmp_path)
