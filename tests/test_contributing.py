"""The examples of docs/contributing.md work as they are written there, and by the steps that are given there."""

from __future__ import annotations
import __future__

import inspect
import json
import re
import sys
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner
from lark import Lark
from pyspark.sql import DataFrame, SparkSession

import mrql
import mrql.parser.parser
from mrql import streams, syntax
from mrql.algebra import build as b
from mrql.algebra import monoids
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.functions import strings
from mrql.algebra.terms import If, Term
from mrql.algebra.values.values import Bag
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.jobs.batch import ReferenceBatchJob, SparkBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.parser.lexer import BracketFilter
from mrql.parser.tree_builder import TreeBuilder
from mrql.rewrite import pipeline
from mrql.rewrite.pipeline import PlanOptions, plan_query
from mrql.runtime.sinks import places
from mrql.runtime.sources import source
from mrql.runtime.sources.formats.formats import FORMATS
from mrql.runtime.sources.source import CONNECTORS
from mrql.runtime.spark.expressions import aggregates
from mrql.runtime.spark.io.collect import collect_value
from mrql.testing import check_adapter
from mrql.translate import calls, collection_functions, expression
from tests.support.documents import DOCS, fences

EXAMPLES = {name: text for kind, name, text in fences("contributing.md") if kind in ("python", "lark")}

TABLES = {
    "mrql/translate/expression.py",
    "rewrite/pipeline.py",
    "runtime/sinks/places.py",
    "runtime/sources/formats/formats.py",
    "runtime/sources/source.py",
    "runtime/spark/io/formats.py",
}
"""The files in which an example is a line, or a case, of a table."""

TEXT = b"one\nfish\n\ntwo\n\n\n\nred fish\n"
PARAGRAPHS = Bag(["one\nfish", "two", "red fish"])


def added(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """The file of an example, as a module of the package."""
    module = ModuleType("mrql." + name.removesuffix(".py").replace("/", "."))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(EXAMPLES[name], name, "exec"), vars(module))
    return module


def entry(name: str, table: ModuleType) -> object:
    """The entry that an example adds to an existing file: its last expression, after its definitions."""
    *before, last = re.split(r"\n\n\n|\n\n(?=\w+\()", EXAMPLES[name].rstrip())
    known = dict(vars(table))
    for part in before:
        exec(compile(part, name, "exec"), known)
    return eval(compile(last, name, "eval"), known)


def line(name: str, module: ModuleType) -> dict[str, Any]:
    """The line that an example adds to a table: a key, and a value by its name in a module."""
    found = eval("{" + EXAMPLES[name] + "}", dict(vars(module)))
    assert isinstance(found, dict)
    return found


def answer(text: str) -> object:
    program = compile_over_files(text)
    return ReferenceBatchJob(program).answer(program.queries[-1])


def answer_on_spark(text: str, spark: SparkSession) -> object:
    program = compile_over_files(text)
    runner = SparkBatchJob(program, lambda: spark)
    try:
        return runner.answer(program.queries[-1])
    finally:
        runner.close()


def test_the_table_counts_the_examples() -> None:
    """The table gives, for each addition, the number of files added, and of lines added to tables."""
    text = (DOCS / "contributing.md").read_text(encoding="utf-8")
    counted = re.findall(r"^\| \[(.+)\]\(#(.+)\) \| (\d+).* \| (\d*) ?\|$", text, re.MULTILINE)
    sections = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    assert [title.lower() for title in sections] == [what for what, *_ in counted]
    for (what, anchor, files, lines), section in zip(counted, sections.values(), strict=True):
        assert anchor == what.replace(" ", "-")
        names = re.findall(r"^```(?:python|lark) (\S+)$", section, re.MULTILINE)
        in_tables = [name for name in names if name in TABLES]
        assert (len({*names} - TABLES), len(in_tables)) == (int(files), int(lines or 0)), what
        assert all(len(EXAMPLES[name].splitlines()) <= 2 for name in in_tables)


@pytest.fixture
def scalar_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(calls.LIBRARY, "code", entry("algebra/functions/strings.py", strings))  # type: ignore[arg-type]


@pytest.fixture
def aggregation(monkeypatch: pytest.MonkeyPatch) -> None:
    made = entry("mrql/translate/collection_functions.py", collection_functions)
    monkeypatch.setitem(collection_functions.DERIVED, "spread", made)  # type: ignore[arg-type]


