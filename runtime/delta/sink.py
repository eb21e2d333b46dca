"""The answers of a stream in a table of Delta Lake: each batch is one version of it.

A snapshot replaces the content of the table, changes are added to it. The engine writes the rows to files, which the
commit of the checkpoint lists, and moves to its outbox. Then they are copied to the table and committed to its log,
with the number of the batch. If the process dies between the two commits, the next one commits the content of the
outbox to the table, unless the log says that the table has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.delta.address import SCHEME, DeltaAddress, parse_address
from mrql.runtime.delta.answer_table import AnswerTable, FoundTable
from mrql.runtime.delta.opened import must_be_installed
from mrql.runtime.engine.answer import Answer, Output
from mrql.runtime.files.batch_names import batch_name, batch_number
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.places import Opening
from mrql.runtime.sources.formats.parquet import PARQUET

WHOLE, MORE = "whole", "more"


def delta_at(text: str) -> DeltaPlace:
    """The table that an address names.

    Raises: ValueError where it names none.
    """
    return DeltaPlace(parse_address(text))


@attrs.frozen
class DeltaPlace:
    """A table that a command names."""

    address: DeltaAddress
    is_current: bool = False

    @property
    def known_by(self) -> str:
        return str(self.address.path.resolve())

    def open(self, opening: Opening) -> DeltaSink:
        """A sink for the batches after the last one that went there.

        Raises: UserError where the table is not the stream's, or cannot have the columns of the answer.
        """
        must_be_installed()
        output = Output(opening.type, opening.changes, PARQUET, opening.span)
        table = AnswerTable(self.address.path, opening.stream, output, opening.files)
        place = place_of(self.address.path)
        return DeltaSink(table, self.address.replace, opening.outbox(place), opening.suffix, opening.last_batch(place))


@attrs.define
class DeltaSink:
    """Writes the answers of a stream, or their changes, to a table.

    `outbox` is the directory where files wait. `after` is the batch that the stream continues after, if it went to this
    table until now.

    Raises: UserError where the table is not the stream's, another stream writes to it, or it has other columns.
    """

    table: AnswerTable
    replace: bool
    outbox: Path
    suffix: str
    after: int | None
    whole: bool = attrs.field(init=False)
    """Whether the next batch replaces the content of the table."""
    lacks: bool = attrs.field(init=False)
    """Whether the table does not have the current answer of the stream."""
    lock: Lock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.output.must_have_a_form()
        self.table.must_have_columns()
        self.files.make_directory(self.outbox)
        self.files.make_directory(self.table.path)
        self.lock = Lock.of_directory(self.table.path, "--output")
        try:
            self._finish()
            self.lacks = self._is_to_be_replaced(self._found())
        except BaseException:
            self.lock.close()
            raise
        self.whole = self.lacks or not self.changes

    @property
    def output(self) -> Output:
        return self.table.output

    @property
    def files(self) -> DurableFiles:
        return self.table.files

    @property
    def place(self) -> str:
        return place_of(self.table.path)

    @property
    def changes(self) -> bool:
        return self.output.changes

    @property
    def due(self) -> bool:
        return self.lacks and not self.changes

    def start_anew(self) -> None:
        """Has the next batch replace the content of the table: it is of another query."""
        self.lacks = self.whole = True

    def hidden(self) -> Iterator[Path]:
        """The hidden directories that were not published."""
        yield from self.outbox.glob(".batch-*")

    def close(self) -> None:
        """Releases the table."""
        self.lock.close()

    # --- at the start -------------------------------------------------------------------------

    def _finish(self) -> None:
        """Commits to the table the batches that a process that died has committed to the checkpoint only."""
        found = ((batch_number(path.name), path) for path in self.outbox.glob("batch-*"))
        for number, waiting in sorted((number, path) for number, path in found if number is not None):
            if self.after is not None and self._waits_for(self._found(), number, waiting):
                self.table.commit(waiting, number, whole=_is_whole(waiting))
            if self._has(self._found(), number):
                self._drop(waiting)

    def _found(self) -> FoundTable | None:
        """The table as it is now; its version becomes the one that the next batch follows on."""
        found = self.table.look()
        self.table.known = None if found is None else found.version
        return found

    def _waits_for(self, found: FoundTable | None, number: int, waiting: Path) -> bool:
        """Whether a waiting batch is the next one for the table as it was found."""
        if _is_whole(waiting):
            return found is None or found.is_empty or self.replace or self._is_before(found, number)
        return found is not None and found.batch == number - 1 and found.taken is None

    def _is_before(self, found: FoundTable, number: int) -> bool:
        return found.batch is not None and found.batch < number and found.taken is None

    def _has(self, found: FoundTable | None, number: int) -> bool:
        return found is not None and found.batch is not None and found.batch >= number

    def _drop(self, waiting: Path) -> None:
        """Removes files that need not wait any more."""
        self.files.drop(waiting, self.outbox / f".{waiting.name}-gone{self.suffix}")

    def _is_to_be_replaced(self, found: FoundTable | None) -> bool:
        """Whether the next batch replaces the content of the table.

        Raises: UserError where the table does not fit, and is not to be replaced or cannot be.
        """
        wrong = self._wrong(found)
        if wrong is None:
            return self.after is None
        hint = f"name another one; or say {SCHEME}{self.table.path}?replace=true, and it is made anew"
        if self.changes and self.after is not None:
            message = f"{wrong}, and changes do not follow on that"
            raise UserError(message, hint="start with a new --checkpoint and another table")
        if found is not None and found.partitioned_by:
            raise UserError(wrong, hint="name another one")
        if not self.replace:
            raise UserError(wrong, hint=hint)
        return True

    def _wrong(self, found: FoundTable | None) -> str | None:
        """What is wrong with a table as it was found, if anything."""
        at = f"the table {self.table.path}"
        if found is None:
            return None if self.after is None else f"{at} is gone, and the checkpoint is at batch {self.after}"
        if found.partitioned_by:
            return f"{at} is partitioned by `{found.partitioned_by[0]}`, and answers are written without partitions"
        if found.schema != self.table.schema():
            return f"{at} has other columns than the answer"
        if self.after is None and not found.is_empty:
            return f"{at} is not empty, and no batch of this stream is in it"
        if self.after is not None and found.batch is None:
            return f"{at} has no batch of this stream, and the checkpoint is at batch {self.after}"
        if self.after is not None and found.taken is not None:
            return f"version {found.taken} of {at} is not of this stream, and came behind batch {found.batch}"
        if self.after is not None and found.batch != self.after:
            return f"{at} is at batch {found.batch}, and the checkpoint is at batch {self.after}"
        return None

    # --- a batch ------------------------------------------------------------------------------

    def prepare(self, number: int, answer: Answer) -> Brought:
        """Has the engine write the rows of a batch to files, which wait to be committed.

        Raises: UserError where a row cannot be written to them, or another writer has changed the table.
        """
        self.table.must_be_as_known()
        hidden = self.outbox / f".{batch_name(number)}{self.suffix}"
        rows = answer.changes() if self.changes else answer.snapshot()
        rows.write(self.output, hidden, self.files)
        whole = self.whole
        final = self.outbox / f"{batch_name(number)}-{WHOLE if whole else MORE}"
        return Brought(self, number, Publication(hidden, final, waits=True), whole)

    def committed(self, number: int, waiting: Path, *, whole: bool) -> None:
        """Commits a batch to the table."""
        self.table.commit(waiting, number, whole=whole)
        self.lacks, self.whole, self.after = False, not self.changes, number
        for path in self.outbox.glob("batch-*"):
            self._drop(path)


@attrs.frozen
class Brought:
    """A batch whose files are written, and are copied to the table once it is committed."""

    sink: DeltaSink
    number: int
    waiting: Publication
    whole: bool

    @property
    def publications(self) -> tuple[Publication, ...]:
        """The files, which wait in the outbox until the table has them."""
        return (self.waiting,)

    def publish(self, files: DurableFiles) -> None:
        """Commits the files to the table; after that none wait."""
        self.sink.committed(self.number, self.waiting.final, whole=self.whole)


def _is_whole(waiting: Path) -> bool:
    return waiting.name.endswith(f"-{WHOLE}")


def place_of(path: Path) -> str:
    """A table, as a checkpoint notes it."""
    return f"{SCHEME}{path.absolute()}"
