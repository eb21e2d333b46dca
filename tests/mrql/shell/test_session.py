"""A session without a terminal: what stays defined, what is rolled back, and what is evaluated when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mrql import syntax
from mrql.algebra.errors import MrqlError, UserError
from mrql.algebra.values.values import Bag, Value, same
from mrql.jobs.batch import BatchJob
from mrql.parser.parser import parse_program
from mrql.shell.interruptible import InterruptibleBatchJob
from mrql.shell.session import Session
from mrql.translate.program import Program
from tests.support.cases import Case, cases

RIGHT = [case for case in cases() if not case.reads and case.error is None]
WRONG = [case for case in cases() if case.error is not None and "is defined already" not in case.error]


def answers(session: Session, text: str) -> list[Value]:
    """The answers to an input."""
    return [session.answer(query) for query in session.define(text)]


def answer(session: Session, text: str) -> Value:
    (value,) = answers(session, text)
    return value


def error(session: Session, text: str) -> str:
    """The error of an input, with its place."""
    with pytest.raises(UserError) as caught:
        answers(session, text)
    return str(caught.value)


def contents(session: Session) -> list[dict[Any, Any]]:
    """The tables of everything that a session has defined."""
    return [dict(table) for table in session.definitions._tables()]


def statements(text: str) -> Iterator[str]:
    """The statements of a program, one by one; consecutive functions and types, which may name each other, together."""
    defining = (syntax.FunctionDef, syntax.DataDef, syntax.TypeDef)
    for together, found in groupby(parse_program(text).statements, lambda statement: isinstance(statement, defining)):
        texts = [f"{statement.span.text};" for statement in found]
        yield from [" ".join(texts)] if together else texts


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_statement_by_statement(case: Case) -> None:
    """The statements of a program have the same answer one by one as together."""
    session = Session()
    values = [value for statement in statements(case.query) for value in answers(session, statement)]
    assert same(values[-1], case.expected(case.compiled.type))


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_what_is_in_error_is_taken_back_whole(case: Case) -> None:
    """An input with an error defines nothing, and leaves earlier definitions as they were."""
    session = Session()
    session.define("x = 1; function f(n: long): long { n }; data D = C: long | N; type T = (long, long);")
    before = contents(session)
    try:
        session.define(f"x = 2; y = x; function g(n: int): int {{ n }}; data E = C: string;\n{case.query}")
    except MrqlError:
        assert contents(session) == before
        return
    with pytest.raises(MrqlError):  # the error depends on the data
        answers(Session(), case.query)


def test_definitions_stay() -> None:
    """Definitions of all kinds are known in later inputs."""
    session = Session()
    for text in (
        "type P = <A: long, B: string>;",
        "data Shape = Circle: double | Point;",
        "function double(x: long): long { 2 * x };",
        "macro twice(e) { (e, e) };",
        "aggregation product(\\(x, y). x * y, 1): long;",
        "inc = \\x. x + 1;",
        "x = 3;",
        "store y := double(x);",
    ):
        assert answers(session, text) == []
    assert answer(session, "(inc(y), twice(x), product({2, 3}))") == (7, (3, 3), 6)
    assert answer(session, "select case s { Circle(r): r | Point: 0.0 } from s in {Circle(2), Point}") == Bag(
        [2.0, 0.0]
    )


def test_a_name_may_be_defined_again() -> None:
    """Later inputs use the new definition of a name; values that were defined with the old one keep it."""
    session = Session()
    session.define("x = 1; y = x + 1; function f(n: int): int { n + x };")
    session.define("x = x + 9;")
    assert answer(session, "(x, y, f(0))") == (10, 2, 10)
    session.define("type x = long;")
    assert "unknown name `x`" in error(session, "x;")
    session.define("f = 5;")
    assert answer(session, "f + y") == 7
    assert "unknown function `f`" in error(session, "f(1);")


def test_a_source_that_is_defined_again(tmp_path: Path) -> None:
    """A source that is defined again keeps its name; definitions over the old one still read that."""
    for name, text in (("a", "1\n2\n"), ("b", "3\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    session = Session(tmp_path)
    session.define('S = source(csv, "a.csv", ",", type(long));')
    session.define('S = source(csv, "b.csv", ",", type(long));')
    assert list(session.definitions.sources) == ["S"]
    session.define("old = select x + 10 from x in S;")
    session.define('S = source(csv, "a.csv", ",", type(long));')
    assert answer(session, "(sum(S), sum(old))") == (3, 13)
    assert len(session.definitions.sources) == 2


def test_the_sources_of_past_expressions_are_forgotten(tmp_path: Path) -> None:
    """Sources that only past expressions have read are dropped, however many are typed."""
    (tmp_path / "a.csv").write_text("1\n2\n")
    session = Session(tmp_path)
    for n in range(3):
        text = f'select x + {n} from x in source(csv, "a.csv", ",", type(long));'
        assert answer(session, text) == Bag([1 + n, 2 + n])
    session.type_of('source(csv, "a.csv", ",", type(int))')
    session.define("")
    assert session.definitions.sources == {}


def test_the_sources_of_an_input_are_kept_until_it_is_answered(tmp_path: Path) -> None:
    """The sources of an input are kept until it is answered, even if another one is defined after its expression."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("1\n")
    session = Session(tmp_path)
    text = 'count(source(csv, "a.csv", ",", type(long))); S = source(csv, "b.csv", ",", type(long)); sum(S);'
    assert answers(session, text) == [1, 1]


