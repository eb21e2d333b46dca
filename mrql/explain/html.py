"""A query in a notebook: its text, what it reads, and what a batch costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

from mrql.algebra.notation.printer import show_type
from mrql.algebra.types import Type
from mrql.explain.plan_facts import Facts
from mrql.explain.summary import what_is_kept

Cell: TypeAlias = str | tuple[str, ...]
"""A text, or texts one below the other."""


def render_html(facts: Facts, type: Type) -> str:
    """The text of a query whose answer is of a type, its streams with their types, and what is kept of it.

    The same table in a notebook, and in whatever else shows HTML: no styles, no scripts.
    """
    read = [(name, "stream", show_type(t)) for name, t in sorted(facts.plan.streams.items())]
    read += [(name, "table", show_type(t)) for name, t in sorted(facts.plan.tables.items())]
    kept = [(each.name, each.what, each.cost or "") for each in what_is_kept(facts)]
    parts = [
        "" if facts.span is None else f"<pre>{escape(facts.span.aligned)}</pre>",
        f"<p>answers <code>{escape(show_type(type))}</code></p>",
        html_table(("reads", "", "type"), read) if read else "",
        html_table(("", "what is kept", "what a batch costs"), kept),
    ]
    return "\n".join(part for part in parts if part)


def html_table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table, of which each text is shown as it is.

    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell) -> str:
    lines = (cell,) if isinstance(cell, str) else cell
    return "<br>".join(map(escape, lines))
