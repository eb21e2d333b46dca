"""A query in a notebook: its text, what it reads, and what a batch costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TypeAlias

import attrs

from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.types import Type
from mrql.explain.plan_facts import DerivedFacts, Facts, StageFacts
from mrql.explain.tables import Role, StoredTable
from mrql.explain.text import column_text
from mrql.rewrite.plan.labels import listed

Cell: TypeAlias = str | tuple[str, ...]
"""A text, or texts one below the other."""


def render_html(facts: Facts, type: Type) -> str:
    """The text of a query, the type of its answer, its streams with their types, and what is kept of it.

    Without styles and scripts, so that it looks alike in a notebook and wherever else HTML is shown.
    """
    read = [(name, "stream", show_type(t)) for name, t in sorted(facts.plan.streams.items())]
    read += [(name, "table", show_type(t)) for name, t in sorted(facts.plan.tables.items())]
    kept = [(each.name, each.what, each.cost or "") for each in _what_is_kept(facts)]
    parts = [
        "" if facts.span is None else f"<pre>{escape(facts.span.aligned)}</pre>",
        f"<p>answers <code>{escape(show_type(type))}</code></p>",
        html_table(("reads", "", "type"), read) if read else "",
        html_table(("", "what is kept", "what a batch costs"), kept),
    ]
    return "\n".join(part for part in parts if part)


def html_table(heads: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table, in which each text is shown as it is.

    >>> html_table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(cell: Cell) -> str:
    lines = (cell,) if isinstance(cell, str) else cell
    return "<br>".join(map(escape, lines))


# --- what is kept ----------------------------------------------------------------------------------


@attrs.frozen
class Kept:
    """A part of the plan: its name, what it keeps or passes on, and what a batch costs there; None for the bags of a
    loop."""

    name: str
    what: tuple[str, ...]
    cost: str | None = None


def _what_is_kept(facts: Facts) -> Iterator[Kept]:
    """The stages, the derived streams between them, the bags of loops, and the answer, in the order of a batch."""
    for passed_on, stage, recursive in facts.in_order():
        for passed in passed_on:
            yield _derived(passed, f"made of {listed(sorted(passed.derived.reads))}, for what comes after")
        yield _stage(stage)
        if recursive is not None:
            yield _derived(recursive, f"what the loop finds, which goes back to {stage.stage.name}")
    for loop in facts.plan.feedbacks:
        names = [part.fed.name for part in loop.parts]
        text = (
            f"what the loop had; what differs by more than {loop.threshold} is fed back, in at most {loop.steps} steps"
        )
        yield Kept(listed(names), (text,))
    made_from = f"made from {listed(facts.read)}" if facts.read else "a constant"
    yield Kept("answer", (made_from,), _cost(facts.cost.reads.value, facts.cost.reason))


def _stage(facts: StageFacts) -> Kept:
    joined = [table for table in facts.tables if table.role is Role.INPUT]
    lines = [f"{facts.head}: {', '.join(_values(facts)) or 'the keys'}"]
    if joined:
        lines.append(f"joins {listed([_side(table) for table in joined])}")
    return Kept(facts.stage.name, tuple(lines), _cost(facts.cost.value, facts.reason))


def _values(facts: StageFacts) -> Iterator[str]:
    """What is stored beside the keys: numbers, and bags of rows."""
    for table in facts.tables:
        if table.role is Role.GROUPS:
            yield from (column_text(column) for column in table.columns if column.role is Role.COMPONENT)
        elif table.role is Role.BAG:
            elements = ", ".join(column.name for column in table.columns if column.role is Role.ELEMENT)
            yield f"rows ({elements})"


def _side(table: StoredTable) -> str:
    keys = ", ".join(column.name for column in table.keys)
    return f"{table.of} by {keys}" if keys else f"all of {table.of}"


def _derived(facts: DerivedFacts, what: str) -> Kept:
    return Kept(facts.derived.name, (what,), _cost(facts.cost.reads.value, facts.cost.reason))


def _cost(cost: str, reason: str | None) -> str:
    return f"{cost}{f': {reason}' if reason else ''}"
