"""The notebooks in `docs/notebooks`: their cells put out what is written below them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.notebooks import NOTEBOOKS, executed, read

pytestmark = pytest.mark.spark


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebook(file: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = read(file)
    for ran, written in zip(executed(notebook)["cells"], notebook["cells"], strict=True):
        assert ran == written
