"""What is kept of a query and what a batch costs, on one screen."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from mrql.explain.page import Page
from mrql.explain.plan_facts import DerivedFacts, Facts, StageFacts
from mrql.explain.tables import Role, StoredTable
from mrql.explain.text import column_text, python_lines, query_lines
from mrql.rewrite.plan.labels import listed


@attrs.frozen
class Kept:
    """What is kept under a name, or passed on, and what a batch costs of it; nothing is said of that where a loop has
    it."""

    name: str
    what: tuple[str, ...]
    cost: str | None = None


def render_summary(facts: Facts, width: int) -> str:
    """The query, a paragraph for each stage and for what is passed on between them, and the answer."""
    page = Page(width)
    query_lines(page, facts)
    page.heading("What is kept, and what a batch costs")
    for kept in what_is_kept(facts):
        cost = [] if kept.cost is None else [f"a batch costs {kept.cost}"]
        for i, line in enumerate((*kept.what, *cost)):
            page.cell(f"{kept.name if i == 0 else '':<8} ", line, level=1)
    page.gap()
    python_lines(page, facts)
    page.gap()
    page.line("--derivation shows how the query came to this, --passes each pass with its condition", level=0)
    return page.text()


def what_is_kept(facts: Facts) -> Iterator[Kept]:
    """Each stage, what is passed on between them, and the answer, in the order of a batch."""
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
