"""Queries and views, shown in a notebook or, without one, as text."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.api.notebook import sparkline

QUERY = "select (k, sum(p.Y)) from p in points where p.Y < 9 group by k: p.X"
POINTS = "bag(<X: long, Y: double>)"


def test_a_query_is_its_text_and_types() -> None:
    query = mrql.compile(QUERY, points=POINTS)
    assert repr(query) == f"{QUERY}\nanswers {{(long, double)}}\nover\n  points: {{<X: long, Y: double>}}"
    assert repr(mrql.compile("1 + 1")) == "1 + 1\nanswers int"


def test_a_query_in_a_notebook() -> None:
    """The HTML of a query has its text, its types and the costs of `explanation`, with `<` and `>` escaped."""
    shown = mrql.compile(QUERY, points=POINTS)._repr_html_()
    assert "p.Y &lt; 9" in shown
    assert "{&lt;X: long, Y: double&gt;}" in shown
    assert "<td>X1</td><td>groups by X: " in shown
    assert "the touched keys" in shown


def test_explain_prints_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    query = mrql.compile(QUERY, points=POINTS)
    query.explain(insert_only=True)
    assert capsys.readouterr().out == query.explanation(insert_only=True)


@pytest.mark.spark
def test_a_view_explains_itself(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """A view explains itself as its query does with the same arguments."""
    query = mrql.compile(
        "select (p.X, q.Y) from p in points, q in others where p.X = q.X", points=POINTS, others=POINTS
    )
    others = spark.createDataFrame([(1, 2.0)], "X long, Y double")
    with query.view(spark, insert_only=True) as view:
        view.explain()
        assert capsys.readouterr().out == view.explanation() == query.explanation(insert_only=True)
    with query.view(spark, others=others) as view:
        assert "table   others" in view.explanation()
        assert view.explanation() == query.explanation(tables=["others"])


def test_bars_are_as_high_as_the_times() -> None:
    shown = sparkline([10, 40, 0])
    assert [part.split('"')[0] for part in shown.split(' height="')[2:]] == ["10.0", "40.0", "1.0"]
    assert "<title>10 ms</title>" in shown


class Notebook:
    """A replacement for the display of IPython that records each drawing."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.is_gone = False

    def display(self, shown: Any, display_id: bool) -> Notebook:
        assert display_id
        self.update(shown)
        return self

    def update(self, shown: Any) -> None:
        if self.is_gone:
            raise ConnectionError("nobody listens")
        self.drawn.append(shown._repr_html_())

    def install(self, monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
        ipython, displaying = ModuleType("IPython"), ModuleType("IPython.display")
        vars(ipython)["get_ipython"] = lambda: shell
        vars(displaying)["display"] = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", displaying)


@pytest.mark.spark
def test_a_view_draws_itself_after_each_batch(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """A displayed view is redrawn after each batch, also of a followed stream; without a notebook it is printed once. A
    batch counts even if drawing fails."""
    notebook = Notebook()
    rows = spark.createDataFrame([(1, 2.0)], "X long, Y double")
    with mrql.compile(QUERY, points=POINTS).view(spark) as view:
        monkeypatch.setitem(sys.modules, "IPython", None)
        view.display()
        assert capsys.readouterr().out.startswith(f"{QUERY}\nno batch yet\n")
        notebook.install(monkeypatch, shell=None)
        view.display()
        assert capsys.readouterr().out.startswith(QUERY)
        notebook.install(monkeypatch, shell=object())
        view.display()
        view.apply(points=rows)
        assert len(notebook.drawn) == 2
        assert "no batch yet" in notebook.drawn[0]
        assert "batch 0 took" in notebook.drawn[1]
        assert "<svg" in notebook.drawn[1]
        assert "<td>X1</td><td>1</td>" in notebook.drawn[1]
        assert [batch.number for batch in view.recent] == [0]
        assert view.sizes["points"].rows == 1
        assert view.sizes["points"].bytes > 0
        (tmp_path / "1.csv").write_text("2,3.0\n")
        coming = spark.readStream.schema("X long, Y double").csv(str(tmp_path))
        view.follow(points=coming, trigger={"availableNow": True}).awaitTermination()
        assert len(notebook.drawn) == 3
        assert "<td>X1</td><td>2</td>" in notebook.drawn[2]
        notebook.is_gone = True
        with caplog.at_level("WARNING", logger="mrql"):
            assert view.apply(points=rows).collect() == [(1, 4.0, 1), (1, 2.0, -1)]
            view.apply(points=rows)
        assert [record.message for record in caplog.records] == ["the view is not drawn any more"]
        assert view.batches == 4
    assert "closed; batch 3 took" in repr(view)
    assert view.sizes == {}
