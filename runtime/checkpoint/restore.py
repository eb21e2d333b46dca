"""What a checkpoint has for a query: which states are kept, which are rebuilt, and what was consumed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.consumed import consumed, files_of, files_read, noted_version
from mrql.runtime.checkpoint.identity import Identities, identities, reading_of
from mrql.runtime.checkpoint.manifest import Manifest, SavedSource, SavedState, damaged
from mrql.runtime.checkpoint.places import known_by, place_of
from mrql.runtime.checkpoint.store import latest, opening
from mrql.runtime.sources.arrived import Part
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.watch import Watched

START_OVER = "start with a new checkpoint, from all data again"


@attrs.frozen
class Restored:
    """What a checkpoint has for a plan."""

    root: Path
    states: Mapping[str, SavedState]
    """The states that are kept, by the name of the stage."""
    ledgers: Mapping[str, SavedState]
    """The kept rows of streams (`Identities.ledgers`), by the name of the stream."""
    built: tuple[str, ...]
    """The stages without a saved state, which are built from what has arrived."""
    arrived: Mapping[str, Sequence[Part]]
    """What has arrived so far of the streams that are needed for that."""


@attrs.frozen
class GoingOn:
    """What an engine has to know of a checkpoint: the identities of states, and which states are restored."""

    identities: Identities
    restored: Restored | None


def restored(
    manifest: Manifest,
    root: Path,
    plan: Plan,
    specs: Mapping[str, SourceSpec],
    known: Identities,
    engine: str,
    copies: Copies | None = None,
    running: Mapping[str, Adapted] | None = None,
) -> Restored:
    """What a checkpoint has for a plan over some sources, of which some adapters are `running`.

    Raises: UserError where it is that of another engine or of a view in Python, or a file that it depends on has
        changed or is gone.
    """
    if manifest.engine != engine:
        raise UserError(f"{root} was written by the {manifest.engine} engine", hint=f"go on with that, or {START_OVER}")
    if any(source.is_handed_over for source in manifest.sources.values()):
        raise UserError(
            f"{root} is the checkpoint of a view in Python, not of `mrql stream`", hint="name a new directory"
        )
    runs_must_be_there(manifest, root)
    _tables_must_be_the_same(manifest, root, plan, specs)
    states = {name: manifest.states[i] for name, i in known.stages.items() if i in manifest.states}
    ledgers = {stream: manifest.states[i] for stream, i in known.ledgers.items() if i in manifest.states}
    built = tuple(stage.name for stage in plan.stages if stage.name not in states)
    needed = {name for stage in plan.stages if stage.name in built for name in stage.streams}
    # Of these the current rows by key are restored, and need not be read again.
    needed -= plan.keyed.keys() & ledgers.keys()
    needed |= plan.noted - ledgers.keys()
    arrived: dict[str, list[Part]] = {}
    for name in sorted(needed & plan.streams.keys()):
        with ExitStack() as opened:
            for watched in consumed(manifest, root, specs[name], copies, running):
                if isinstance(watched, Adapted) and name not in (running or {}):
                    opened.callback(watched.adapter.close)
                arrived.setdefault(name, []).extend(_arrived(watched, built, copies))
    return Restored(root, states, ledgers, built, {name: parts for name, parts in arrived.items() if parts})


def known_as_today(manifest: Manifest, plan: Plan, specs: Mapping[str, SourceSpec], known: Identities) -> Manifest:
    """A manifest with its states under the identities that they have today (`known`). The first identities contain the
    whole address of a source, with its password; such a state is found where the address is still the same, or where
    it had no password and is the recorded one."""
    places = {name: source.directories[0].path for name, source in manifest.sources.items()}
    same = {name for name in places.keys() & specs.keys() if known_by(places[name]) == known_by(place_of(specs[name]))}
    noted = {name: places[name].partition(" ")[2] for name in same}
    today: dict[str, str] = {}
    query = manifest.query
    for address in (lambda spec: spec.path, lambda spec: noted.get(spec.name) or spec.path):
        first = identities(plan, specs, address)
        for before, now in ((first.stages, known.stages), (first.ledgers, known.ledgers)):
            today |= {before[name]: now[name] for name in now if before[name] != now[name]}
        query = known.query if manifest.query == first.query else query
    states = {today.get(name, name): state for name, state in manifest.states.items()}
    if (states.keys(), query) == (manifest.states.keys(), manifest.query):
        return manifest
    return attrs.evolve(manifest, states=states, query=query)


def reason_to_build(copies: Copies | None) -> str:
    """Why states have to be rebuilt. If files may change, each stream can lose rows, and its states are different ones;
    that this is new is possible where no file was copied yet."""
    may_be_new = copies is not None and copies.is_empty
    return "the query has changed, or `--rewrites apply` is new" if may_be_new else "the query has changed"


def from_the_beginning(plan: Plan, watched: Sequence[Watched]) -> Restored:
    """No states, and everything that was read so far, from which they are built.

    Raises: UserError where that cannot be read again.
    """
    arrived: dict[str, list[Part]] = {}
    for one in watched:
        if isinstance(one, Adapted):
            if one.offset is not None:
                arrived.setdefault(one.spec.name, []).append(one.so_far())
        elif isinstance(one, Directory) or one.offset is not None:
            arrived.setdefault(one.spec.name, []).extend(one.so_far())
    built = tuple(stage.name for stage in plan.stages)
    return Restored(Path(), {}, {}, built, {name: parts for name, parts in arrived.items() if parts})


@attrs.frozen
class FoundIn:
    """Where the type of rows was inferred: the place (`known_by`), and the way of reading (`reading_of`)."""

    place: str
    reading: str | None
    """None in a checkpoint that does not say it."""


FoundRows: TypeAlias = Mapping[FoundIn, Type]


def found_in(spec: SourceSpec) -> FoundIn:
    """Where the type of the rows of a stream is inferred."""
    return FoundIn(known_by(place_of(spec)), reading_of(spec))


def known_row(rows: FoundRows, spec: SourceSpec) -> Type | None:
    """The type that was inferred for the rows of a stream, if there is one."""
    found = found_in(spec)
    return rows.get(found, rows.get(FoundIn(found.place, None)))


def found_rows(root: Path | None) -> dict[FoundIn, Type]:
    """The inferred types of rows that a checkpoint records.

    Raises: UserError where the checkpoint cannot be read.
    """
    found = _last_sources(root)
    return {FoundIn(known_by(s.directories[0].path), s.reading): parse_type(s.row) for s in found if s.row is not None}


def found_versions(root: Path | None) -> dict[str, int]:
    """The versions of static tables with a log that a checkpoint records, by place, where the query did not give the
    version.

    Raises: UserError where the checkpoint cannot be read.
    """
    found = _last_sources(root)
    return {s.directories[0].path: s.offset for s in found if s.static and isinstance(s.offset, int)}


def _last_sources(root: Path | None) -> Collection[SavedSource]:
    """The sources of the last commit of a checkpoint, if there is one."""
    if root is None:
        return ()
    with opening(root):
        manifest = latest(root)
    return () if manifest is None else manifest.sources.values()


def _arrived(watched: Watched, built: Sequence[str], copies: Copies | None) -> Iterator[Part]:
    """What was read of a stream, for rebuilding a state.

    Raises: UserError, with what to do, where that cannot be read again.
    """
    try:
        if isinstance(watched, Adapted):
            if watched.offset is not None:
                yield watched.so_far()
        elif isinstance(watched, Directory) or watched.offset is not None:
            yield from watched.so_far()
    except UserError as error:
        what = f"{reason_to_build(copies)}, and {', '.join(built) or watched.spec.name} must be built again"
        is_file = isinstance(watched, Directory)
        hint = f"put the file back as it was, or {START_OVER}" if is_file else START_OVER
        raise UserError(f"{what}, but {error.message}", watched.spec.span, hint) from None


# --- what a checkpoint depends on ---------------------------------------------------------------


def runs_must_be_there(manifest: Manifest, root: Path) -> None:
    """Checks that no file of a state was removed or cut off, before anything is computed from the others. Contents are
    checked when files are read.

    Raises: UserError, naming the first such file.
    """
    for run in manifest.runs():
        for file in run.files:
            path = root / run.path / file.name
            if not path.is_file():
                raise UserError(f"{path} is gone, and a state is made of it", hint=f"put it back, or {START_OVER}")
            if (fault := file.size_fault(path.stat().st_size)) is not None:
                raise damaged(path, f"it {fault}")


def _tables_must_be_the_same(manifest: Manifest, root: Path, plan: Plan, specs: Mapping[str, SourceSpec]) -> None:
    """Checks that static tables are the same: kept states were computed from them, and are not computed again.

    Raises: UserError, naming the first file that has changed, is gone or is new.
    """
    for name in sorted(plan.tables.keys() & manifest.sources.keys()):
        spec, directories = specs[name], manifest.sources[name].directories
        if {directory.path for directory in directories} != {place_of(spec)}:
            continue  # the query names other files, and its states are different ones
        if spec.versioned and manifest.sources[name].offset not in (spec.version, noted_version(spec)):
            continue  # likewise where it names another version
        saved = {file: seen for directory in directories for file, seen in files_read(root, directory).items()}
        now = files_of(spec)
        for file in sorted(saved.keys() | now.keys()):
            if saved.get(file) != now.get(file):
                what = "is gone" if file not in now else "is new" if file not in saved else "has changed"
                message = f"{file} {what} since the checkpoint was written, and is a part of its states"
                raise UserError(message, spec.span, START_OVER)
