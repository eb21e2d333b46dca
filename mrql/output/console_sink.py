"""The answer of each batch on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import attrs

from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.output.tables import Printer, json_line, print_table
from mrql.runtime.engine.answer import Answer, changes_of
from mrql.runtime.files.durable import DurableFiles, Publication


class ConsoleSink:
    """Prints each answer when its batch is committed; what is printed cannot be taken back, or printed later."""

    place = None
    due = False

    def __init__(self, t: Type, line: int, *, as_json: bool, changes: bool) -> None:
        self.type: Type = changes_of(t) if changes else t
        self.line = line
        self.as_json = as_json
        self.changes = changes

    def prepare(self, number: int, answer: Answer) -> Printed:
        """Computes the answer after a batch."""
        rows = answer.changes() if self.changes else answer.snapshot()
        return Printed(self, rows.collect())

    def start_anew(self) -> None:
        """Each answer stands by itself."""

    def hidden(self) -> Iterator[Any]:
        """Nothing is written aside."""
        return iter(())

    def close(self) -> None:
        """Nothing is held."""


@attrs.frozen
class Printed:
    """An answer that is not printed yet."""

    sink: ConsoleSink
    value: Value
    publications: tuple[Publication, ...] = ()

    def publish(self, files: DurableFiles) -> None:
        """Prints it."""
        sink = self.sink
        if sink.as_json:
            print(json_line(sink.line, sink.type, self.value), flush=True)
        else:
            print_table(self.value, sink.type, Printer(file=sys.stdout))
