"""The answer of each batch on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.output.tables import Printer, json_line, print_table
from mrql.runtime.files.durable import Files, Publication
from mrql.runtime.sinks.row_format import item_type
from mrql.runtime.sinks.sink import Answer


class ConsoleSink:
    """Prints each answer when its batch is committed; what is printed cannot be taken back, or printed later."""

    place = None
    due = False

    def __init__(self, t: Type, line: int, *, as_json: bool, changes: bool) -> None:
        item = ty.TupleType((item_type(t), ty.LONG))
        self.type: Type = ty.BagType(item) if changes else t
        self.line = line
        self.as_json = as_json
        self.changes = changes

    def prepare(self, number: int, answer: Answer) -> Printed:
        """Computes the answer after a batch."""
        return Printed(self, self._collected(answer.changes() if self.changes else answer.snapshot()))

    def start_anew(self) -> None:
        """Each answer stands by itself."""

    def hidden(self) -> Iterator[Any]:
        """Nothing is written aside."""
        return iter(())

    def close(self) -> None:
        """Nothing is held."""

    def _collected(self, rows: Any) -> Value:
        if not hasattr(rows, "collect"):
            return rows
        from mrql.runtime.spark.io.collect import collect_changes, collect_value

        if self.changes:
            assert isinstance(self.type, ty.BagType)
            assert isinstance(self.type.item, ty.TupleType)
            return collect_changes(rows, self.type.item.items[0])
        return collect_value(rows, self.type)


@attrs.frozen
class Printed:
    """An answer that is not printed yet."""

    sink: ConsoleSink
    value: Value
    publications: tuple[Publication, ...] = ()

    def publish(self, files: Files) -> None:
        """Prints it."""
        sink = self.sink
        if sink.as_json:
            print(json_line(sink.line, sink.type, self.value), flush=True)
        else:
            print_table(self.value, sink.type, Printer(file=sys.stdout))
