"""The states of the reference engine on disk: lines of JSON, `[key, value]`, or `[key]` for a deleted key.

A table is a dictionary; a run has all of its entries or those that were added, changed or deleted, and later runs win.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from mrql.algebra.row_key import RowKey
from mrql.algebra.values.values import canonical
from mrql.algebra.values.zset import ZSet
from mrql.runtime.checkpoint.identity import Identities
from mrql.runtime.checkpoint.lines import Lines, TextTable, read_lines, text
from mrql.runtime.checkpoint.live import LiveState
from mrql.runtime.checkpoint.manifest import SavedState
from mrql.runtime.checkpoint.restore import Restored
from mrql.runtime.checkpoint.values import from_plain, to_plain
from mrql.runtime.reference.stage_state import Entry, StageState
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sources.current_rows import Current, CurrentRows

# --- writing ------------------------------------------------------------------------------------


@attrs.define
class ReferenceStates:
    """The states of a view in the reference engine, with the lines of each table that were last committed."""

    view: ReferenceView
    identities: Identities
    known: dict[tuple[str, str], Lines] = attrs.Factory(dict)

    def live(self) -> dict[str, LiveState]:
        """The current states, by identity."""
        found = {}
        for state in self.view.states:
            identity = self.identities.stages[state.stage.name]
            tables = {"entries": _entries(state)}
            tables |= {
                name: _weights(state.inputs[index, label])
                for name, index, label in _inputs(state)
                if (index, label) in state.inputs
            }
            found[identity] = self._state(identity, state.stage.name, tables)
        for stream, rows in self.view.present.items():
            identity = self.identities.ledgers[stream]
            found[identity] = self._state(identity, stream, {"rows": _weights(rows)})
        for stream, current in self.view.current.items():
            identity = self.identities.ledgers[stream]
            found[identity] = self._state(identity, stream, {"rows": _by_key(current)})
        return found

    def _state(self, identity: str, name: str, tables: Mapping[str, Lines]) -> LiveState:
        def table(key: tuple[str, str], now: Lines) -> TextTable:
            return TextTable(now, self.known.get(key), lambda lines: self.known.__setitem__(key, lines))

        return LiveState(name, {}, {part: table((identity, part), lines) for part, lines in tables.items()})

    # --- reading ------------------------------------------------------------------------------

    def load(self, restored: Restored) -> None:
        """Loads the states kept from a checkpoint into the view."""
        for state in self.view.states:
            if state.stage.name in restored.states:
                self._load_stage(state, restored.states[state.stage.name], restored.root)
        for stream, saved in restored.ledgers.items():
            lines = self._lines(self.identities.ledgers[stream], "rows", saved, restored.root)
            if stream in self.view.plan.keyed:
                self.view.current[stream] = _current_rows(stream, self.view.plan.keyed[stream], lines)
            else:
                self.view.present[stream] = _zset(lines)

    def _load_stage(self, state: StageState, saved: SavedState, root: Path) -> None:
        identity = self.identities.stages[state.stage.name]
        for line, value in self._lines(identity, "entries", saved, root).items():
            key, (support, values) = from_plain(json.loads(line)), json.loads(value)
            state.entries[canonical(key)] = Entry(key, support, [from_plain(item) for item in values])
        for name, index, label in _inputs(state):
            if name in saved.tables:
                state.inputs[index, label] = _zset(self._lines(identity, name, saved, root))

    def _lines(self, identity: str, name: str, saved: SavedState, root: Path) -> Lines:
        lines = read_lines(saved.tables[name], root)
        self.known[identity, name] = lines
        return dict(lines)


def lines_of(view: ReferenceView) -> Iterator[tuple[str, Lines]]:
    """The tables of a view as they are written, each with the name of its stage or stream."""
    for state in view.states:
        yield state.stage.name, _entries(state)
        for rows in state.inputs.values():
            yield state.stage.name, _weights(rows)
    for stream, rows in view.present.items():
        yield stream, _weights(rows)
    for stream, current in view.current.items():
        yield stream, _by_key(current)


def _inputs(state: StageState) -> Iterable[tuple[str, int, str]]:
    """The inputs of a stage's feeds: the name of the table if a join keeps it, the feed's number, the input's label."""
    for index, feed in enumerate(state.stage.feeds):
        for number, read in enumerate(feed.rows.inputs):
            yield f"input-{index}-{number}", index, read.label


def _entries(state: StageState) -> Lines:
    return {
        text(to_plain(entry.key)): text([entry.support, [to_plain(value) for value in entry.values]])
        for entry in state.scan()
    }


def _weights(rows: ZSet) -> Lines:
    return {text(to_plain(value)): str(weight) for value, weight in rows}


def _by_key(current: CurrentRows) -> Lines:
    """The version and the row of each key; the row is null where it was deleted."""
    return {
        text(to_plain(entry.key)): text([to_plain(entry.version), to_plain(entry.row)])
        for entry in current.entries.values()
    }


def _current_rows(stream: str, key: RowKey, lines: Lines) -> CurrentRows:
    entries = {}
    for line, value in lines.items():
        found, (version, row) = from_plain(json.loads(line)), map(from_plain, json.loads(value))
        entries[canonical(found)] = Current(found, version, row)
    return CurrentRows(stream, key, entries)


def _zset(lines: Lines) -> ZSet:
    return ZSet.weighted((from_plain(json.loads(value)), int(weight)) for value, weight in lines.items())
