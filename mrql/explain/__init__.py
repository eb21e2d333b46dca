"""The explanation of a query: every step from its text to its stages, and what a batch costs.

The same facts (`plan_facts.py`) in four forms: text for people, HTML for notebooks, plain data for programs, a picture.
Nothing here starts Spark.
"""

from __future__ import annotations

from typing import Any

from mrql.algebra.types import Type
from mrql.explain.html import html_table, render_html
from mrql.explain.json_document import render_document
from mrql.explain.passes import passes_document, render_passes
from mrql.explain.plan_facts import facts_of
from mrql.explain.strict import require_incremental
from mrql.explain.summary import render_summary
from mrql.explain.svg_graph import render_graph
from mrql.explain.text import render_text
from mrql.rewrite.passes import Trace

__all__ = [
    "explain_graph",
    "explain_html",
    "explain_json",
    "explain_passes",
    "explain_summary",
    "explain_trace",
    "html_table",
    "passes_document",
    "require_incremental",
]


def explain_summary(trace: Trace, width: int = 100) -> str:
    """What is kept of a query and what a batch costs, on one screen."""
    return render_summary(facts_of(trace), width)


def explain_trace(trace: Trace, width: int = 100) -> str:
    """The explanation as text, at most `width` columns wide where the names in it allow that."""
    return render_text(facts_of(trace), width)


def explain_passes(trace: Trace, width: int = 100) -> str:
    """Each pass that ran as text: in which phase, where it came from, when it holds, and what it changed."""
    return render_passes(trace, width)


def explain_json(trace: Trace) -> dict[str, Any]:
    """The explanation as data that can be written as JSON; terms are text that reads back."""
    return render_document(facts_of(trace))


def explain_html(trace: Trace, type: Type) -> str:
    """The query, whose answer is of a type, and what a batch costs, as HTML."""
    return render_html(facts_of(trace), type)


def explain_graph(trace: Trace) -> str:
    """The sources, stages and answer as an SVG document."""
    return render_graph(facts_of(trace))
