"""The examples in `docs/python.md` and in the README: each result after `# →` is the value of its line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parent.parent.parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RESULT = re.compile(r"(.*?)  # (→|raises:) (.*)")


def blocks(document: str) -> list[str]:
    """The examples in a document."""
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def run(block: str, names: dict[str, Any]) -> None:
    """Runs an example, and compares each line that has a result, or an error, with what it gives."""
    waiting: list[str] = []
    for line in block.splitlines():
        found = RESULT.fullmatch(line)
        if found is None:
            waiting.append(line)
            continue
        exec("\n".join(waiting), names)
        waiting.clear()
        expression, kind, expected = found.groups()
        if kind == "raises:":
            with pytest.raises(UserError) as raised:
                eval(expression, names)
            assert expected in raised.value.message
        else:
            assert plain(eval(expression, names)) == eval(expected, names), line
    exec("\n".join(waiting), names)


def plain(value: object) -> object:
    """A value for comparison: a DataFrame as its sorted rows."""
    return sorted(map(tuple, value.collect())) if isinstance(value, DataFrame) else value


def test_the_document(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"spark": spark}
    found = blocks("docs/python.md")
    assert len(found) > 8
    for block in found:
        run(block, names)


def test_the_readme(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    df = spark.createDataFrame([(1, 2.0)], "X long, Y double")
    names: dict[str, Any] = {"spark": spark, "df": df, "new": df.union(df), "gone": df, "mrql": mrql}
    for block in blocks("README.md"):
        run(block, names)
