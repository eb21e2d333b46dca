"""States that are saved without a stream, and restored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.commits import States, note_committed, write_states
from mrql.runtime.checkpoint.identity import Identities, identities
from mrql.runtime.checkpoint.manifest import SavedState
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.checkpoint.store import Store
from tests.runtime.checkpoint.streams import Counting


@attrs.define
class Saved:
    """A store, and the states that were last written to it."""

    store: Store
    known: Identities
    states: Mapping[str, SavedState] = attrs.Factory(dict)
    batch: int = 0

    @staticmethod
    def of(plan: Plan, directory: Path) -> Saved:
        return Saved(Store.open(directory, Counting()), identities(plan, {}))

    def write(self, states: States) -> None:
        live = states.live()
        self.states = write_states(self.store, live, self.states, self.batch)
        self.batch += 1
        note_committed(live)

    def restored(self, plan: Plan, *, lost: int | None = None) -> Restored:
        """The saved states; if `lost` is given, without ledgers and without every other stage, counted from `lost`."""
        stages = [s.name for n, s in enumerate(plan.stages) if lost is None or n % 2 != lost]
        streams = self.known.ledgers if lost is None else []
        return Restored(
            self.store.root,
            {name: self.states[self.known.stages[name]] for name in stages},
            {
                name: self.states[self.known.ledgers[name]]
                for name in streams
                if self.known.ledgers[name] in self.states
            },
            tuple(stage.name for stage in plan.stages if stage.name not in stages),
            {},
        )
