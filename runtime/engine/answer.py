"""The answer of an engine: rows that can be collected as values, written to files, and counted.

A sink or a command that takes an answer need not know which engine it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, item_type
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.files.durable import DurableFiles

WEIGHT = "weight"
"""The name of the last column of changes."""


def has_weight(row: Type) -> bool:
    """Whether the rows of an answer have a column of the name of the weight column, in upper or lower case."""
    return any(name.lower() == WEIGHT for name, _ in row_columns(row))


def two_weights(span: Span | None, hint: str) -> UserError:
    """The error for changes of rows that have such a column."""
    message = f"this answer has a column `{WEIGHT}`, and so have its changes: how often a row came or went"
    return UserError(message, span, hint)


def changes_of(t: Type) -> Type:
    """The type of the changes of an answer: rows with their weights."""
    return ty.BagType(ty.TupleType((item_type(t), ty.LONG)))


@attrs.frozen
class AnswerFormat(Format):
    """A format that answers can be written in, if it has an `encode`."""

    encode: Callable[[Output, Value], bytes] | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)
    """Encodes the rows of a value as a part file. On Spark, `runtime.spark.io.formats` writes the same."""
    suffix: str = attrs.field(eq=False, repr=False, kw_only=True)
    """The file name extension of part files."""

    @suffix.default
    def _as_the_format(self) -> str:
        return self.name


@attrs.frozen
class Output:
    """How answers of a type, or their `changes`, are written: to files of a format."""

    type: Type
    changes: bool
    format: AnswerFormat
    span: Span | None = None
    """The position of the query in its text."""

    @property
    def item(self) -> Type:
        """The type of a row, without its weight."""
        return item_type(self.type)

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of a file."""
        columns = row_columns(self.item)
        return (*columns, (WEIGHT, ty.LONG)) if self.changes else columns

    def must_have_a_form(self) -> None:
        """Raises: UserError where the files cannot hold such an answer."""
        if not self.format.can_hold(self.item):
            message = f"a row of {self.format} file holds atomic values, and one of this answer is of type {self.item}"
            raise UserError(message, self.span, "--output-format json takes values of all types")
        if self.changes and has_weight(self.item):
            raise two_weights(self.span, "call it otherwise, or put out snapshots")

    def rows(self, answer: Any) -> Iterator[tuple[Value, tuple[int, ...]]]:
        """The rows of a value, or of its changes, each with its weight, if it has one."""
        if self.changes:
            yield from ((value, (weight,)) for value, weight in answer)
        else:
            yield from ((row, ()) for row in (answer if ty.is_collection(self.type) else [answer]))


RowCount: TypeAlias = Callable[[], int | None]
"""Returns the number of rows, once they have been computed; None where not all of them were."""


class Rows(Protocol):
    """The rows of an answer, or of its changes, in an engine. They are computed on demand."""

    def collect(self) -> Value:
        """The answer as a value; changes as a bag of rows with their weights."""

    def write(self, output: Output, directory: Path, files: DurableFiles) -> None:
        """Writes part files with the rows to a new directory.

        Raises: UserError where a row has no form in the format.
        """

    def counted(self) -> tuple[Rows, RowCount]:
        """The same rows, counted as they are computed, and the function that returns their number."""


class Answer(Protocol):
    """The answer after a batch.

    A sink asks for all of it, for its changes, or for both; what is not asked for is not computed.
    """

    def snapshot(self) -> Rows:
        """The whole answer."""

    def changes(self) -> Rows:
        """Its changes by the batch: rows with weights, positive for insertions, negative for deletions."""
