"""Checks the changes that the streams of a view are given, and converts them to frames."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey
from mrql.api.collected_batch import Given
from mrql.api.delta import Delta
from mrql.api.frames import Rows, StreamRows, held, in_spark
from mrql.api.source_feed import SourceFeed, goes, is_empty, starting_spec
from mrql.api.sources import FollowedSource
from mrql.runtime.sources.arrived import Batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mrql.runtime.spark.relation.frame import ColumnNames, Frame


@attrs.frozen
class ViewStreams:
    """The streams of a view: checks the changes given to them, and converts these to frames of Spark."""

    rows: StreamRows
    spark: SparkSession
    columns: ColumnNames
    tables: frozenset[str]
    """The names of the static tables, which do not change."""
    keyed: Mapping[str, RowKey]
    """The keys of the streams whose rows replace each other."""
    insert_only: bool
    """Whether there are only insertions."""

    def must_be_changing(self, name: str) -> None:
        """Raises: UserError if there is no such stream, or it is a static table."""
        self.rows.row(name)
        if name in self.tables:
            raise UserError(f"`{name}` is a static table of this view: it does not change")

    def frames(self, given: Given) -> dict[str, Frame]:
        """The changes of each stream that has some; those that a stream is given several times are added up."""
        from mrql.runtime.spark.session.session import AS_WRITTEN, settings

        frames: dict[str, list[Frame]] = {}
        with settings(self.spark, AS_WRITTEN):
            for name, delta in given:
                self.must_be_changing(name)
                if delta is None:
                    raise UserError(f"`{name}` has no rows", hint=f"leave it out, or say {name}=mrql.Delta(…)")
                frame = self._change(name, delta if isinstance(delta, Delta) else self._arriving(name, delta))
                if frame is not None:
                    frames.setdefault(name, []).append(frame)
            return {name: self._together(name, some) for name, some in frames.items()}

    def read(self, feed: SourceFeed, batch: Batch) -> dict[str, Frame]:
        """The changes in a batch of tables and logs, for each stream that has some.

        Raises: UserError if the view only takes insertions, and the batch may delete rows.
        """
        from mrql.runtime.spark.io.readers import read_batch

        for name, parts in batch.items():
            if self.insert_only and goes(parts):
                message = f"this view only takes insertions, and rows of `{name}` go"
                raise UserError(message, hint="query.view(spark) takes deletions too")
        some = {name: parts for name, parts in batch.items() if not is_empty(parts)}
        return {name: read_batch(self.spark, feed.specs[name], parts, self.columns) for name, parts in some.items()}

    def feed(
        self, sources: Mapping[str, FollowedSource], offsets: Mapping[str, Any], arrived: Set[str], root: Path | None
    ) -> SourceFeed:
        """Opens the tables and logs that are to feed streams, at the offsets that the view has for them.

        Raises: UserError if one does not exist, or is not what the view was fed with before; EngineError if one cannot
            be reached.
        """
        starts = {name: offsets.get(name) for name in sources}
        specs = {
            name: starting_spec(
                name,
                source,
                self.rows.row(name),
                starts[name],
                root,
                has_rows=name in arrived,
                is_keyed=name in self.keyed,
            )
            for name, source in sources.items()
        }
        return SourceFeed.open(specs, {name: source.most for name, source in sources.items()}, starts)

    def _together(self, name: str, frames: list[Frame]) -> Frame:
        """All changes of a stream in one batch."""
        from mrql.runtime.spark.relation.frame import all_changes

        return frames[0] if len(frames) == 1 else all_changes(frames, self.rows.row(name), self.columns)

    def _change(self, name: str, delta: Delta) -> Frame | None:
        from mrql.runtime.spark.relation.frame import changes

        delta = self._taken_apart(name, delta)
        if name in self.keyed:
            return self._upserts(name, delta)
        if delta.upsert is not None or delta.delete_keys is not None:
            hint = f'query.view(spark, keys={{"{name}": "id"}})'
            raise UserError(f"`{name}` has no key by which rows would replace others", hint=hint)
        insert = None if delta.insert is None else self.rows.frame(name, delta.insert, self.spark)
        if delta.delete is None:
            return insert
        if self.insert_only:
            raise UserError("this view only takes insertions", hint="query.view(spark) takes deletions too")
        return changes(insert, self.rows.frame(name, delta.delete, self.spark), self.columns)

    def _arriving(self, name: str, rows: Rows) -> Delta:
        """Rows as a delta: changes if they have the columns of a change feed, else upserts or insertions."""
        rows = held(rows, f"`{name}`")
        if self.rows.wrapping(name, rows) is not None:
            return Delta(changes=rows)
        return Delta(upsert=rows) if name in self.keyed else Delta(insert=rows)

    def _taken_apart(self, name: str, delta: Delta) -> Delta:
        """A delta with its `changes`, if it has some, split into inserted and deleted rows, or upserts and keys."""
        if delta.changes is None:
            return delta
        feed = self.rows.change_feed(name, held(delta.changes, f"what changes `{name}`"), self.spark)
        if feed is None:
            what = "has no column of a change feed, as `_change_type`, or `op`, `before` and `after`"
            raise UserError(
                f"what changes `{name}` {what}", hint=f"mrql.Delta({'upsert' if name in self.keyed else 'insert'}=…)"
            )
        if any(rows is not None for rows in (delta.insert, delta.delete, delta.upsert, delta.delete_keys)):
            raise UserError(
                f"the changes of `{name}` say all that comes and goes", hint="give other rows in another batch"
            )
        keyed = name in self.keyed
        if feed.envelope.needs_key and not keyed:
            what = f"changes of `{name}` that say `{feed.envelope.op}` do not have the row that they take away"
            raise UserError(what, hint=f'query.view(spark, keys={{"{name}": "id"}})')
        come, gone = feed.come(), feed.gone(keyed=keyed)
        return Delta(upsert=come, delete_keys=gone) if keyed else Delta(insert=come, delete=gone)

    def _upserts(self, name: str, delta: Delta) -> Frame | None:
        """The upserted rows (+) and the keys whose rows are deleted (−), side by side and not added up."""
        from mrql.runtime.spark.relation.frame import changes

        if delta.insert is not None or delta.delete is not None:
            raise UserError(f"rows of `{name}` replace others by key", hint="mrql.Delta(upsert=…, delete_keys=…)")
        come = None if delta.upsert is None else self.rows.frame(name, delta.upsert, self.spark)
        if delta.delete_keys is None:
            return come
        gone = self.rows.frame_of_keys(name, in_spark(delta.delete_keys, f"`{name}`", self.spark), self.keyed[name])
        return changes(come, gone, self.columns)
