"""The commits of a stream: after each batch its states, its output and what it has consumed, atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.consumed import Consumed, consumed, static_tables
from mrql.runtime.checkpoint.identity import Identities, identities
from mrql.runtime.checkpoint.live import LiveState, LiveTable
from mrql.runtime.checkpoint.manifest import Manifest, SavedSource, SavedState, SavedTable
from mrql.runtime.checkpoint.restore import Restored, known_as_today, restored
from mrql.runtime.checkpoint.store import Store
from mrql.runtime.engine.answer import Answer
from mrql.runtime.files.durable import Publication
from mrql.runtime.files.quarantine import Quarantine
from mrql.runtime.sinks.sink import Pending, Several
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.watch import Watched


class States(Protocol):
    """The states of an engine."""

    def live(self) -> dict[str, LiveState]:
        """The current states, by identity."""


@attrs.define
class Commits:
    """The commits of one stream into one checkpoint."""

    store: Store
    plan: Plan
    specs: Mapping[str, SourceSpec]
    """The sources of the plan, streams and static tables."""
    engine: str
    versions: Mapping[str, str]
    sink: Several
    copies: Copies | None = None
    """Copies of the files that were read, if files may change."""
    quarantine: Path | None = None
    """The directory that malformed rows are kept in."""
    running: Mapping[str, Adapted] = attrs.Factory(dict)
    """The adapters that are open already when a batch is repeated, by the names of their streams."""
    identities: Identities = attrs.field(init=False)
    tables: Mapping[str, SavedSource] = attrs.field(init=False)
    """The static tables, as they were before they were read."""
    pending: list[Pending] = attrs.Factory(list)
    """The output of the batch that is not committed yet."""

    def __attrs_post_init__(self) -> None:
        self.identities = identities(self.plan, self.specs)
        last = self.store.manifest
        if last is not None:
            self.store.manifest = known_as_today(last, self.plan, self.specs, self.identities)
        self.tables = static_tables(self.plan, self.specs)

    # --- going on -----------------------------------------------------------------------------

    @property
    def next_batch(self) -> int:
        return 0 if self.store.manifest is None else self.store.manifest.batch + 1

    @property
    def query_has_changed(self) -> bool:
        """Whether the query differs from that of the last commit."""
        return self.store.manifest is not None and self.store.manifest.query != self.identities.query

    @property
    def answer_is_due(self) -> bool:
        """Whether an answer is to be put out even without new rows: the query has changed, or a sink needs one."""
        return self.query_has_changed or (self.store.manifest is not None and self.sink.due)

    def directories(self) -> list[Watched]:
        """What the streams are read from, with what was consumed of it."""
        specs = [attrs.evolve(self.specs[name], checkpoint=self.store.root) for name in self.plan.streams]
        return [
            directory
            for spec in specs
            for directory in consumed(self.store.manifest, self.store.root, spec, self.copies, self.running)
        ]

    def restored(self) -> Restored | None:
        """What the checkpoint has for the query; None where the checkpoint is new.

        Raises: UserError where the checkpoint and the data do not belong together.
        """
        last = self.store.manifest
        if last is None:
            return None
        root, copies, running = self.store.root, self.copies, self.running
        return restored(last, root, self.plan, self.specs, self.identities, self.engine, copies, running)

    # --- a batch ------------------------------------------------------------------------------

    def prepare(self, number: int, answer: Answer) -> None:
        """Prepares the output of a batch, which is not seen before the commit."""
        self.pending += self.sink.prepare(number, answer)

    def keep(self, quarantine: Quarantine, name: str) -> str | None:
        """Prepares malformed rows, to be kept with the commit of the batch; returns a message that says so."""
        prepared = quarantine.prepare(name, f"-{self.store.token}", self.store.files.write)
        if prepared is None:
            return None
        hidden, final, said = prepared
        self.pending.append(Publication(hidden, final))
        return said

    def commit(self, number: int, states: States, directories: Sequence[Watched]) -> None:
        """Commits a batch whose output was prepared, and publishes that."""
        publications = tuple(publication.absolute() for one in self.pending for publication in one.publications)
        for publication in publications:
            self.store.files.sync_tree(publication.hidden)
            self.store.files.sync(publication.final.parent.parent)
        publications = tuple(publication.committed() for publication in publications)
        live = states.live()
        before = {} if self.store.manifest is None else self.store.manifest.states
        manifest = Manifest(
            commit=self.store.next_commit,
            batch=number,
            engine=self.engine,
            versions=self.versions,
            query=self.identities.query,
            sources={**Consumed(self.store).streams(directories), **self.tables},
            states=write_states(self.store, live, before, number),
            outputs=self.sink.places,
            stream=self.store.stream,
            publications=publications,
            quarantines=self._quarantines(),
        )
        self.store.commit(manifest)
        note_committed(live)
        for directory in directories:
            if isinstance(directory, Directory):
                directory.has_lost = False
        for one in self.pending:
            one.publish(self.store.files)
        self.pending.clear()

    def _quarantines(self) -> tuple[str, ...] | None:
        """The directories that malformed rows were kept in: those of earlier commits, and the one of this run."""
        last = self.store.manifest
        before = () if last is None else last.quarantines
        if before is None or self.quarantine is None:
            return before
        return tuple(dict.fromkeys((*before, str(self.quarantine.absolute()))))

    def told(self) -> AbstractContextManager[None]:
        """Adds to errors with files in a block which batch is committed."""
        return self.store.told()

    def close(self) -> None:
        """Releases the checkpoint."""
        self.store.close()


def write_states(
    store: Store, live: Mapping[str, LiveState], before: Mapping[str, SavedState], batch: int
) -> dict[str, SavedState]:
    """Writes the changes of some states since they were saved as `before`; returns them as they are saved then."""

    def saved(identity: str, state: LiveState) -> SavedState:
        known = before[identity].tables if identity in before else {}
        tables = {
            name: _written(store, f"{identity}-{name}", table, known.get(name), batch)
            for name, table in state.tables.items()
        }
        return SavedState(state.name, state.form, tables)

    return {identity: saved(identity, state) for identity, state in live.items()}


def _written(store: Store, name: str, table: LiveTable, before: SavedTable | None, batch: int) -> SavedTable:
    """A table with a new run for its changes, or with one run for all of it, as the policy says."""
    runs = () if before is None else before.runs
    if runs and not table.changed:
        return SavedTable(table.form, runs)
    whole = not table.has_change or policy.writes_whole([run.rows for run in runs], table.rows)

    def write(directory: Path) -> dict[str, int]:
        return table.write(directory, store.files, whole=whole)

    run = store.write_run(name, batch, write)
    return SavedTable(table.form, (run,) if whole else (*runs, run))


def note_committed(live: Mapping[str, LiveState]) -> None:
    """Tells the tables of states that their current contents are committed."""
    for state in live.values():
        for table in state.tables.values():
            table.committed(small=policy.is_small(table.rows))