@pytest.fixture
def file_format(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Adds the format; returns a directory with a file of it."""
    module = added(monkeypatch, "runtime/sources/formats/paragraphs.py")
    for name, made in line("runtime/sources/formats/formats.py", module).items():
        monkeypatch.setitem(FORMATS, name, made)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "1.txt").write_bytes(TEXT)
    return tmp_path / "texts"


CODES = 'select (s, code(s)) from s in {"a", "", "€"};'
SPREADS = "select (k, spread(v)) from (k, v) in {(1, 3), (1, 9), (2, 5), (1, 4)} group by k;"


@pytest.mark.usefixtures("scalar_function")
def test_a_scalar_function() -> None:
    assert answer(CODES) == Bag([("a", 97), ("", 0), ("€", 8364)])


@pytest.mark.usefixtures("aggregation")
def test_an_aggregation() -> None:
    assert answer(SPREADS) == Bag([(1, 6), (2, 0)])


def test_a_format_of_files(file_format: Path) -> None:
    """An added format is read, and has the errors that other formats have."""
    assert answer(f'select p from p in source(paragraphs, "{file_format}");') == PARAGRAPHS
    with pytest.raises(UserError, match="a paragraphs source has no option `header`"):
        answer(f'select p from p in source(paragraphs, "{file_format}", header);')
    (file_format / "2.txt").write_bytes(b"fine\n\n\xff\n")
    with pytest.raises(UserError, match=r"2.txt:3"):
        answer(f'select p from p in source(paragraphs, "{file_format}");')


@pytest.fixture
def monoid(monkeypatch: pytest.MonkeyPatch) -> None:
    made = entry("algebra/monoids.py", monoids)
    assert isinstance(made, monoids.Op)
    monkeypatch.setitem(monoids.OPS, made.sign, made)
    sql = entry("runtime/spark/expressions/aggregates.py", aggregates)
    monkeypatch.setitem(aggregates.SQL, made.name, sql)  # type: ignore[index]


def bits() -> Term:
    """The bits of each key: its values merged by `xor`."""
    pairs = b.stream("S", ty.BagType(ty.TupleType((ty.LONG, ty.LONG))))
    return b.cmap(lambda k, vs: b.single((k, b.reduce("xor", vs))), b.group_by(pairs))


@pytest.mark.usefixtures("monoid")
def test_a_monoid() -> None:
    """Under insertions and deletions, a bit is set if an odd number of the current rows have it."""
    arriving = [{"S": ZSet.of([(1, 5), (1, 3), (2, 4)])}, {"S": ZSet.of([(1, 8)]) - ZSet.of([(1, 5), (2, 4)])}]
    first, then = streams.maintained(bits(), arriving)
    assert first == ZSet.of([(1, 6), (2, 4)])
    assert then == ZSet.of([(1, 11)]) - ZSet.of([(1, 6), (2, 4)])


@pytest.mark.spark
@pytest.mark.usefixtures("monoid")
def test_a_monoid_on_spark(spark: SparkSession) -> None:
    """An added monoid merges rows on Spark, too, even if they occur several times."""
    query = mrql.compile(bits())

    def rows(*pairs: tuple[int, int]) -> DataFrame:
        return spark.createDataFrame([*pairs], "_1 long, _2 long")

    with query.view(spark) as view:
        view.apply(S=rows((1, 5), (1, 3), (2, 4), (3, 7), (3, 7), (3, 7)))
        assert collect_value(view.answer(), query.type) == Bag([(1, 6), (2, 4), (3, 7)])
        view.apply(S=mrql.Delta(insert=rows((1, 8)), delete=rows((1, 5), (2, 4), (3, 7))))
        assert collect_value(view.answer(), query.type) == Bag([(1, 11), (3, 0)])


@pytest.mark.spark
@pytest.mark.usefixtures("scalar_function", "aggregation", "construct")
def test_on_spark(file_format: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The added function, aggregation, format and construct have the same answer on Spark, in one query."""
    from mrql.runtime.spark.io import formats

    module = added(monkeypatch, "runtime/spark/io/paragraphs.py")
    for name, made in line("runtime/spark/io/formats.py", module).items():
        monkeypatch.setitem(formats.FORMATS, name, made)
    rows = f'source(paragraphs, "{file_format}")'
    text = f"select (n, #(p), spread(select code(q) from q in p)) from p in {rows} group by n: length(p);"
    assert answer_on_spark(text, spark) == answer(text) == Bag([(8, 2, 3), (3, 1, 0)])
    (file_format / "2.txt").write_bytes(b"fine\n\n\xff\n")
    with pytest.raises(UserError, match=r"2.txt:3"):
        answer_on_spark(text, spark)


CHOICES = 'S = stream(csv, "s", ",", type((long, long))); select (k, if {} then true else false) from (k, v) in S;'


def test_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """An added pass runs where its entry is, is traced, and keeps a choice whose condition may be missing."""
    module = added(monkeypatch, "rewrite/normalize/drop_choices.py")
    monkeypatch.setattr(pipeline, "drop_choices", module.drop_choices, raising=False)
    made = entry("rewrite/pipeline.py", pipeline)
    monkeypatch.setattr(pipeline, "NORMALIZE", (*pipeline.NORMALIZE, made))

    def chosen(condition: str) -> bool:
        trace = plan_query(compile_over_files(CHOICES.format(condition)).queries[0].term, PlanOptions())
        (run,) = (run for run in trace.runs if run.name == "choices")
        assert run.has_changed == (not any(isinstance(part, If) for part in subterms(run.after)))
        return run.has_changed

    assert chosen("is_null(v)")
    assert not chosen("v > 1")


@pytest.fixture
def construct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the construct to the language."""
    text = resources.files("mrql.parser").joinpath("grammar.lark").read_text(encoding="utf-8")
    first = re.search(r"^\?term: .*\n", text, re.MULTILINE)
    assert first is not None
    larger = text[: first.end()] + EXAMPLES["mrql/parser/grammar.lark"] + text[first.end() :]
    parser = Lark(
        larger,
        parser="lalr",
        postlex=BracketFilter(),
        lexer="contextual",
        start=["program", "expr", "type"],
        keep_all_tokens=True,
    )
    monkeypatch.setattr(mrql.parser.parser, "grammar", lambda: parser)

    def defined(path: str, name: str) -> Any:
        known = dict(vars(sys.modules["mrql." + path.removesuffix(".py").removeprefix("mrql/").replace("/", ".")]))
        exec(compile(EXAMPLES[path], path, "exec", flags=__future__.annotations.compiler_flag), known)
        return known[name]

    monkeypatch.setattr(TreeBuilder, "size", defined("mrql/parser/expressions.py", "size"), raising=False)
    monkeypatch.setattr(syntax, "Size", defined("mrql/syntax/expressions.py", "Size"), raising=False)
    module = ModuleType("mrql.translate.size")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(EXAMPLES["mrql/translate/size.py"], "size.py", "exec"), vars(module))

    source = inspect.getsource(expression._translate)
    case = "        case syntax.Index("
    assert case in source
    known = {**vars(expression), "size": module.size}
    edited = source.replace(case, EXAMPLES["mrql/translate/expression.py"] + case)
    exec(compile(edited, "expression.py", "exec", flags=__future__.annotations.compiler_flag), known)
    monkeypatch.setattr(expression, "_translate", known["_translate"])


@pytest.mark.usefixtures("construct")
def test_a_construct() -> None:
    """An added construct is parsed, has a value wherever an expression may stand, and an error of its own."""
    assert answer("#(select x from x in {1, 2, 3} where x > 1) + #([4]);") == 3
    assert answer("select (k, #(v)) from (k, v) in {(1, 3), (1, 9), (2, 5)} group by k;") == Bag([(1, 2), (2, 1)])
    with pytest.raises(UserError, match=r"`#\(e\)` is the number of elements of a collection, not of int"):
        answer("#(7);")


def test_a_source_that_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """An added source fulfils the contract of adapters, and a query calls it by its name."""
    connector = entry("runtime/sources/source.py", source)
    monkeypatch.setitem(CONNECTORS, "numbers", connector)  # type: ignore[arg-type]
    module = added(monkeypatch, "runtime/sources/countdown.py")
    assert answer('s = stream(numbers, "4"); select n * n from n in s;') == Bag([1, 4, 9, 16])
    last = 0

    def grow() -> None:
        nonlocal last
        last += 3

    class Growing(module.Numbers):  # type: ignore[name-defined,misc]
        last = property(lambda _: last, lambda *_: None)

    spec = SourceSpec("s", True, ADAPTER, "0", ty.LONG, adapter="numbers")
    check_adapter(lambda: Growing(spec), grow, ty.LONG)


def test_a_sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command can name an added sink, which then has the newest answer."""
    monkeypatch.setattr(places, "ADDRESSES", [*places.ADDRESSES, entry("runtime/sinks/places.py", places)])
    added(monkeypatch, "runtime/sinks/newest.py")
    (tmp_path / "in").mkdir()
    (tmp_path / "q.mrql").write_text('s = stream(text, "in"); select <n: length(x)> from x in s;')
    command = ["stream", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    command += ["--max-files", "1", "--output", f"newest://{tmp_path / 'answer.json'}"]
    for number, text in enumerate(("a", "bc")):
        (tmp_path / "in" / str(number)).write_text(text)
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in (tmp_path / "answer.json").read_text().splitlines()]
    assert sorted(row["n"] for row in found) == [1, 2]
    other = CliRunner().invoke(main, [*command, "--output", "elsewhere://x"])
    assert "elsewhere://… is neither a directory nor postgresql://… nor delta://… nor newest://…" in other.output
