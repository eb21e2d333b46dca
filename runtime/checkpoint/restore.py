"""What of a checkpoint is right for a query: which states are kept, which are built again, and what was consumed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.files import list_files
from mrql.algebra.sources import SourceSpec
from mrql.rewrite.stages import Plan
from mrql.runtime.checkpoint.identity import Identities
from mrql.runtime.checkpoint.manifest import (
    Manifest,
    SavedDirectory,
    SavedFile,
    SavedSource,
    SavedState,
    damaged,
)
from mrql.runtime.directories import Arrived, Directory, Seen, must_be

START_OVER = "start with a new --checkpoint, which reads all data again"


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
    arrived: Mapping[str, Sequence[Arrived]]
    """What has arrived so far of the streams that those need."""


def restored(
    manifest: Manifest, root: Path, plan: Plan, specs: Mapping[str, SourceSpec], known: Identities, engine: str
) -> Restored:
    """What a checkpoint has for a plan over some sources.

    Raises: UserError where it is that of another engine, or a file that it rests on has changed or is gone.
    """
    if manifest.engine != engine:
        raise UserError(f"{root} was written with --engine {manifest.engine}", hint=f"go on with that, or {START_OVER}")
    _runs_must_be_there(manifest, root)
    _tables_must_be_the_same(manifest, plan, specs)
    states = {name: manifest.states[i] for name, i in known.stages.items() if i in manifest.states}
    ledgers = {stream: manifest.states[i] for stream, i in known.ledgers.items() if i in manifest.states}
    built = tuple(stage.name for stage in plan.stages if stage.name not in states)
    needed = {name for stage in plan.stages if stage.name in built for name in stage.streams}
    needed |= plan.shrinking - ledgers.keys()
    directories = {name: consumed(manifest, specs[name]) for name in sorted(needed & plan.streams.keys())}
    for name, found in directories.items():
        for directory in found:
            _must_be_there(directory, specs[name], built)
    arrived = {name: [part for d in found for part in _arrived(d)] for name, found in directories.items()}
    return Restored(root, states, ledgers, built, {name: parts for name, parts in arrived.items() if parts})


def consumed(manifest: Manifest | None, spec: SourceSpec) -> list[Directory]:
    """The directories of a stream, with what a checkpoint says was read of them: those of its name and place."""
    source = None if manifest is None else manifest.sources.get(spec.name)
    saved = {(d.path, d.weight): d for d in source.directories} if source is not None else {}
    directories = []
    for part, weight in spec.directories:
        found = saved.get((_place(part), weight))
        files = () if found is None else found.files
        seen = {Path(file.path): Seen(file.size, file.modified) for file in files}
        directories.append(Directory(part, weight, seen))
    return directories


def consumed_streams(directories: Sequence[Directory]) -> dict[str, SavedSource]:
    """What was consumed of the streams so far, by the directories that they are read from."""
    streams: dict[str, list[SavedDirectory]] = {}
    for directory in directories:
        streams.setdefault(directory.spec.name, []).append(_saved(directory))
    return {name: SavedSource(False, tuple(found)) for name, found in streams.items()}


def static_tables(plan: Plan, specs: Mapping[str, SourceSpec]) -> dict[str, SavedSource]:
    """The files of static tables as they are now: to be asked before they are read."""
    return {name: SavedSource(True, (_saved(_static(specs[name])),)) for name in sorted(plan.tables)}


def _saved(directory: Directory) -> SavedDirectory:
    files = (SavedFile(str(path), seen.size, seen.modified) for path, seen in directory.seen.items())
    return SavedDirectory(_place(directory.spec), directory.weight, tuple(files))


def _static(spec: SourceSpec) -> Directory:
    return Directory(spec, 1, {file.absolute(): Seen.of(file) for file in list_files(spec)})


def _arrived(directory: Directory) -> Iterator[Arrived]:
    for file, seen in directory.seen.items():
        yield Arrived(file, directory.weight, seen)


def _place(spec: SourceSpec) -> str:
    return str(Path(spec.path).absolute())


# --- what a checkpoint rests on -----------------------------------------------------------------


def _runs_must_be_there(manifest: Manifest, root: Path) -> None:
    """Files of states that were removed or cut off are found before anything is computed from the others.

    Raises: UserError, naming the first.
    """
    for run in manifest.runs():
        for file in run.files:
            path = root / run.path / file.name
            if not path.is_file():
                raise UserError(f"{path} is gone, and a state is made of it", hint=f"put it back, or {START_OVER}")
            if path.stat().st_size != file.bytes:
                raise damaged(path)


def _tables_must_be_the_same(manifest: Manifest, plan: Plan, specs: Mapping[str, SourceSpec]) -> None:
    """States are made of static tables too, which are not read again.

    Raises: UserError, naming the first file that is another one, is gone or is new.
    """
    for name in sorted(plan.tables.keys() & manifest.sources.keys()):
        spec, directories = specs[name], manifest.sources[name].directories
        if {directory.path for directory in directories} != {_place(spec)}:
            continue  # the query names other files now, and its states are others too
        saved = {file.path: Seen(file.size, file.modified) for d in directories for file in d.files}
        now = {str(file): seen for file, seen in _static(spec).seen.items()}
        for file in sorted(saved.keys() | now.keys()):
            if saved.get(file) != now.get(file):
                what = "is gone" if file not in now else "is new" if file not in saved else "has changed"
                message = f"{file} {what} since the checkpoint was written, and is a part of its states"
                raise UserError(message, spec.span, START_OVER)


def _must_be_there(directory: Directory, spec: SourceSpec, built: Sequence[str]) -> None:
    """A state that is built again needs all files that were consumed, as they were.

    Raises: UserError, naming the first that is not, and what to do.
    """
    for file, seen in directory.seen.items():
        try:
            must_be(file, seen, spec)
        except UserError as error:
            what = f"the query has changed, and {', '.join(built) or spec.name} must be built again"
            hint = f"put the file back as it was, or {START_OVER}"
            raise UserError(f"{what}, but {error.message}", spec.span, hint) from None
