"""The commits of a view that a program feeds: after each batch its states, and the offsets that came with it.

The rows of earlier batches cannot be read again. So a state that a changed query has and the checkpoint has not can be
built only if no rows of its streams have arrived yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.catalog import ADAPTER, SourceSpec, item_type
from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey
from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.rewrite.plan.labels import component_names, listed
from mrql.rewrite.plan.plan import Plan, Shape, Stage
from mrql.runtime.checkpoint.commits import States, note_committed, write_states
from mrql.runtime.checkpoint.identity import Identities, identities
from mrql.runtime.checkpoint.manifest import HANDED_OVER, Json, Manifest, SavedDirectory, SavedSource
from mrql.runtime.checkpoint.restore import Restored, runs_must_be_there
from mrql.runtime.checkpoint.store import Store

ANOTHER = "start with a new checkpoint, and give all rows again"


@attrs.define
class ViewCommits:
    """The commits of one view into one checkpoint."""

    store: Store
    plan: Plan
    tables: Mapping[str, str]
    """The static tables, with a digest of the rows of each."""
    versions: Mapping[str, str]
    engine: str = "spark"
    identities: Identities = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        keyed = self.plan.keyed
        streams = {name: _spec(name, item_type(t), "", keyed.get(name)) for name, t in self.plan.streams.items()}
        tables = {name: _spec(name, item_type(t), self.tables[name]) for name, t in self.plan.tables.items()}
        self.identities = identities(self.plan, {**streams, **tables})

    # --- going on -----------------------------------------------------------------------------

    @property
    def next_batch(self) -> int:
        """The number of the batch that comes next."""
        return 0 if self.store.manifest is None else self.store.manifest.batch + 1

    @property
    def sources(self) -> Mapping[str, SavedSource]:
        """The sources that the last commit records."""
        return {} if self.store.manifest is None else self.store.manifest.sources

    @property
    def offsets(self) -> dict[str, Json]:
        """The last offset of each stream that has one."""
        return {name: source.offset for name, source in self.sources.items() if source.offset is not None}

    @property
    def arrived(self) -> frozenset[str]:
        """The streams of which rows have arrived."""
        return frozenset(name for name, source in self.sources.items() if not source.static and _has_come(source))

    def restored(self) -> Restored | None:
        """What the checkpoint has for the plan; None where the checkpoint is new.

        Raises: UserError where it is not that of a view, a stream and a static table have changed roles, a static table
            has other rows now, or a state would have to be built from rows that are gone.
        """
        last, root = self.store.manifest, self.store.root
        if last is None:
            return None
        if not all(source.is_handed_over for source in last.sources.values()):
            raise UserError(f"{root} is the checkpoint of `mrql stream`, not of a view", hint="name a new directory")
        runs_must_be_there(last, root)
        self._sources_must_be_the_same(last)
        known = self.identities
        states = {name: last.states[i] for name, i in known.stages.items() if i in last.states}
        ledgers = {stream: last.states[i] for stream, i in known.ledgers.items() if i in last.states}
        built = tuple(stage.name for stage in self.plan.stages if stage.name not in states)
        self._can_be_built(built, ledgers.keys())
        return Restored(root, states, ledgers, built, {})

    def _sources_must_be_the_same(self, last: Manifest) -> None:
        for name, source in sorted(last.sources.items()):
            is_table = name in self.tables
            if name in self.plan.streams.keys() | self.tables.keys() and source.static != is_table:
                kinds = ("a static table", "a stream")
                was, now = kinds if source.static else kinds[::-1]
                raise UserError(f"`{name}` was {was} when the checkpoint was written, and is {now} now", hint=ANOTHER)
            if is_table and source.directories[0].path != _place(self.tables[name]):
                message = f"the table `{name}` has other rows than when the checkpoint was written"
                raise UserError(message, hint=f"its rows are a part of the states: give the same, or {ANOTHER}")

    def _can_be_built(self, built: Collection[str], ledgers: Collection[str]) -> None:
        """Raises: UserError, naming the first part that would be built from rows that are gone."""
        known = self.plan.keyed.keys() & {*ledgers}
        for stage in self.plan.stages:
            gone = sorted(({*stage.streams} & self.arrived) - known)
            if stage.name in built and gone:
                part = f"{stage.name}, {_called(stage)}, would have to be built from"
                raise _gone(part, gone, _place_of(stage) or self.plan.query.span)
        for name in sorted((self.plan.noted & self.arrived) - {*ledgers}):
            keyed = name in self.plan.keyed
            raise _gone(
                "what there is of each key would be made of" if keyed else "deletions would be looked up in",
                [name],
                None,
            )

    # --- a batch ------------------------------------------------------------------------------

    def commit(self, states: States, arrived: Collection[str], offsets: Mapping[str, Json]) -> None:
        """Commits a batch with rows of the streams in `arrived`, and with its new offsets."""
        live = states.live()
        before = {} if self.store.manifest is None else self.store.manifest.states
        manifest = Manifest(
            commit=self.store.next_commit,
            batch=self.next_batch,
            engine=self.engine,
            versions=self.versions,
            query=self.identities.query,
            sources=dict(self._sources(arrived, offsets)),
            states=write_states(self.store, live, before, self.next_batch),
            stream=self.store.stream,
        )
        self.store.commit(manifest)
        note_committed(live)

    def _sources(self, arrived: Collection[str], offsets: Mapping[str, Json]) -> Iterator[tuple[str, SavedSource]]:
        """The sources to record. Streams that the query does not read any more are kept: it may read them again."""
        known, come = {**self.offsets, **offsets}, self.arrived.union(arrived)
        for name in sorted(come.union(known)):
            yield name, SavedSource(False, (SavedDirectory(_place(""), int(name in come), ()),), known.get(name))
        for name in sorted(self.plan.tables):
            yield name, SavedSource(True, (SavedDirectory(_place(self.tables[name]), 1, ()),))

    def close(self) -> None:
        """Releases the checkpoint."""
        self.store.close()


def _called(stage: Stage) -> str:
    """What a stage is, for a user who has not seen the plan."""
    names = listed(component_names(stage))
    return f"the state of {names} by key" if stage.shape is Shape.KEYED and names else f"a {stage.shape.value} state"


def _place_of(stage: Stage) -> Span | None:
    """The position in the query of a stage: that of its outermost part that has one."""
    places = (part.span for part in (*stage.components, *subterms(stage.derivation.query)))
    return next((place for place in places if place is not None), None)


def _gone(what: str, streams: Sequence[str], span: Span | None) -> UserError:
    message = (
        "the query, or an argument of the view, is another one than that of the checkpoint, "
        f"and {what} rows of {listed(streams)} that are gone"
    )
    return UserError(
        message, span, f"go on with the query, `keys`, `trusted` and the others as they were, or {ANOTHER}"
    )


def _spec(name: str, row: Type, digest: str, key: RowKey | None = None) -> SourceSpec:
    """A stream or a table that a program hands over, as it enters the identities of states."""
    return SourceSpec(name, True, ADAPTER, digest, row, adapter=HANDED_OVER, key=key)


def _has_come(source: SavedSource) -> bool:
    """Whether rows of a source have arrived; it may have an offset without any."""
    return any(directory.weight for directory in source.directories)


def _place(digest: str) -> str:
    return f"{HANDED_OVER} {digest}".rstrip()
