"""`docs/from-sql.md`: a query in SQL and its counterpart have equal answers, unless the document says otherwise."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pytest

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Record, Value, same
from mrql.algebra.values.zset import ZSet
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.files.quarantine import fail
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sources.files import read_source
from mrql.translate.program import Program
from tests.support.documents import fences, write_files
from tests.support.planning import planned

FENCES = fences("from-sql.md")
(SQL_TABLES,) = (body for kind, name, body in FENCES if (kind, name) == ("sql", "tables"))
(TABLES,) = (body for kind, name, body in FENCES if (kind, name) == ("mrql", "tables"))

Row = tuple[object, ...]


@attrs.frozen
class Pair:
    """A query in both languages, and the answers that the document gives if they differ."""

    sql: str
    mrql: str
    answers: tuple[str, str] | None = None

    @property
    def ordered(self) -> bool:
        """Whether the order of the rows is a part of the answer."""
        return re.search(r"ORDER BY[^)]*$", self.sql) is not None


def pairs() -> Iterator[Pair]:
    """The pairs of the document; each is the SQL and the MRQL next to it."""
    shown = [fence for fence in FENCES if fence[1] != "tables" and fence[0] in ("sql", "mrql", "answers")]
    for (kind, mark, sql), (_, other, mrql), after in zip(shown, shown[1:], [*shown[2:], None], strict=False):
        if kind == "sql":
            assert mark == other
            assert (mark == "differs") == (after is not None and after[0] == "answers")
            lines = after[2].splitlines() if after is not None and mark else []
            yield Pair(sql, mrql, (lines[0], lines[1]) if lines else None)


PAIRS = list(pairs())
ALONE = [(query, answer) for (_, _, query), (kind, _, answer) in itertools.pairwise(FENCES) if kind == "answer"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the document."""
    directory = tmp_path_factory.mktemp("data")
    write_files(FENCES, directory)
    return directory


@pytest.fixture(scope="module")
def database(home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables of the document in DuckDB."""
    before = Path.cwd()
    with duckdb.connect(config={"threads": 1}) as connection:
        os.chdir(home)
        try:
            connection.execute(SQL_TABLES)
        finally:
            os.chdir(before)
        yield connection


def in_sql(pair: Pair, database: duckdb.DuckDBPyConnection) -> list[Row]:
    return [tuple(map(plain, row)) for row in database.execute(pair.sql).fetchall()]


def in_mrql(text: str, home: Path) -> tuple[Value, ty.Type]:
    """The value of the last expression of a text over the tables, and its type."""
    program = compile_over_files(TABLES + text, base=home)
    return ReferenceBatchJob(program).answer(program.queries[-1]), program.queries[-1].type


def rows(value: Value, t: ty.Type) -> list[Row]:
    """An answer as rows: a value that is no collection is one row, and one that is no tuple or record is one column."""
    item = t.item if isinstance(t, ty.BagType | ty.ListType) else t
    found = list(value) if ty.is_collection(t) else [value]
    if isinstance(item, ty.TupleType | ty.RecordType):
        return [tuple(plain(row)) for row in found]
    return [(plain(row),) for row in found]


def plain(value: Any) -> Any:
    """A value in the same form for both languages: records without names of fields, bags in a fixed order."""
    match value:
        case Bag():
            return in_order([plain(item) for item in value])
        case Record():
            return tuple(plain(item) for item in value.fields.values())
        case dict():
            return tuple(map(plain, value.values()))
        case tuple():
            return tuple(map(plain, value))
        case list():
            return list(map(plain, value))
        case float():
            return round(value, 9)
        case _:
            return value


def in_order(found: Sequence[Any]) -> list[Any]:
    return sorted(found, key=repr)


def compared(found: list[Row], ordered: bool) -> list[Row]:
    return found if ordered else in_order(found)


def streaming(text: str, home: Path) -> Program:
    """The program of a text over the tables as streams."""
    return compile_over_files(TABLES.replace("source(", "stream(") + text, base=home)


def test_there_are_pairs() -> None:
    """There are pairs: without any, the tests below would pass."""
    assert len([pair for pair in PAIRS if pair.answers is None]) >= 40
    assert len([pair for pair in PAIRS if pair.answers is not None]) >= 7
    assert len(ALONE) >= 4


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.answers is None], ids=lambda pair: pair.sql[:60])
def test_pair(pair: Pair, database: duckdb.DuckDBPyConnection, home: Path) -> None:
    """The answers are equal, and not empty; they are ordered in both languages or in neither."""
    value, t = in_mrql(pair.mrql, home)
    expected = in_sql(pair, database)
    assert expected
    assert isinstance(t, ty.ListType) == pair.ordered
    assert compared(rows(value, t), pair.ordered) == compared(expected, pair.ordered)


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.answers is not None], ids=lambda pair: pair.sql[:60])
def test_differing_pair(pair: Pair, database: duckdb.DuckDBPyConnection, home: Path) -> None:
    """The answers are those in the document, and they differ."""
    assert pair.answers is not None
    value, t = in_mrql(pair.mrql, home)
    written = [_written(answer) for answer in pair.answers]
    found = [compared(in_sql(pair, database), pair.ordered), compared(rows(value, t), pair.ordered)]
    assert found == [compared(answer, pair.ordered) for answer in written]
    assert found[0] != found[1]


def _written(answer: str) -> list[Row]:
    return [tuple(row) if isinstance(row, list) else (row,) for row in json.loads(answer)]


@pytest.mark.parametrize(("query", "answer"), ALONE, ids=lambda text: text[:60])
def test_what_sql_cannot_say(query: str, answer: str, home: Path) -> None:
    """The answer is the one in the document."""
    value, _ = in_mrql(query, home)
    assert _sets(value) == _sets(json.loads(answer))


@pytest.mark.parametrize(
    "text", [*(pair.mrql for pair in PAIRS), *(query for query, _ in ALONE)], ids=lambda text: text[:60]
)
def test_kept_up_to_date(text: str, home: Path) -> None:
    """Row by row, and when rows are deleted and inserted again, the answer is that over the current rows."""
    program = streaming(text, home)
    query = program.queries[-1]
    view = ReferenceView(planned(query.term, shrinking=frozenset(program.sources)).plan)
    present = {name: ZSet() for name in stream_names(query.term)}
    rows = {name: list(read_source(program.sources[name], fail)) for name in present}
    batches = [{name: ZSet.of([row])} for name in present for row in rows[name]]
    batches += [{name: ZSet.of(rows[name][:2], -1) for name in present}]
    batches += [{name: ZSet.of(rows[name][:2]) for name in present}]
    for batch in batches:
        present |= {name: present[name] + change for name, change in batch.items()}
        view.apply(batch)
        expected = evaluate(query.term, {name: held.bag() for name, held in present.items()})
        assert same(view.answer(), expected), f"{show_value(view.answer())}, not {show_value(expected)}"


def _sets(value: Any) -> Any:
    """A value with all its collections in a fixed order: JSON has one kind of them."""
    match value:
        case Record():
            return {name: _sets(item) for name, item in value.fields.items()}
        case dict():
            return {name: _sets(item) for name, item in value.items()}
        case Bag() | list() | tuple():
            return in_order([_sets(item) for item in value])
        case _:
            return value
