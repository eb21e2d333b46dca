"""A picture of a plan: its circuit, from the sources to the answer.

An SVG of boxes and lines, laid out in columns from left to right: an operator is to the right of its inputs, except
for what goes back to the next step of a loop. Text is measured by counting characters, which is right for the
fixed-width font that is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

import attrs

from mrql.algebra.notation.printer import pretty
from mrql.algebra.notation.type_printer import show_type
from mrql.explain.plan_facts import Facts, StageFacts
from mrql.rewrite.plan.operators import Operator, OperatorKind

CHARACTER, LINE = 7.3, 17
"""The width of a character and the height of a line, at a font size of 12."""
PADDING, GAP, BETWEEN = 10, 24, 90
"""The space inside a box, between boxes of a column, and between columns."""
MARGIN = 20
LINE_MAX_CHARACTERS, BOX_MAX_LINES = 60, 12
"""The limits after which a line, or the lines of a box, are cut; a box that is cut has its whole text as a tooltip."""

STYLE = (
    "text { font: 12px monospace; fill: #1c2430; } .title { font-weight: bold; } .cost { fill: #8a4b08; } "
    "rect { stroke: #46536b; rx: 4; } .source { fill: #e8f0fb; } .table { fill: #f2f2f2; stroke-dasharray: 4 3; } "
    ".operator { fill: #ffffff; } .stage { fill: #fdf6e3; } .answer { fill: #e6f4ea; } "
    "path { fill: none; stroke: #46536b; }"
)


@attrs.frozen
class Box:
    """A box with a title and lines; `kind` decides its colour, a line of kind `cost` its own.

    `whole` is its full text where not all of that is shown.
    """

    name: str
    kind: str
    lines: tuple[tuple[str, str], ...]
    whole: str | None = None

    @property
    def width(self) -> float:
        return max(len(text) for _, text in self.lines) * CHARACTER + 2 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 2 * PADDING - 5


@attrs.frozen
class PlacedBox:
    """A box with its upper left corner."""

    box: Box
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.y + self.box.height / 2


def render_graph(facts: Facts) -> str:
    """The picture as an SVG document."""
    placed = _placed(_columns(facts))
    width = max(p.x + p.box.width for p in placed) + MARGIN
    height = max(p.y + p.box.height for p in placed) + MARGIN
    by_name = {p.box.name: p for p in placed}
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


def _columns(facts: Facts) -> list[list[Box]]:
    """The boxes of the operators in columns, each to the right of its inputs."""
    depths: dict[str, int] = {}
    columns: list[list[Box]] = []
    for operator in facts.circuit.operators:
        # An input that comes back in a loop has no depth yet.
        depth = depths[operator.id] = 1 + max((depths.get(given, -1) for given in operator.inputs), default=-1)
        columns += [[] for _ in range(depth + 1 - len(columns))]
        columns[depth].append(_box(operator, facts))
    return columns


def _box(operator: Operator, facts: Facts) -> Box:
    stages = {stage.stage.name: stage for stage in facts.stages}
    match operator.kind:
        case OperatorKind.SOURCE:
            title = f"stream {operator.id}"
            lines = [show_type(facts.plan.streams[operator.id])]
        case OperatorKind.TABLE:
            title = f"table {operator.id}"
            lines = [show_type(facts.plan.tables[operator.id])] if operator.id in facts.plan.tables else []
        case OperatorKind.ANSWER:
            title = f"answer a({', '.join(facts.read)})"
            lines = pretty(facts.answer, LINE_MAX_CHARACTERS, types=False).split("\n")
        case _ if operator.id in stages:
            title, lines = f"{operator.id}: {stages[operator.id].head}", list(_stage_lines(stages[operator.id]))
        case _:
            title, lines = f"{operator.id}: {operator.kind.value}", [f"Δ = {operator.rule}"]
    if operator.kept is not None and operator.id not in stages:
        lines.append(f"keeps {operator.kept}")
    said = "its changes cost" if operator.kind is OperatorKind.ANSWER else "a batch costs"
    costs = [f"{said} {operator.cost.value}"] if operator.works else []
    kind = {OperatorKind.SOURCE: "source", OperatorKind.TABLE: "table", OperatorKind.ANSWER: "answer"}.get(
        operator.kind, "operator"
    )
    kind = "stage" if operator.id in stages else kind
    parts = (("title", title), *(("", line) for line in _first(lines)), *(("cost", line) for line in costs))
    shown = tuple((style, _cut(line)) for style, line in parts)
    whole = [title, *lines, *costs]
    return Box(operator.id, kind, shown, None if [line for _, line in shown] == whole else "\n".join(whole))


def _stage_lines(facts: StageFacts) -> Iterator[str]:
    stage = facts.stage
    yield f"key {show_type(stage.key_type)}"
    for component, name in zip(stage.components, facts.components, strict=True):
        yield f"{name}: {show_type(component.type)}, merged by {component.monoid}"
    yield f"⊗ = {stage.merge}"


def _first(lines: list[str]) -> list[str]:
    left = len(lines) - BOX_MAX_LINES
    return lines if left <= 0 else [*lines[:BOX_MAX_LINES], f"… and {left} more lines"]


def _cut(text: str) -> str:
    return text if len(text) <= LINE_MAX_CHARACTERS else f"{text[: LINE_MAX_CHARACTERS - 1]}…"


# --- layout -------------------------------------------------------------------------------------


def _placed(columns: Sequence[Sequence[Box]]) -> list[PlacedBox]:
    """The boxes of each column one below the other, the columns centred beside each other."""
    heights = [sum(box.height for box in column) + GAP * (len(column) - 1) for column in columns]
    x, placed = float(MARGIN), []
    for column, height in zip(columns, heights, strict=True):
        y = MARGIN + (max(heights) - height) / 2
        for box in column:
            placed.append(PlacedBox(box, x, y))
            y += box.height + GAP
        x += max(box.width for box in column) + BETWEEN
    return placed


def _edges(facts: Facts) -> Iterator[tuple[str, str]]:
    """The edges, each from an operator to one that reads it."""
    for operator in facts.circuit.operators:
        yield from ((given, operator.id) for given in operator.inputs)


# --- drawing ------------------------------------------------------------------------------------


def _drawn(placed: PlacedBox) -> Iterator[str]:
    box = placed.box
    yield "<g>"
    if box.whole is not None:
        yield f"<title>{escape(box.whole)}</title>"
    yield (
        f'<rect class={quoteattr(box.kind)} x="{placed.x:.1f}" y="{placed.y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}"/>'
    )
    for i, (kind, text) in enumerate(box.lines):
        named = f" class={quoteattr(kind)}" if kind else ""
        y = placed.y + PADDING + LINE * i + 9
        yield f'<text{named} x="{placed.x + PADDING:.1f}" y="{y:.1f}" xml:space="preserve">{escape(text)}</text>'
    yield "</g>"


def _arrow(start: PlacedBox, end: PlacedBox) -> str:
    x1, y1 = start.x + start.box.width, start.middle
    x2, y2 = end.x, end.middle
    bend = (x1 + x2) / 2
    curve = f"M {x1:.1f} {y1:.1f} C {bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{curve}" marker-end="url(#arrow)"/>'