def test_data_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    """Data, and the deletions of a stream, are read at each evaluation; a stored value is evaluated once."""
    for directory in ("rows", "gone"):
        (tmp_path / directory).mkdir()
    (tmp_path / "rows" / "1.csv").write_text("1\n2\n2\n")
    session = Session(tmp_path)
    session.define('S = stream(csv, "rows", ",", type(long), deletions("gone")); store n := count(S);')
    assert answer(session, "(count(S), n)") == (3, 3)
    (tmp_path / "gone" / "1.csv").write_text("2\n")
    assert answer(session, "(count(S), n)") == (2, 3)
    assert answer(session, "S") == Bag([1, 2])


def test_what_is_stored_may_be_stored_again(tmp_path: Path) -> None:
    """A name may be stored again; values that were defined with the old value keep it."""
    (tmp_path / "a.csv").write_text("1\n2\n")
    session = Session(tmp_path)
    session.define('S = source(csv, "a.csv", ",", type(long)); store x := select y + 1 from y in S;')
    session.define("old = select y * 10 from y in x;")
    assert answer(session, "old") == Bag([20, 30])
    session.define("store x := select y + 2 from y in S;")
    (tmp_path / "a.csv").write_text("5\n")
    assert answers(session, "x; old;") == [Bag([7]), Bag([20, 30])]
    (tmp_path / "a.csv").write_text("6\n")
    assert answers(session, "x; old; S;") == [Bag([7]), Bag([20, 30]), Bag([6])]


def test_what_could_not_be_stored_is_tried_again(tmp_path: Path) -> None:
    """A stored value whose evaluation failed is evaluated again, and then kept."""
    session = Session(tmp_path)
    session.define('store n := count(source(csv, "a.csv", ",", type(long)));')
    assert "no such file" in error(session, "n;")
    (tmp_path / "a.csv").write_text("1\n")
    assert answer(session, "n") == 1
    (tmp_path / "a.csv").write_text("1\n2\n")
    assert answer(session, "n") == 1


def test_includes_and_loaded_files(tmp_path: Path) -> None:
    """Included and loaded files are read each time that they are named, and an error in one takes back all of it."""
    file, inner = tmp_path / "defs.mrql", tmp_path / "inner.mrql"
    inner.write_text("one = 1;")
    file.write_text('include "inner.mrql"; two = one + 1; two * 10;')
    session = Session()
    assert [session.answer(query) for query in session.load(file)] == [20]
    inner.write_text("one = 2;")
    assert [session.answer(query) for query in session.load(file)] == [30]
    file.write_text('include "inner.mrql"; two = 7; three = oops;')
    with pytest.raises(UserError) as caught:
        session.load(file)
    assert f"{file}:1:40: error: unknown name `oops`" in str(caught.value)
    assert answer(session, "(one, two)") == (2, 3)
    assert "unknown name `three`" in error(session, "three;")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: None, "cannot be read: No such file or directory"),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "is not a text file in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_loaded(tmp_path: Path, make: Any, message: str) -> None:
    """A file that cannot be loaded is an error that names it."""
    file = tmp_path / "q.mrql"
    make(file)
    with pytest.raises(UserError) as caught:
        Session().load(file)
    assert str(caught.value) == f"error: {file} {message}"


