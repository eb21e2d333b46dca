"""What is new in the tables and logs that a view follows, as one batch of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.api.sources import CALLED, FollowedSource
from mrql.runtime.checkpoint.manifest import Json
from mrql.runtime.checkpoint.offsets import as_json
from mrql.runtime.postgresql.change_log import PostgresLog
from mrql.runtime.sources.arrived import Arrived, Batch, Part, count_of
from mrql.runtime.sources.source import Offset
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.versions import Versions
from mrql.runtime.sources.watched.watch import next_batch, watched_of
from mrql.runtime.sources.wrong_rows import naming_files

Followed: TypeAlias = Versions | Adapted


@attrs.frozen
class SourceFeed:
    """Tables and logs that are followed together: a batch has what is new in any of them, and a transaction of a
    database is in the same batch for all of its tables."""

    watched: Mapping[str, Followed]
    """The table or log of each stream, with the offset up to which it was read."""
    most: Mapping[str, int | None]
    """The approximate number of files or changes of each stream in a batch; None without a limit."""
    noted: dict[str, Json]
    """The offset that the view has for each stream; None if it has none."""

    @staticmethod
    def open(specs: Mapping[str, SourceSpec], most: Mapping[str, int | None], starts: Mapping[str, Json]) -> SourceFeed:
        """Opens the sources of some streams at the given offsets.

        Raises: UserError if a source is not the one that was read before, lacks columns, or has lost the changes that
            come next; EngineError if it cannot be reached.
        """
        with ExitStack() as opened:
            watched: dict[str, Followed] = {}
            for name, spec in specs.items():
                watched[name] = one = _watched(spec, starts[name])
                if isinstance(one, Adapted):
                    opened.callback(one.adapter.close)
                _must_be_ready(one)
            opened.pop_all()
        return SourceFeed(watched, most, dict(starts))

    @property
    def specs(self) -> dict[str, SourceSpec]:
        """The specifications of the sources, by stream."""
        return {name: one.spec for name, one in self.watched.items()}

    def mark_end(self) -> None:
        """Makes the feed end at the current end of each source, if that is known.

        Raises: UserError, EngineError as `next`.
        """
        for one in self.watched.values():
            one.mark_end()

    @property
    def is_at_end(self) -> bool:
        """Whether all these ends are known to be reached. Raises as `next` does."""
        return all(one.is_at_end for one in self.watched.values())

    def next(self, *, whole: bool = False) -> dict[str, list[Part]]:
        """What is new, for each stream that has something new: everything if `whole`, else about as much as `most`.

        Raises: UserError if a source is not what it was; EngineError if it cannot be reached.
        """
        batch: dict[str, list[Part]] = {}
        for name, one in self.watched.items():
            if isinstance(one, Versions):
                batch |= next_batch([one], None if whole else self.most[name])
        logs = [one for one in self.watched.values() if isinstance(one, Adapted)]
        if logs:
            most = [rows for one in logs if (rows := self.most[one.spec.name]) is not None]
            batch |= next_batch(logs, None, None if whole else min(most, default=None))
        return batch

    def offsets(self, batch: Batch) -> dict[str, Json]:
        """The offsets after a batch that differ from those of the view; an offset may also advance without rows."""
        behind = {name: as_json(one.after(batch.get(name, ()))) for name, one in self.watched.items()}
        return {name: offset for name, offset in behind.items() if offset != self.noted[name]}

    def commit(self, batch: Batch, offsets: Mapping[str, Json]) -> None:
        """Notes that the view has applied a batch, with its new offsets."""
        self.noted.update(offsets)
        for name, one in self.watched.items():
            one.commit(batch.get(name, ()))

    def must_be_where_it_was(self, offsets: Mapping[str, Json]) -> None:
        """Raises: UserError if the view was given rows of a stream in the meantime, with another offset."""
        for name, noted in self.noted.items():
            if offsets.get(name) != noted:
                message = f"`{name}` is followed up to {json.dumps(noted)}, and was given up to"
                hint = "give a stream nothing else while it is followed"
                raise UserError(f"{message} {json.dumps(offsets.get(name))} meanwhile", hint=hint)

    @contextmanager
    def naming_files(self, batch: Batch) -> Iterator[None]:
        """Adds to an error about a row of a batch the files that contain the row."""
        with naming_files(self.specs, lambda spec: batch.get(spec.name, ())):
            yield

    def counted(self, batch: Batch) -> dict[str, int]:
        """The number of rows in a batch, by stream."""
        return {
            name: sum(count_of(part, one.spec) for part in batch.get(name, ())) for name, one in self.watched.items()
        }

    def close(self) -> None:
        """Closes the adapters."""
        with ExitStack() as closing:
            for one in self.watched.values():
                if isinstance(one, Adapted):
                    closing.callback(one.adapter.close)


def _watched(spec: SourceSpec, start: Offset) -> Followed:
    (one,) = watched_of(spec)
    assert not isinstance(one, Directory)
    one.offset = start
    return one


def _must_be_ready(one: Followed) -> None:
    """Raises: UserError, EngineError if it cannot be read from its offset on."""
    if isinstance(one, Versions):
        one.table.latest(one.offset, 1)
        return
    assert isinstance(one.adapter, PostgresLog)
    one.adapter.must_be_ready(one.offset)


def starting_spec(
    name: str,
    source: FollowedSource,
    row: Type,
    offset: Json,
    checkpoint: Path | None,
    *,
    has_rows: bool,
    is_keyed: bool,
) -> SourceSpec:
    """The specification of a source that is to feed a stream from the view's offset on.

    Raises: UserError if the rows of the stream are not records, or have a key, or the stream was fed in another way.
    """
    if not isinstance(row, ty.RecordType):
        hint = f'{name}="bag(<id: long>)", or {name}={CALLED[source.connector]}(…), when the query is compiled'
        raise UserError(f"the rows of a table are records, and those of `{name}` are {row}", hint=hint)
    if is_keyed:
        message = f"rows of `{name}` replace others by key, and a table says itself which rows go"
        raise UserError(message, hint=f"leave the key of `{name}` out")
    if offset is None and has_rows:
        message = f"rows of `{name}` were given without an offset, and a table is followed from its beginning"
        raise UserError(message, hint=ANOTHER)
    if offset is not None and not source.is_offset(offset):
        message = f"`{name}` was fed in another way: its last offset is {json.dumps(offset)}, which is none of"
        raise UserError(f"{message} {KINDS[source.connector]}", hint=f"go on in that way, or {ANOTHER}")
    return source.spec(name, row, checkpoint)


ANOTHER = "start with a view of a new checkpoint"
KINDS = {
    "delta": "a table of Delta Lake",
    "iceberg": "a table of Iceberg",
    "postgresql_cdc": "a log of PostgreSQL",
}


def is_empty(parts: Sequence[Part]) -> bool:
    """Whether the parts of a stream have no rows: a portion of a log may only advance the offset."""
    return not any(isinstance(part, Arrived) or part.count for part in parts)


def goes(parts: Sequence[Part]) -> bool:
    """Whether the parts of a stream may delete rows."""
    files = [file for part in parts if not isinstance(part, Arrived) for file in part.files]
    arrived = [part for part in parts if isinstance(part, Arrived)]
    return any(file.weight < 0 for file in files) or any(p.weight < 0 or p.format is not None for p in arrived)
