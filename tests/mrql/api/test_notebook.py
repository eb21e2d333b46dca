"""Queries and views in a notebook, and as text where there is none."""

from __future__ import annotations

import sys
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
    """Its text, its types, and the costs that `explanation` has; nothing of it is taken for HTML."""
    shown = mrql.compile(QUERY, points=POINTS)._repr_html_()
    assert "p.Y &lt; 9" in shown
    assert "{&lt;X: long, Y: double&gt;}" in shown
    assert "<td>X1</td><td>groups by X: " in shown
    assert "the touched keys" in shown


def test_explain_prints_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    query = mrql.compile(QUERY, points=POINTS)
    query.explain(insert_only=True)
    assert capsys.readouterr().out == query.explanation(insert_only=True)


def test_bars_are_as_high_as_the_times() -> None:
    shown = sparkline([10, 40, 0])
    assert [part.split('"')[0] for part in shown.split(' height="')[2:]] == ["10.0", "40.0", "1.0"]
    assert "<title>10 ms</title>" in shown


class Notebook:
    """What IPython has of it: what is displayed, and where it is drawn anew."""

    def __init__(self) -> None:
        self.drawn: list[str] = []

    def display(self, shown: Any, display_id: bool) -> Notebook:
        assert display_id
        self.update(shown)
        return self

    def update(self, shown: Any) -> None:
        self.drawn.append(shown._repr_html_())

    def install(self, monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
        ipython, displaying = ModuleType("IPython"), ModuleType("IPython.display")
        vars(ipython)["get_ipython"] = lambda: shell
        vars(displaying)["display"] = self.display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", displaying)


@pytest.mark.spark
def test_a_view_draws_itself_after_each_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a notebook where it was shown; where there is none it is printed, once."""
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
    assert "closed; batch 0 took" in repr(view)
    assert view.sizes == {}
