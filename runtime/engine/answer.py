"""What an engine gives as an answer: rows that know how to come here as values, to be written, and to be counted.

Who takes an answer, a sink or a command, need not know which engine it is from.
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
"""The last column of changes."""


def has_weight(row: Type) -> bool:
    """Whether the rows of an answer have a column that is called as the last one of its changes is."""
    return any(name.lower() == WEIGHT for name, _ in row_columns(row))


def two_weights(span: Span | None, hint: str) -> UserError:
    """The error for changes of such rows."""
    message = f"this answer has a column `{WEIGHT}`, and so have its changes: how often a row came or went"
    return UserError(message, span, hint)


def changes_of(t: Type) -> Type:
    """The type of the changes of an answer: rows with their weights."""
    return ty.BagType(ty.TupleType((item_type(t), ty.LONG)))


@attrs.frozen
class AnswerFormat(Format):
    """A format that answers are written in, if it says how."""

    encode: Callable[[Output, Value], bytes] | None = attrs.field(default=None, eq=False, repr=False, kw_only=True)
    """A part file with the rows of a value. On Spark `runtime.spark.io.formats` has what writes the same."""
    suffix: str = attrs.field(eq=False, repr=False, kw_only=True)
    """What the names of part files end with."""

    @suffix.default
    def _as_the_format(self) -> str:
        return self.name


@attrs.frozen
class Output:
    """Answers of a type, or their `changes`, in files of a format."""

    type: Type
    changes: bool
    format: AnswerFormat
    span: Span | None = None
    """The place of the query."""

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
"""Says how many rows there were, once they have been asked for; None where not all of them were."""


class Rows(Protocol):
    """The rows of an answer, or of its changes, as an engine has them. They are computed when they are asked for."""

    def collect(self) -> Value:
        """The answer as a value; changes as a bag of rows with their weights."""

    def write(self, output: Output, directory: Path, files: DurableFiles) -> None:
        """Writes part files with the rows to a directory that is not there.

        Raises: UserError where a row has no form in the format.
        """

    def counted(self) -> tuple[Rows, RowCount]:
        """The same rows, which are counted where they are computed."""


class Answer(Protocol):
    """The answer after a batch.

    A sink asks for the whole of it, for its changes or both; what nobody asks for is not computed.
    """

    def snapshot(self) -> Rows:
        """The whole answer."""

    def changes(self) -> Rows:
        """How the batch has changed it: rows with a weight, +1 for new, −1 for gone."""
