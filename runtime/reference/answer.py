"""The answers of the reference engine: plain values."""

from __future__ import annotations

from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.runtime.engine.answer import Output, RowCount, changes_of
from mrql.runtime.files.durable import DurableFiles


@attrs.frozen
class ReferenceRows:
    """The rows of an answer as its value, or those of its changes as a bag of `(row, weight)`."""

    value: Value
    type: Type

    def collect(self) -> Value:
        """The value."""
        return self.value

    def write(self, output: Output, directory: Path, files: DurableFiles) -> None:
        """Writes all rows to one file."""
        if output.format.encode is None:
            raise InternalError("answers", f"{output.format} file is only read")
        files.make_directory(directory)
        files.write(directory / f"part-00000.{output.format.suffix}", output.format.encode(output, self.value))

    def counted(self) -> tuple[ReferenceRows, RowCount]:
        """The same rows, whose number is known already."""
        number = len(self.value) if ty.is_collection(self.type) else 1
        return self, lambda: number


@attrs.frozen
class ReferenceAnswer:
    """The answer after a batch, and the one before it if changes are asked for."""

    after: Value
    before: Value
    type: Type

    def snapshot(self) -> ReferenceRows:
        return ReferenceRows(self.after, self.type)

    def changes(self) -> ReferenceRows:
        return ReferenceRows(difference(self.after, self.before, self.type), changes_of(self.type))


def difference(after: Value, before: Value, t: Type) -> Value:
    """The change of an answer as a bag of `(row, weight)`."""
    rows = [ZSet.of(side if ty.is_collection(t) else [side]) for side in (after, before)]
    return Bag((value, weight) for value, weight in rows[0] - rows[1])
