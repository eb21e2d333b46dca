"""Python modules beside a query file, parsers, and functions that are sent to Spark's workers."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.recursive_functions import Recursive
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.terms import Prim, Term
from mrql.algebra.values.data import Data, text_depth
from mrql.algebra.values.values import Bag
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files
from mrql.translate.compile_program import compile_program
from mrql.translate.program import Program
from tests.loops.test_queries import by_reference, by_spark

LINES = """
from __future__ import annotations

def row(line: str) -> list[tuple[str, int]]:
    word, _, number = line.partition(" ")
    return [(word, int(number))] if number else []

def any_row(line):
    return [{"A": line[:1], "B": None}]
"""

FACTORIAL = "function f(n: long): long { if n > 1 then n * f(n - 1) else 1 }; "


def program(directory: Path, text: str) -> Program:
    return compile_over_files(text, str(directory / "query.mrql"), base=directory)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "log_lines.py").write_text(LINES)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "one.txt").write_text("a 1\nb 20\nnothing\na 3\n")
    return tmp_path


PARSERS = (
    (
        'parser log = "log_lines:row"; select (w, sum(n)) from (w, n) in source(log, "log") group by w',
        Bag([("a", 4), ("b", 20)]),
    ),
    (
        'parser log = "log_lines:any_row"; select r.A from r in source(log, "log", type(<A: string, B: long>)) '
        "where is_null(r.B)",
        Bag(["a", "b", "n", "a"]),
    ),
)


@pytest.mark.parametrize(("text", "expected"), PARSERS)
def test_a_parser_makes_rows_of_lines(directory: Path, text: str, expected: Bag) -> None:
    """A parser makes of each line the rows in the list that it returns."""
    assert by_reference(program(directory, text)) == [expected]


@pytest.mark.spark
def test_a_parser_on_spark(directory: Path, spark: SparkSession) -> None:
    """The workers of Spark, which are other processes, find the module of a parser."""
    for text, expected in PARSERS:
        assert by_spark(program(directory, text), spark) == [expected]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('parser log = "log_lines"; source(log, "log")', "a parser says which callable of which module it is"),
        ('parser log = "nowhere:f"; source(log, "log")', "there is no module `nowhere`"),
        ('parser log = "log_lines:any_row"; source(log, "log")', "the parameter `line` of `log` has no annotation"),
        ('parser up = "builtins:len"; source(up, "log", type(long), ",")', "one argument too many"),
        ('parser log = "log_lines:row"; parser log = "log_lines:row";', "`log` is defined already"),
    ],
)
def test_a_wrong_parser(directory: Path, text: str, message: str) -> None:
    """A wrong parser is one error with its place."""
    with pytest.raises(UserError) as caught:
        program(directory, text)
    assert message in str(caught.value)
    assert caught.value.span is not None


def test_a_module_of_another_directory(tmp_path: Path) -> None:
    """Two query files may have modules of one name beside them; each uses its own, also when evaluated again."""
    terms = []
    for name, sign in (("first", "!"), ("second", "?")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ending.py").write_text(f"def end(s: str) -> str:\n    return s + {sign!r}\n")
        text = 'import end from "ending"; end("x")'
        terms.append(program(tmp_path / name, text).queries[0].term)
    assert [evaluate(term) for term in terms] == ["x!", "x?"]
    assert [evaluate(term) for term in terms] == ["x!", "x?"]


def test_check_calls_nothing(tmp_path: Path) -> None:
    """`check` imports a module without calling its functions, and reports what is missing or fails in it."""
    (tmp_path / "loud.py").write_text("def f(n: int) -> int:\n    raise SystemExit('called')\n")
    query = tmp_path / "q.mrql"
    query.write_text('import f from "loud"; select f(n) from n in 1..3; f(4);')
    assert CliRunner().invoke(main, ["check", "--allow-import", str(query)]).exit_code == 0
    query.write_text('import g from "loud"; 1')
    result = CliRunner().invoke(main, ["check", "--allow-import", str(query)])
    assert result.exit_code == 1
    assert "the module `loud` has no `g`" in result.output
    (tmp_path / "broken.py").write_text("1 / 0\n")
    query.write_text('import g from "broken"; 1')
    assert (
        "cannot be imported: ZeroDivisionError: division by zero"
        in CliRunner().invoke(main, ["check", "--allow-import", str(query)]).output
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('1;\nimport f from "loud"; 2;', "`import`"),
        ('1;\nimport "loud:f" as g(long): long; 2;', "`import`"),
        ('1;\nparser p = "loud:f"; 2;', "`parser`"),
        ('1;\ns = stream(adapter, "loud:f", "x", type(<n: long>)); count(s);', "an adapter"),
        ('1;\ninclude "other.mrql"; 2;', "`import`"),
    ],
)
def test_a_command_asks_for_allow_import(tmp_path: Path, text: str, what: str) -> None:
    """A file that names code in Python is refused, with the line and the option, before any of it is run."""
    (tmp_path / "loud.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    (tmp_path / "other.mrql").write_text('1;\nimport f from "loud";')
    query = tmp_path / "q.mrql"
    query.write_text(text)
    reference = ["--engine", "reference"]
    commands = (["run", *reference], ["stream", "--once", *reference], ["verify", *reference])
    for command in (["check"], ["explain"], *commands):
        done = CliRunner().invoke(main, [*command, str(query)])
        assert done.exit_code == 1, (command, done.output)
        assert f"{'other' if 'include' in text else 'q'}.mrql:2:" in done.output
        assert f"{what} runs code in Python, which this command does not" in done.output
        assert "--allow-import" in done.output
    for typed in (text if what != "`import`" else 'import f from "loud";', f":load {query}"):
        done = CliRunner().invoke(main, ["shell", "--engine", "reference"], input=f"{typed}\n")
        assert "--allow-import" in done.output, done.output
    assert not (tmp_path / "ran").exists()


def test_the_shell_imports_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--allow-import`, the shell imports modules."""
    (tmp_path / "twice.py").write_text("def twice(n: int) -> int:\n    return 2 * n\n")
    monkeypatch.chdir(tmp_path)
    command = ["shell", "--engine", "reference", "--allow-import"]
    done = CliRunner().invoke(main, command, input='import twice from "twice";\ntwice(21);\n')
    assert "42" in done.output, done.output


