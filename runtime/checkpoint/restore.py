"""What of a checkpoint is right for a query: which states are kept, which are built again, and what was consumed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.notation.printer import show_type
from mrql.algebra.showable import OPTION, is_secret
from mrql.algebra.types import Type
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint.identity import Identities, reading_of
from mrql.runtime.checkpoint.manifest import Manifest, SavedDirectory, SavedFile, SavedSource, SavedState, damaged
from mrql.runtime.checkpoint.notation import connector
from mrql.runtime.checkpoint.store import latest, opening
from mrql.runtime.sources.directory import Adapted, Directory, Part, Seen, Versions, Watched, static_files
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.source import Offset, open_adapter, open_table

START_OVER = "start with a new checkpoint, from all data again"


@attrs.frozen
class Restored:
    """What a checkpoint has for a plan."""

    root: Path
    states: Mapping[str, SavedState]
    """The states that are kept, by the name of the stage."""
    ledgers: Mapping[str, SavedState]
    """The rows of streams that can lose some, by the name of the stream."""
    built: tuple[str, ...]
    """The stages whose states are not there, and are built from what has arrived."""
    arrived: Mapping[str, Sequence[Part]]
    """What has arrived so far of the streams that those need."""


@attrs.frozen
class GoingOn:
    """What an engine has to know of a checkpoint: what states are known by, and what there is of them already."""

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
) -> Restored:
    """What a checkpoint has for a plan over some sources.

    Raises: UserError where it is that of another engine, or a file that it rests on has changed or is gone.
    """
    if manifest.engine != engine:
        raise UserError(f"{root} was written by the {manifest.engine} engine", hint=f"go on with that, or {START_OVER}")
    if any(source.is_handed_over for source in manifest.sources.values()):
        raise UserError(
            f"{root} is the checkpoint of a view in Python, not of `mrql stream`", hint="name a new directory"
        )
    runs_must_be_there(manifest, root)
    _tables_must_be_the_same(manifest, plan, specs)
    states = {name: manifest.states[i] for name, i in known.stages.items() if i in manifest.states}
    ledgers = {stream: manifest.states[i] for stream, i in known.ledgers.items() if i in manifest.states}
    built = tuple(stage.name for stage in plan.stages if stage.name not in states)
    needed = {name for stage in plan.stages if stage.name in built for name in stage.streams}
    # What the rows of each key are is kept as it is, and not read again.
    needed -= plan.keyed.keys() & ledgers.keys()
    needed |= plan.noted - ledgers.keys()
    directories = {name: consumed(manifest, specs[name], copies) for name in sorted(needed & plan.streams.keys())}
    arrived = {
        name: [part for w in found for part in _arrived(w, built, copies)] for name, found in directories.items()
    }
    return Restored(root, states, ledgers, built, {name: parts for name, parts in arrived.items() if parts})


def reason_to_build(copies: Copies | None) -> str:
    """Why states are not those that a checkpoint has: with files that may change each stream can lose rows, and its
    states are others; nothing was copied by a run that did not ask for it."""
    may_be_new = copies is not None and copies.is_empty
    return "the query has changed, or `--rewrites apply` is new" if may_be_new else "the query has changed"


def from_the_beginning(plan: Plan, watched: Sequence[Watched]) -> Restored:
    """No states, and all that was read so far of what they are built from.

    Raises: UserError where that is not there any more.
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
    """Where a type of rows was found: in the files of a place (`place_of`), read in a way (`reading_of`)."""

    place: str
    reading: str | None
    """None in a checkpoint that does not say it."""


FoundRows: TypeAlias = Mapping[FoundIn, Type]


def found_in(spec: SourceSpec) -> FoundIn:
    """Where the type of the rows of a stream is found."""
    return FoundIn(place_of(spec), reading_of(spec))


def known_row(rows: FoundRows, spec: SourceSpec) -> Type | None:
    """The type that the rows of a stream were found to be, if they were."""
    found = found_in(spec)
    return rows.get(found, rows.get(FoundIn(found.place, None)))


def found_rows(root: Path | None) -> dict[FoundIn, Type]:
    """The types of rows that were found before a checkpoint was written.

    Raises: UserError where the checkpoint cannot be read.
    """
    found = _last_sources(root)
    return {FoundIn(s.directories[0].path, s.reading): parse_type(s.row) for s in found if s.row is not None}


