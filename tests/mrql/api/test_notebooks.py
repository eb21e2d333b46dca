"""The notebooks in `docs/notebooks`: their cells, run again, have the outputs that are stored in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.notebooks import NOTEBOOKS, WITH_A_SERVER, executed, read
from tests.support.postgresql import Server


def test_there_are_some() -> None:
    assert len(NOTEBOOKS) == 4


@pytest.mark.spark
@pytest.mark.parametrize("file", [file for file in NOTEBOOKS if file != WITH_A_SERVER], ids=lambda file: file.stem)
def test_notebook(file: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_as_written(file)


def test_notebook_with_a_server(postgresql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in postgresql.environment.items():
        monkeypatch.setenv(name, value)
    assert_as_written(WITH_A_SERVER)


def assert_as_written(file: Path) -> None:
    notebook = read(file)
    for ran, written in zip(executed(notebook)["cells"], notebook["cells"], strict=True):
        assert ran == written