# --- functions that call themselves ---------------------------------------------------------------


def compiled(text: str) -> Term:
    return compile_program(text).queries[-1].term


def function_of(term: Term) -> Recursive:
    return next(t.function for t in subterms(term) if isinstance(t, Prim) and isinstance(t.function, Recursive))


def test_functions_are_equal_when_they_are_defined_alike() -> None:
    """Recursive functions are equal if their definitions are, and not if only their names are."""
    assert compiled(FACTORIAL + "f(3)") == compiled(FACTORIAL + "f(3)")
    other = compiled(FACTORIAL.replace("else 1", "else 2") + "f(3)")
    assert compiled(FACTORIAL + "f(3)") != other
    assert function_of(other).digest != function_of(compiled(FACTORIAL + "f(3)")).digest


def test_the_digest_sees_what_is_called() -> None:
    """The digest of a recursive function changes with the functions that it calls."""
    text = FACTORIAL + "function g(n: long): long { if n > 0 then g(n - 1) + f(n) else 0 }; g(3)"
    assert function_of(compiled(text)).digest == function_of(compiled(text)).digest
    changed = compiled(text.replace("else 1 }", "else 2 }"))
    assert function_of(changed).digest != function_of(compiled(text)).digest


def test_terms_with_such_functions_read_back() -> None:
    """A term with a recursive function parses back, given the function by its name, which may be one of the library."""
    text = FACTORIAL.replace("f(", "abs(") + "select abs(n) from n in 1..3"
    term = compiled(text)
    function = function_of(term)
    assert show(term) == "cMap(λn1. {`abs'`(n1)}, range(1, 3))"
    from mrql.algebra.functions import FUNCTIONS

    assert parse(show(term), functions={**FUNCTIONS, function.name: function}) == term


def test_terms_with_such_functions_are_sent() -> None:
    """A term that is pickled and unpickled is equal and has the same value."""
    from pyspark import cloudpickle

    term = compiled(FACTORIAL + 'data T = L: long | N: T; select (f(n), length("x"), N(L(n))) from n in 1..4')
    sent = pickle.loads(cloudpickle.dumps(term))
    assert sent == term
    assert evaluate(sent) == evaluate(term)


def test_depth_is_not_bounded_by_python() -> None:
    """4,999 nested calls are evaluated, whatever Python's own limit and however large the body; 5,000 are an error."""
    before = sys.getrecursionlimit()
    deep = "x" + "".join(f" + (if x > {i} then 0 else 0)" for i in range(20))
    text = f"function f(n: long): long {{ if n > 0 then 1 + f(n - 1) + (let x = n in {deep}) * 0 else 0 }}; f(4999)"
    assert evaluate(compiled(text)) == 4999
    assert sys.getrecursionlimit() == before
    with pytest.raises(UserError, match="5,000 calls are nested in each other"):
        evaluate(compiled(text.replace("f(4999)", "f(5000)")))


def test_the_depth_of_a_text() -> None:
    """The depth of a data value counts nested brackets, but not those in strings."""
    assert text_depth('{"N":[{"L":1},{"[[[":"]\\"[["}]}') == 3
    assert Data('{"N":{"N":{"Z":null}}}').depth == 3
    assert compiled("data T = N: T | Z; N(N(Z))").type == ty.Basic(ty.Kind.DATA, "T")
    assert evaluate(compiled("data T = N: T | Z; N(N(Z))")).depth == 3
