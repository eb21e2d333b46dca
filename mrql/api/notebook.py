"""The display of queries and views: in a notebook as HTML, elsewhere as text."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import attrs

from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.types import Type
from mrql.explain import html_table
from mrql.output.readable import readable
from mrql.runtime.engine.sizes import StateSize

logger = logging.getLogger(__name__)

SHOWN_MAX_BATCHES = 60
"""The number of last batches whose durations a view remembers."""


@attrs.frozen
class AppliedBatch:
    """A batch that a view has applied: its number, as counted by the view, and its duration."""

    number: int
    milliseconds: float


def query_repr(text: str, answer: Type, streams: Mapping[str, Type]) -> str:
    """The text of a query, the type of its answer and those of its streams."""
    read = [f"  {name}: {show_type(t)}" for name, t in streams.items()]
    return "\n".join([text, f"answers {show_type(answer)}", *(["over", *read] if read else [])])


def view_repr(text: str, closed: bool, batches: Sequence[AppliedBatch], sizes: Mapping[str, StateSize]) -> str:
    """A view as text: its query, its last batch, and the sizes of its states."""
    kept = [f"  {name}: {_size(size)}" for name, size in sizes.items()]
    return "\n".join([text, _state(closed, batches), *(["keeps", *kept] if kept else [])])


def view_html(text: str, closed: bool, batches: Sequence[AppliedBatch], sizes: Mapping[str, StateSize]) -> str:
    """The same as HTML, with a bar for the duration of each batch."""
    parts = [f"<pre>{escape(text)}</pre>", f"<p>{escape(_state(closed, batches))}</p>"]
    if batches:
        parts.append(sparkline(batch.milliseconds for batch in batches))
    if sizes:
        parts.append(html_table(("keeps", "rows", "size"), [_cells(name, size) for name, size in sizes.items()]))
    return "\n".join(parts)


def _state(closed: bool, batches: Sequence[AppliedBatch]) -> str:
    last = f"batch {batches[-1].number} took {batches[-1].milliseconds:,.0f} ms" if batches else "no batch yet"
    return f"closed; {last}" if closed else last


def _size(size: StateSize) -> str:
    return f"{size.rows:,} rows, {readable(size.bytes)}"


def _cells(name: str, size: StateSize) -> tuple[str, str, str]:
    return name, f"{size.rows:,}", readable(size.bytes)


BAR, HEIGHT = 6, 40
"""The width of a bar, and the height of the highest one, in pixels."""


def sparkline(milliseconds: Iterable[float]) -> str:
    """Bars for the durations of batches, labelled with the longest one; the title of each bar is its duration.

    >>> "3 ms" in sparkline([1, 3])
    True
    """
    times = list(milliseconds)
    most = max(times)
    bars = []
    for place, time in enumerate(times):
        height = max(1.0, HEIGHT * time / most if most else 0.0)
        box = f'x="{place * BAR}" y="{HEIGHT - height:.1f}" width="{BAR - 1}" height="{height:.1f}"'
        bars.append(f'<rect {box} fill="#46536b"><title>{time:,.0f} ms</title></rect>')
    right = len(times) * BAR + 4
    label = f'<text x="{right}" y="10" font-family="monospace" font-size="10">{most:,.0f} ms</text>'
    size = f'width="{right + 90}" height="{HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(bars)}{label}</svg>'


class Drawing:
    """A display in a notebook that is updated when the displayed object has changed."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def draw(self, shown: object) -> bool:
        """Updates the display, and returns whether that succeeded. The displayed batch is applied already, so a failing
        front end is not an error."""
        try:
            self._handle.update(shown)
        except Exception:
            logger.warning("the view is not drawn any more", exc_info=True)
            return False
        return True


def drawing_of(shown: object) -> Drawing | None:
    """Displays an object in the notebook that this runs in; outside of notebooks, prints it and returns None."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(repr(shown))
        return None
    if get_ipython() is None:
        print(repr(shown))
        return None
    return Drawing(display(shown, display_id=True))


def print_text(text: str) -> None:
    """Prints a text that ends with a line end."""
    print(text, end="")
