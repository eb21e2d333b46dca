"""A view whose batches are committed to a checkpoint: opened again, it continues after the last one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from importlib.metadata import version
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.span import Source
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.manifest import Json
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.checkpoint.store import STREAMING, Store
from mrql.runtime.checkpoint.view_commits import ViewCommits
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.spark.batch_result import BatchResult
from mrql.runtime.spark.checkpoint import SparkStates
from mrql.runtime.spark.io.paths import path_to_write
from mrql.runtime.spark.io.rows_digest import rows_digest
from mrql.runtime.spark.maintenance.held_tables import HeldTables
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.session.errors import translated
from mrql.runtime.spark.session.session import lock_of, settings, step_settings
from mrql.runtime.spark.view import SparkView
from mrql.version import __version__


@attrs.define(eq=False)
class DurableView:
    """A view, and the checkpoint that it is committed to."""

    view: SparkView
    commits: ViewCommits
    states: SparkStates

    tables: HeldTables
    """The static tables that are held for it."""
    synced: Mapping[Path, int] = attrs.field(factory=dict, init=False)
    """The files of Spark's streaming queries that are synced to disk, with the times at which they were written."""

    @staticmethod
    def open(
        root: Path,
        plan: Plan,
        spark: SparkSession,
        tables: Mapping[str, Frame],
        source: Source | None,
        files: DurableFiles | None = None,
    ) -> DurableView:
        """The view of a checkpoint, as of its last commit; a new view if there is none.

        Raises: UserError where another process has the checkpoint, or it is damaged, or not one of such a view.
        """
        store = Store.open(root, files)
        held = HeldTables()
        try:
            with lock_of(spark), store.told():
                commits = ViewCommits(store, plan, _digests(spark, tables, source, held), _versions())
                restored = commits.restored()
                view = SparkView(plan, spark, tables, source, start=restored is None)
                found = DurableView(view, commits, SparkStates(view, commits.identities), held)
                if restored is not None:
                    found._go_on(restored)
                return found
        except BaseException:
            try:
                held.free()
            finally:
                store.close()
            raise

    def _go_on(self, restored: Restored) -> None:
        try:
            self.states.load(restored)
            with translated(self.view.source):
                self.view.resume(restored.states, {})
        except BaseException:
            self.view.close()
            raise

    @property
    def offsets(self) -> dict[str, Json]:
        """The last offset of each stream that has one."""
        return self.commits.offsets

    def apply(
        self,
        deltas: Mapping[str, Frame],
        offsets: Mapping[str, Json],
        deliver: Callable[[BatchResult], None] | None = None,
    ) -> DataFrame:
        """Applies a batch, commits it with the offsets that are new, and returns the changes of the answer.

        A batch that fails before its commit leaves the view as it was, unless states are lost: then the view is closed.
        It is closed, too, if the commit fails or is interrupted: whether the batch counts is known when the view is
        opened again.
        """
        with self.view.lock:
            commits = self.view.commits
            try:
                changes = self.view.apply(deltas, deliver)
            except StatesLost as error:
                self.close()
                error.hint = f"open the view again: {self.commits.store.continues}"
                raise
            except BaseException:
                if self.view.commits > commits:
                    self.close()  # the states have the batch, and the checkpoint does not
                raise
            self._commit(deltas, offsets)
            return changes

    def _commit(self, arrived: Collection[str], offsets: Mapping[str, Json]) -> None:
        try:
            with self.commits.store.told():
                self._sync_streaming()
                self.commits.commit(self.states, {*arrived}, offsets)
        except BaseException:
            self.close()
            raise

    def _sync_streaming(self) -> None:
        """Syncs Spark's files of streaming queries to disk, before a commit says that their batches were applied.

        Otherwise Spark might make another batch of the same number after a crash.
        """
        files, places, found = self.commits.store.files, set[Path](), dict[Path, int]()
        for place, _, names in os.walk(self.commits.store.root / STREAMING):
            for path in (Path(place) / name for name in names):
                with suppress(FileNotFoundError):  # Spark removes old files meanwhile
                    found[path] = path.stat().st_mtime_ns
                    if self.synced.get(path) != found[path]:
                        files.sync(path)
                        places |= {path.parent, path.parent.parent}
        for path in places:
            files.sync(path)
        self.synced = found

    def streaming(self, name: str) -> str:
        """The directory in which Spark is to keep the progress of the streaming query for a stream."""
        return path_to_write(self.view.spark, self.commits.store.root.absolute() / STREAMING / name)

    def close(self) -> None:
        """Frees the states and the static tables that are held, and releases the checkpoint."""
        with ExitStack() as stack:
            stack.callback(self.commits.close)
            stack.callback(self.tables.free)
            self.view.close()


def _versions() -> dict[str, str]:
    return {"mrql": __version__, "spark": version("pyspark")}


def _digests(
    spark: SparkSession, tables: Mapping[str, Frame], source: Source | None, held: HeldTables
) -> dict[str, str]:
    """The digests of static tables. Those not cached yet are `held` first: later batches read the digested rows."""
    with settings(spark, step_settings(spark)), translated(source):
        held.hold(tables.values(), every=True)
        return {name: rows_digest(frame, spark) for name, frame in tables.items()}
