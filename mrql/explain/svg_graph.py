"""A picture of a plan: the sources, the stages that they feed, and the answer.

An SVG made of boxes and lines, laid out in columns from left to right: a stage stands to the right of those that pass
something on to it. Text is measured by counting characters,
which is right for the fixed-width fonts that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

import attrs

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars, source_names
from mrql.algebra.notation.printer import pretty, show_type
from mrql.algebra.terms import Stream
from mrql.explain.plan_facts import Facts, StageFacts

CHARACTER, LINE = 7.3, 17
"""How wide a character is and how high a line, at a font size of 12."""
PADDING, GAP, BETWEEN = 10, 24, 90
"""Inside a box, between boxes of a column, between columns."""
MARGIN = 20
LONGEST = 60
"""Lines in a box are cut after so many characters."""

STYLE = (
    "text { font: 12px monospace; fill: #1c2430; } .title { font-weight: bold; } .cost { fill: #8a4b08; } "
    "rect { stroke: #46536b; rx: 4; } .source { fill: #e8f0fb; } .table { fill: #f2f2f2; stroke-dasharray: 4 3; } "
    ".stage { fill: #fdf6e3; } .answer { fill: #e6f4ea; } path { fill: none; stroke: #46536b; }"
)


@attrs.frozen
class Box:
    """A box with a title and lines; `kind` decides its colour, a line of kind `cost` its own."""

    name: str
    kind: str
    lines: tuple[tuple[str, str], ...]

    @property
    def width(self) -> float:
        return max(len(text) for _, text in self.lines) * CHARACTER + 2 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING - 5


@attrs.frozen
class Placed:
    """A box with its upper left corner."""

    box: Box
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.y + self.box.height / 2


def render_graph(facts: Facts) -> str:
    """The picture as an SVG document."""
    columns = [column for column in (_sources(facts), *_stages(facts), [_answer(facts)]) if column]
    placed = _placed(columns)
    width = max(p.x + p.box.width for p in placed) + MARGIN
    height = max(p.y + p.box.height for p in placed) + MARGIN
    by_name = {(p.box.kind, p.box.name): p for p in placed}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{escape(_title(facts))}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" style="fill: #46536b"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" style="fill: #ffffff; stroke: none"/>',
        *(_arrow(by_name[start], by_name[end]) for start, end in _edges(facts)),
        *(line for p in placed for line in _drawn(p)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _title(facts: Facts) -> str:
    return " ".join(facts.span.text.split()) if facts.span is not None else "a query"


# --- boxes --------------------------------------------------------------------------------------


def _sources(facts: Facts) -> list[Box]:
    streams = [_source(name, "source", "stream", show_type(t)) for name, t in sorted(facts.plan.streams.items())]
    tables = [_source(name, "table", "table", show_type(t)) for name, t in sorted(facts.plan.tables.items())]
    return streams + tables


def _source(name: str, kind: str, what: str, shown_type: str) -> Box:
    return Box(name, kind, (("title", _cut(f"{what} {name}")), ("", _cut(shown_type))))


def _stages(facts: Facts) -> list[list[Box]]:
    """The stages by how many others a batch goes through before them."""
    depths: dict[str, int] = {}
    columns: list[list[Box]] = []
    for stage in facts.stages:
        before = [depths[name] + 1 for passed in facts.read_by(stage.stage) for name in passed.derived.reads]
        depth = depths[stage.stage.name] = max(before, default=0)
        columns += [[] for _ in range(depth + 1 - len(columns))]
        columns[depth].append(Box(stage.stage.name, "stage", tuple(_stage_lines(stage))))
    return columns


def _stage_lines(facts: StageFacts) -> Iterator[tuple[str, str]]:
    stage = facts.stage
    yield "title", _cut(f"{stage.name}: {facts.head}")
    yield "", _cut(f"key {show_type(stage.key_type)}")
    for component, name in zip(stage.components, facts.components, strict=True):
        yield "", _cut(f"{name}: {show_type(component.type)}, merged by {component.monoid}")
    yield "", _cut(f"⊗ = {stage.merge}")
    yield "cost", _cut(f"a batch costs {facts.cost.value}")


def _answer(facts: Facts) -> Box:
    names = ", ".join(facts.read)
    shown = pretty(facts.answer, LONGEST, types=False).split("\n")
    cost = f"its changes cost {facts.cost.cost.value}"
    lines = [("title", _cut(f"answer a({names})")), *(("", _cut(line)) for line in shown), ("cost", cost)]
    return Box("answer", "answer", tuple(lines))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# --- layout -------------------------------------------------------------------------------------


def _placed(columns: Sequence[Sequence[Box]]) -> list[Placed]:
    """The boxes of each column one below the other, the columns centred beside each other."""
    heights = [sum(box.height for box in column) + GAP * (len(column) - 1) for column in columns]
    x, placed = float(MARGIN), []
    for column, height in zip(columns, heights, strict=True):
        y = MARGIN + (max(heights) - height) / 2
        for box in column:
            placed.append(Placed(box, x, y))
            y += box.height + GAP
        x += max(box.width for box in column) + BETWEEN
    return placed


def _edges(facts: Facts) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """What feeds what: sources and stages the stages, stages and static tables the answer."""
    end = ("answer", "answer")
    for stage in facts.stages:
        here = ("stage", stage.stage.name)
        for name in sorted(set(stage.stage.streams) & facts.plan.streams.keys()):
            yield ("source", name), here
        for name in sorted({name for passed in facts.read_by(stage.stage) for name in passed.derived.reads}):
            yield ("stage", name), here
        terms = [term for feed in stage.stage.feeds for term in (feed.rows.body, *(i.term for i in feed.rows.inputs))]
        for name in sorted({t.name for term in terms for t in subterms(term) if isinstance(t, Stream) and t.static}):
            yield ("table", name), here
        if stage.stage.name in free_vars(facts.answer):
            yield here, end
    for name in sorted(source_names(facts.answer)):
        yield ("table", name), end


# --- drawing ------------------------------------------------------------------------------------


def _drawn(placed: Placed) -> Iterator[str]:
    box = placed.box
    yield (
        f'<rect class={quoteattr(box.kind)} x="{placed.x:.1f}" y="{placed.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}"/>'
    )
    for i, (kind, text) in enumerate(box.lines):
        named = f" class={quoteattr(kind)}" if kind else ""
        y = placed.y + PADDING + LINE * i + 9
        yield f'<text{named} x="{placed.x + PADDING:.1f}" y="{y:.1f}" xml:space="preserve">{escape(text)}</text>'


def _arrow(start: Placed, end: Placed) -> str:
    x1, y1 = start.x + start.box.width, start.middle
    x2, y2 = end.x, end.middle
    bend = (x1 + x2) / 2
    curve = f"M {x1:.1f} {y1:.1f} C {bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{curve}" marker-end="url(#arrow)"/>'
