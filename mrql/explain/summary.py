"""What a batch costs and what is kept of a query, on one screen: one line for each part, and one for each table.

The text of the query, the types of what it reads, and the reasons in full are in the derivation (`text.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from mrql.explain.page import STEP, Page
from mrql.explain.plan_facts import DerivedFacts, Facts, StageFacts
from mrql.explain.tables import Role, StoredColumn, StoredTable
from mrql.explain.text import fed_back, notes, python_lines
from mrql.rewrite.plan.cost import briefly
from mrql.rewrite.plan.labels import listed
from mrql.rewrite.plan.plan import Shape

BETWEEN = 2
"""The number of spaces between two columns."""

OTHERS = (Role.WEIGHT, Role.TOUCHED, Role.SUPPORT, Role.ROWS)
"""The roles of columns that a table has in addition to those that the query asks for."""


@attrs.frozen
class BatchLine:
    """A part that a batch goes through: what it is, what a batch costs there, and why that is more than the delta."""

    name: str
    what: str
    cost: str = ""
    why: str = ""


def render_summary(facts: Facts, width: int) -> str:
    """The stages, the derived streams between them, and the answer; then what is kept."""
    page = Page(width)
    page.heading("What a batch costs")
    _table(page, [*_lines(facts)])
    tables = [table for stage in facts.stages for table in stage.tables]
    if tables:
        page.heading("What is kept")
        page.table(map(_kept, tables), level=1)
    page.gap()
    if facts.plan.streams or facts.plan.tables:
        page.line(f"reads {_read(facts)}")
    for note in (*notes(facts), *map(fed_back, facts.plan.feedbacks)):
        page.line(note)
    python_lines(page, facts)
    page.gap()
    page.line("--derivation has the query, types, and reasons in full; --passes each pass", level=0)
    return page.text()


# --- what a batch costs -------------------------------------------------------------------------


def _table(page: Page, lines: list[BatchLine]) -> None:
    """A line for each part. Its description is cut where there is no room, as it is given below; its cost is not."""
    names, whats, costs, whys = (
        max(len(getattr(line, column)) for line in lines) for column in ("name", "what", "cost", "why")
    )
    room = page.width - STEP - names - costs - 3 * BETWEEN
    what = min(whats, max(room - whys, room // 3))
    for line in lines:
        start = _columns((line.name, names), (_cut(line.what, what), what), (line.cost, costs))
        page.cell(start, line.why, level=1)


def _columns(*cells: tuple[str, int]) -> str:
    return "".join(text.ljust(width + BETWEEN) for text, width in cells)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _lines(facts: Facts) -> Iterator[BatchLine]:
    """The stages, the derived streams between them, the bags of loops, and the answer, in the order of a batch."""
    for passed_on, stage, recursive in facts.in_order():
        for passed in passed_on:
            yield _changed(passed, f"changes of what {listed(sorted(passed.derived.reads))} gives")
        yield BatchLine(stage.stage.name, _stage(stage), stage.cost.value, briefly(stage.works) or "")
        if recursive is not None:
            yield _changed(recursive, f"what the loop finds, back to {stage.stage.name}")
    for loop in facts.plan.feedbacks:
        yield BatchLine(listed([part.fed.name for part in loop.parts]), "what the loop had, fed back to it")
    made_from = f"made from {listed(facts.read)}" if facts.read else "a constant"
    yield BatchLine("answer", made_from, facts.cost.reads.value, facts.cost.brief or "")


def _changed(facts: DerivedFacts, what: str) -> BatchLine:
    return BatchLine(facts.derived.name, what, facts.cost.reads.value, facts.cost.brief or "")


def _stage(facts: StageFacts) -> str:
    """The key of a stage, the monoids that merge its components, and the number of inputs that it joins."""
    merged = [f"{name} ({c.monoid})" for c, name in zip(facts.stage.components, facts.components, strict=True)]
    shown = f": {', '.join(merged)}" if merged and facts.stage.shape is Shape.KEYED else ""
    sides = sum(table.role is Role.INPUT for table in facts.tables)
    return f"{facts.head}{shown}{f'; {sides} joined' if sides else ''}"


# --- what is kept -------------------------------------------------------------------------------


def _kept(table: StoredTable) -> tuple[str, ...]:
    """A table: its name, its keys, and its columns."""
    keys = ", ".join(column.name for column in table.keys)
    values = ", ".join(_value(column) for column in table.columns if column.role not in (Role.KEY, *OTHERS))
    shown = f"rows ({values})" if table.role is Role.BAG else values or "how many rows"
    return table.name, f"by {keys}" if keys else "", shown


def _value(column: StoredColumn) -> str:
    return column.name if column.role is Role.ELEMENT else f"{column.name} ({column.merge})"


def _read(facts: Facts) -> str:
    """The streams and tables by their names."""
    kinds = (("stream", facts.plan.streams), ("table", facts.plan.tables))
    found = [f"the {kind}{'s' * (len(names) > 1)} {listed(sorted(names))}" for kind, names in kinds if names]
    return ", and ".join(found)
