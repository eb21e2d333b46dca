"""`docs/from-spark.md`: a query over DataFrames and its counterpart have equal answers."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # the usual name, as in the document

from mrql.algebra import types as ty
from mrql.algebra.values.values import Bag
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.runtime.spark.session import session
from tests.language.test_from_sql import compared, plain, rows
from tests.loops.test_queries import by_spark
from tests.support.documents import fences, write_files

pytestmark = pytest.mark.spark

FENCES = fences("from-spark.md")
(SPARK_TABLES,) = (body for kind, name, body in FENCES if (kind, name) == ("python", "tables"))
(TABLES,) = (body for kind, name, body in FENCES if (kind, name) == ("mrql", "tables"))
PAIRS = [
    (spark, query)
    for (kind, name, spark), (other, _, query) in itertools.pairwise(FENCES)
    if kind == "python" and other == "mrql" and not name
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the document."""
    directory = tmp_path_factory.mktemp("data")
    write_files(FENCES, directory)
    return directory


@pytest.fixture(scope="module")
def names(compiled_spark: SparkSession, home: Path) -> Iterator[dict[str, Any]]:
    """The names that the code of the document may use."""
    found: dict[str, Any] = {"spark": compiled_spark, "F": F, "Window": Window}
    with session.settings(compiled_spark, {"spark.sql.session.timeZone": "UTC"}):
        exec(placed(SPARK_TABLES, home), found)
        yield found


def placed(code: str, home: Path) -> str:
    """The code with the full paths of its files."""
    return re.sub(r'"([\w*]+\.(csv|json|parquet))"', rf'"{home}/\1"', code)


def in_spark(code: str, names: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of the DataFrame that the code ends with."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "from-spark.md", "exec", dont_inherit=True), names)
    df = eval(compile(ast.Expression(last.value), "from-spark.md", "eval", dont_inherit=True), names)
    assert isinstance(df, DataFrame)
    return [tuple(map(_plain, row)) for row in df.collect()]


def _plain(value: Any) -> Any:
    match value:
        case Row():
            return tuple(map(_plain, value))
        case list():
            return list(map(_plain, value))
        case _:
            return plain(value)


def test_there_are_pairs() -> None:
    """There are pairs: without any, the test below would pass."""
    assert len(PAIRS) >= 35
    assert len([kind for kind, name, _ in FENCES if (kind, name) == ("mrql", "")]) == len(PAIRS)


@pytest.mark.wide(keep=3)
@pytest.mark.parametrize(("code", "query"), PAIRS, ids=[query[:60] for _, query in PAIRS])
def test_pair(code: str, query: str, names: dict[str, Any], home: Path) -> None:
    """The answers of Spark and of both engines are equal, and not empty; if one is ordered, all are."""
    expected = in_spark(placed(code, home), names)
    program = compile_over_files(TABLES + query, base=home)
    found, t = ReferenceBatchJob(program).answer(program.queries[-1]), program.queries[-1].type
    ordered = isinstance(t, ty.ListType)
    assert ordered == code.lstrip().startswith("orders.orderBy")
    assert expected
    for answer in (found, by_spark(program, names["spark"])[-1]):
        assert isinstance(answer, Bag | list | tuple)
        assert compared(rows(answer, t), ordered) == compared(expected, ordered)
