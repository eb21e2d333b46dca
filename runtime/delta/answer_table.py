"""A table of Delta Lake that answers are written to: its current state, and the commit of a batch to its log.

The commit of a batch contains a transaction of the stream (`appId` and `version` in the log), which says that the table
has the batch. The files were written by the engine before.

Source: the Delta transaction log protocol, "Transaction Identifiers".
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from mrql.algebra.errors import UserError
from mrql.algebra.types import RecordType
from mrql.runtime.delta.address import SCHEME
from mrql.runtime.delta.log import read_version, version_file
from mrql.runtime.delta.opened import must_be_named_plainly, opened, translated
from mrql.runtime.engine.answer import Output
from mrql.runtime.engine.arrow import arrow_type
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sources.files import DELTA_LOG

logger = logging.getLogger(__name__)

IN_NO_NAME = " ,;{}()\n\t="
"""The characters that Spark takes in no name of a column."""


@attrs.frozen
class FoundTable:
    """A table as it was found."""

    schema: str
    is_empty: bool
    partitioned_by: tuple[str, ...]
    batch: int | None
    """The last batch of the stream in it; None if it has none."""
    version: int
    taken: int | None
    """The first version after that batch in which another writer has changed its rows."""


@attrs.define
class AnswerTable:
    """The table in a directory, for the answers of a stream.

    `known` is the version that the next batch follows on; None if there is no table yet.
    """

    path: Path
    stream: str
    output: Output
    files: DurableFiles
    known: int | None = None

    def must_have_columns(self) -> None:
        """Raises: UserError where the answer has a column that a table cannot have."""
        names = [name for name, _ in self.output.columns]
        for name in names:
            wrong = next((c for c in name if c in IN_NO_NAME), None)
            if wrong is not None:
                message = f"a column of a Delta table has no {wrong!r} in its name, and `{name}` of the answer has"
                raise UserError(message, self.output.span, "call it otherwise")
            if [other.lower() for other in names].count(name.lower()) > 1:
                message = f"the columns of a Delta table differ in more than case, and `{name}` of the answer does not"
                raise UserError(message, self.output.span, "call it otherwise")

    # --- what is there ------------------------------------------------------------------------

    def look(self) -> FoundTable | None:
        """The table as it is; None if there is none.

        Raises: UserError where there is something else.
        """
        must_be_named_plainly(self.path)
        if not (self.path / DELTA_LOG).is_dir():
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                message = f"{self.path} is there already, and is not a Delta table"
                raise UserError(message, self.output.span, "name another directory")
            return None
        table = opened(self.path)
        with translated(self.path):
            partitioned = tuple(table.metadata().partition_columns)
            batch = table.transaction_version(self.stream)
            taken = None if batch is None else self._taken_since_batch(table.version())
            return FoundTable(
                table.schema().to_json(), not table.file_uris(), partitioned, batch, table.version(), taken
            )

    def _taken_since_batch(self, newest: int) -> int | None:
        """The first version after the last one of this stream in which another writer has changed the rows."""
        found = None
        for number in range(newest, -1, -1):
            if not version_file(self.path, number).exists():
                logger.warning(
                    "the log of %s is there from version %d on: who has written before that is not known",
                    self.path,
                    number + 1,
                )
                return found
            version = read_version(self.path, number)
            if self.stream in version.applications:
                return found
            found = number if version.changes_rows else found
        return found

    def must_be_as_known(self) -> None:
        """Raises: UserError where another writer has changed the rows since the version `known`."""
        number = 0 if self.known is None else self.known + 1
        while version_file(self.path, number).exists():
            if read_version(self.path, number).changes_rows:
                hint = f"only the stream may write to it; {SCHEME}{self.path}?replace=true makes it anew with answers"
                raise UserError(f"version {number} of the table {self.path} is not of this stream", hint=hint)
            number += 1

    def schema(self) -> str:
        """The schema of the answer, as the log has it."""
        from deltalake import Schema

        text: str = Schema.from_arrow(self._arrow_schema()).to_json()
        return text

    def _arrow_schema(self) -> Any:
        return pa.schema(arrow_type(RecordType(self.output.columns)))

    # --- a batch ------------------------------------------------------------------------------

    def commit(self, directory: Path, number: int, *, whole: bool) -> None:
        """Copies the files of a batch to the table, and commits them: as its whole content, or in addition to it.

        Files that a process that died has copied there are in no version, and are removed by the next `VACUUM`.

        Raises: UserError where another writer has changed its rows since the version `known`.
        """
        from deltalake import DeltaTable

        schema = self._arrow_schema()
        self.must_be_as_known()
        with translated(self.path, done="written"):
            if not (self.path / DELTA_LOG).is_dir():
                self.files.make_directory(self.path)
                DeltaTable.create(self.path.absolute(), schema)
            actions = [self._brought(file) for file in sorted(directory.glob("part-*")) if _rows(file)]
            self.files.sync(self.path)
            self.known = self._written(actions, schema, number, whole=whole)
            log = self.path / DELTA_LOG
            # Only once the log entry is on the disk can the waiting files be dropped.
            for written in (version_file(self.path, self.known), log, self.path, self.path.absolute().parent):
                self.files.sync(written)

    def _written(self, actions: list[Any], schema: Any, number: int, *, whole: bool) -> int:
        """Writes the version of a batch, directly after one that was checked; returns its number.

        By itself, `deltalake` would write it after any versions that were added in the meantime.
        """
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import Transaction

        properties = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(self.stream, number)])
        while True:
            table = opened(self.path)
            self.must_be_as_known()
            mode = "overwrite" if whole else "append"
            try:
                table.create_write_transaction(actions, mode, schema, commit_properties=properties)
                return table.version() + 1
            except CommitFailedError:
                if not version_file(self.path, table.version() + 1).exists():
                    raise

    def _brought(self, file: Path) -> Any:
        """Copies a file to the table, under a name that no other has had: older versions keep their files."""
        from deltalake.transaction import AddAction

        to = self.path / f"part-{uuid4()}.parquet"
        self.files.copy(file, to)
        self.files.sync(to)
        status = to.stat()
        stats = json.dumps({"numRecords": _rows(file)})
        return AddAction(to.name, status.st_size, {}, int(status.st_mtime * 1000), True, stats)


def _rows(file: Path) -> int:
    return int(pq.read_metadata(file).num_rows)