def test_an_error_has_the_line_that_it_was_typed_in() -> None:
    """An error has the place where its text was typed, also in an earlier input."""
    session = Session()
    session.define("bad = select 1 / x\n  from x in {0};")
    session.define("other = 1;")
    assert error(session, "count(bad) + sum(bad);") == (
        "<shell>:1:14: error: division by zero\n 1 | bad = select 1 / x\n   |              ^^^^^"
    )
    assert error(session, "other + true;").startswith("<shell>:5:1: error: `+` takes")


def test_the_type_of_an_expression() -> None:
    """The type is found without evaluation; of a function, the parameters and the result are shown."""
    session = Session()
    session.define("function f(x: long, s: string): bag(long) { {x} };")
    assert session.type_of("select (x, 1.5) from x in f(1, 'a')") == "bag((long, double))"
    assert session.type_of("1 / 0;") == "int"
    assert session.type_of(" f ") == "f(x: long, s: string): bag(long)"
    with pytest.raises(UserError) as caught:
        session.type_of(":type 1 + oops", 6)
    assert str(caught.value).splitlines()[1:] == [
        " 4 | :type 1 + oops",
        "   |           ^^^^",
        '   = hint: a text is in quotes: "oops"',
    ]


def test_an_explanation(tmp_path: Path) -> None:
    """The explanation depends on whether rows of the stream may be deleted."""
    session = Session(tmp_path)
    session.define('S = stream(csv, "s", ",", type((long, long)));')
    session.define('T = stream(csv, "s", ",", type((long, long)), deletions("d"));')
    explained = [session.explain(f"select (k, max(v)) from (k, v) in {name} group by k") for name in "ST"]
    assert ["rows (" in text for text in explained] == [False, True]


def test_variables_are_called_as_in_a_file() -> None:
    """Earlier inputs do not change the numbers in the names of variables."""
    session = Session()
    session.define("x = {1, 2}; y = select v + 1 from v in x;")
    first = session.explain("select k from k in y where k > 0")
    for _ in range(3):
        session.define("select k from k in y, v in x;")
        assert session.explain("select k from k in y where k > 0") == first


def test_arguments_and_deep_texts() -> None:
    """Arguments are those of the command; a text that is nested too deeply is an error like any other."""
    assert answer(Session(args=("a", "b")), "args") == ["a", "b"]
    session = Session()
    assert "nested too deeply" in error(session, "[" * 300 + "1" + "]" * 300 + ";")
    assert answer(session, "1") == 1


@pytest.mark.spark
def test_a_session_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Definitions, stored values and the places of errors in earlier inputs are as on the reference engine."""

    def new_job(program: Program) -> BatchJob:
        return InterruptibleBatchJob(program, lambda: spark)

    (tmp_path / "a.csv").write_text("1,2\n1,0\n2,5\n")
    session = Session(tmp_path, new_job=new_job)
    session.define('S = source(csv, "a.csv", ",", type((long, long)));')
    session.define("store sums := select (k, sum(v)) from (k, v) in S group by k;")
    assert answers(session, "sums; count(S);") == [Bag([(1, 2), (2, 5)]), 3]
    session.define("bad = select 10 / v from (k, v) in S;")
    assert error(session, "bad;") == (
        "<shell>:4:14: error: division by zero\n 4 | bad = select 10 / v from (k, v) in S;\n   |              ^^^^^^"
    )
    (tmp_path / "a.csv").write_text("7,7\n")
    assert answers(session, "sums; count(S);") == [Bag([(1, 2), (2, 5)]), 1]
    session.define("store sums := select (k, max(v)) from (k, v) in S group by k;")
    assert answer(session, "sums") == Bag([(7, 7)])
    session.close()
