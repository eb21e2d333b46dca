"""The output of `trace(e)`."""

from __future__ import annotations

import sys

from mrql.algebra.span import Span
from mrql.algebra.values.value_text import show_beginning
from mrql.algebra.values.values import Value


def print_trace(value: Value, span: Span | None) -> None:
    """Prints the place of e and its value on standard error."""
    place = "" if span is None else f"{span}: "
    print(f"{place}trace: {show_beginning(value)}", file=sys.stderr)