def found_versions(root: Path | None) -> dict[str, int]:
    """The versions of static tables with a log that a checkpoint was written over, by their places, where the query did
    not say which.

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


def consumed(manifest: Manifest | None, spec: SourceSpec, copies: Copies | None = None) -> list[Watched]:
    """What a stream is read from, with what a checkpoint says was read of it: that of its name and place."""
    source = None if manifest is None else manifest.sources.get(spec.name)
    if spec.adapter is not None:
        places = [] if source is None else [directory.path for directory in source.directories]
        offset = source.offset if source is not None and places == [adapted_place(spec)] else None
        if spec.versioned:
            return [Versions(spec, open_table(spec), offset)]
        return [Adapted(spec, open_adapter(spec), offset)]
    saved = {(d.path, d.weight): d for d in source.directories} if source is not None else {}
    directories: list[Watched] = []
    for part, weight in spec.directories:
        found = saved.get((place_of(part), weight))
        files = () if found is None else found.files
        seen = {Path(file.path): Seen(file.size, file.modified) for file in files}
        directories.append(Directory(part, weight, seen, copies=copies))
    return directories


def adapted_place(spec: SourceSpec) -> str:
    """What an adapter reads from, as a checkpoint notes it: passwords are no part of it."""
    if spec.versioned:
        return f"{connector(spec.adapter)} {Path(spec.path).absolute()}"
    place = re.sub(r"(?<=//)([^/@:]*):[^/@]*@", r"\1@", spec.path)
    place = OPTION.sub(lambda found: found["before"][:-1] if is_secret(found["key"]) else found[0], place)
    return f"{connector(spec.adapter)} {re.sub(r'password=[^&]*', 'password', place)}"


def consumed_streams(watched: Sequence[Watched]) -> dict[str, SavedSource]:
    """What was consumed of the streams so far, by what they are read from."""
    streams: dict[str, SavedSource] = {}
    for one in watched:
        name = one.spec.name
        row = show_type(one.spec.row, left_out=True) if one.spec.found else None
        reading = reading_of(one.spec) if one.spec.found else None
        if isinstance(one, Adapted | Versions):
            place = SavedDirectory(adapted_place(one.spec), 1, ())
            streams[name] = SavedSource(False, (place,), one.offset, row, reading)
        else:
            before = streams[name].directories if name in streams else ()
            streams[name] = SavedSource(False, (*before, _saved(one)), row=row, reading=reading)
    return streams


def static_tables(plan: Plan, specs: Mapping[str, SourceSpec]) -> dict[str, SavedSource]:
    """The files of static tables as they are now: to be asked before they are read."""
    return {
        name: SavedSource(True, (_saved(_static(specs[name])),), _noted_version(specs[name]))
        for name in sorted(plan.tables)
    }


def _noted_version(spec: SourceSpec) -> Offset:
    """The version of a static table; one that the query says holds for that source only, and not for its place."""
    return spec.version if spec.version_found or spec.version is None else {"version": spec.version}


def _saved(directory: Directory) -> SavedDirectory:
    files = (SavedFile(str(path), seen.size, seen.modified) for path, seen in directory.seen.items())
    return SavedDirectory(place_of(directory.spec), directory.weight, tuple(files))


def _static(spec: SourceSpec) -> Directory:
    found = {part.file.absolute(): part.seen for part in static_files(spec)}
    return Directory(spec, 1, {file: seen for file, seen in found.items() if seen is not None})


def _arrived(watched: Watched, built: Sequence[str], copies: Copies | None) -> Iterator[Part]:
    """What was read of a stream, for a state that is built again.

    Raises: UserError where that is not there any more, and what to do.
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
    finally:
        if isinstance(watched, Adapted):
            watched.adapter.close()


def place_of(spec: SourceSpec) -> str:
    """What a source is read from, as a checkpoint notes it."""
    return str(Path(spec.path).absolute()) if spec.adapter is None else adapted_place(spec)


# --- what a checkpoint rests on -----------------------------------------------------------------


def runs_must_be_there(manifest: Manifest, root: Path) -> None:
    """Files of states that were removed or cut off are found before anything is computed from the others. Whether the
    others hold what was written is looked at when they are read.

    Raises: UserError, naming the first.
    """
    for run in manifest.runs():
        for file in run.files:
            path = root / run.path / file.name
            if not path.is_file():
                raise UserError(f"{path} is gone, and a state is made of it", hint=f"put it back, or {START_OVER}")
            if (fault := file.size_fault(path.stat().st_size)) is not None:
                raise damaged(path, f"it {fault}")


def _tables_must_be_the_same(manifest: Manifest, plan: Plan, specs: Mapping[str, SourceSpec]) -> None:
    """States are made of static tables too, which are not read again.

    Raises: UserError, naming the first file that is another one, is gone or is new.
    """
    for name in sorted(plan.tables.keys() & manifest.sources.keys()):
        spec, directories = specs[name], manifest.sources[name].directories
        if {directory.path for directory in directories} != {place_of(spec)}:
            continue  # the query names other files now, and its states are others too
        if spec.versioned and manifest.sources[name].offset not in (spec.version, _noted_version(spec)):
            continue  # and so it does where it names another version
        saved = {file.path: Seen(file.size, file.modified) for d in directories for file in d.files}
        now = {str(file): seen for file, seen in _static(spec).seen.items()}
        for file in sorted(saved.keys() | now.keys()):
            if saved.get(file) != now.get(file):
                what = "is gone" if file not in now else "is new" if file not in saved else "has changed"
                message = f"{file} {what} since the checkpoint was written, and is a part of its states"
                raise UserError(message, spec.span, START_OVER)
