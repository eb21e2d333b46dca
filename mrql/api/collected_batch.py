"""A batch that is collected in a `with` block, and applied at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from mrql.algebra.errors import UserError
from mrql.api.delta import Delta
from mrql.api.frames import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Given = Sequence[tuple[str, Delta | Rows]]
"""Deltas or rows for streams, in order; a stream may occur several times."""

BLOCK = "with view.batch(…) as batch: batch.apply(…)"


class CollectedBatch:
    """A batch begun by `View.batch`. It is applied at the end of its block, and not at all if the block raises."""

    def __init__(self, must_be_given: Callable[[str], None], applied: Callable[[Given], DataFrame]) -> None:
        self._must_be_given = must_be_given
        self._applied = applied
        self._given: list[tuple[str, Delta | Rows]] = []
        self._begun = self._ended = False
        self._changes: DataFrame | None = None

    def apply(self, /, **deltas: Delta | Rows) -> None:
        """Adds changes to the batch, in the form that `View.apply` takes. The changes that a stream is given in several
        steps are added up.

        Only the names of the streams are checked here: other errors are raised at the end of the block.

        Raises: UserError when there is no such stream, the batch has no `with` block, or the block has ended.
        """
        if self._ended:
            raise UserError("the batch has ended with its block", hint=BLOCK)
        if not self._begun:
            raise UserError(
                "a batch of several steps is applied at the end of its block, and has none here", hint=BLOCK
            )
        for name in deltas:
            self._must_be_given(name)
        self._given += deltas.items()

    @property
    def changes(self) -> DataFrame:
        """The changes of the answer, as `View.apply` returns them, from the end of the block until the next batch.

        Raises: UserError when the batch was not applied.
        """
        if self._changes is None:
            raise UserError("the batch has no changes yet", hint="they are there when its block has ended")
        return self._changes

    def __enter__(self) -> CollectedBatch:
        if self._ended:
            raise UserError("the batch has ended with its block", hint="view.batch(…) begins another one")
        if self._begun:
            raise UserError("the batch has a block already", hint="view.batch(…) begins another one")
        self._begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if kind is None:
            self._changes = self._applied(self._given)
