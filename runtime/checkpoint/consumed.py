"""What was consumed of sources: how a commit records it, and how reading goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import attrs

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.notation.type_printer import show_type
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.identity import reading_of
from mrql.runtime.checkpoint.manifest import FileList, Manifest, SavedDirectory, SavedFile, SavedSource, read_list
from mrql.runtime.checkpoint.places import adapted_place, known_by, place_of
from mrql.runtime.checkpoint.store import READ, Store
from mrql.runtime.sources.arrived import Seen, static_files
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.source import Offset, open_adapter, open_table
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.versions import Versions
from mrql.runtime.sources.watched.watch import Watched


def consumed(
    manifest: Manifest | None,
    root: Path,
    spec: SourceSpec,
    copies: Copies | None = None,
    running: Mapping[str, Adapted] | None = None,
) -> list[Watched]:
    """What a stream is read from, with what was read of it according to a checkpoint's entry of its name and place. An
    adapter that is `running` already, by the name of its stream, is not opened again: a socket does not repeat what it
    has sent.

    Raises: UserError where a list of files is damaged, or gone.
    """
    source = None if manifest is None else manifest.sources.get(spec.name)
    if spec.adapter is not None:
        # What was a static table until now has a version, and nothing of it was read as a stream.
        read = None if source is None or source.static else source
        places = [] if read is None else [known_by(directory.path) for directory in read.directories]
        offset = read.offset if read is not None and places == [known_by(adapted_place(spec))] else None
        if spec.versioned:
            return [Versions(spec, open_table(spec), offset)]
        known = (running or {}).get(spec.name)
        return [Adapted(spec, open_adapter(spec), offset) if known is None else known.again(spec, offset)]
    saved = {(d.path, d.weight): d for d in source.directories} if source is not None else {}
    directories: list[Watched] = []
    for part, weight in spec.directories:
        found = saved.get((place_of(part), weight))
        seen = {} if found is None else files_read(root, found)
        directories.append(Directory(part, weight, seen, copies=copies))
    return directories


def files_read(root: Path, directory: SavedDirectory) -> dict[str, Seen]:
    """All files of a directory that were read, in the order in which they were read.

    Raises: UserError where a list of them is damaged, or gone.
    """
    listed = (file for part in directory.lists for file in read_list(root / READ / part.name, part))
    return {file.path: Seen(file.size, file.modified) for file in (*listed, *directory.files)}


# --- how a commit records it --------------------------------------------------------------------


@attrs.frozen
class Consumed:
    """Records what was consumed. Files in lists of the last commit are not written again."""

    store: Store

    def streams(self, watched: Sequence[Watched]) -> dict[str, SavedSource]:
        """What was consumed of the streams so far, by the names of the streams."""
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
                streams[name] = SavedSource(False, (*before, self._directory(one)), row=row, reading=reading)
        return streams

    def _directory(self, directory: Directory) -> SavedDirectory:
        """The files of a directory that were read. Those in lists come first, so that all files after these are new.

        The new ones get a list where they are more than a manifest itself may name. That list has all files where, for
        example, the lists after the first one have as many files as that (`policy.writes_whole`).
        """
        place, seen = place_of(directory.spec), directory.seen
        lists = () if directory.has_lost else self._lists(directory.spec.name, place, directory.weight)
        listed = [part.count for part in lists]
        if len(seen) - sum(listed) > policy.NAMED_MAX_FILES:
            whole = policy.writes_whole(listed, len(seen))
            new = saved_files(seen, 0 if whole else sum(listed))
            lists = (*(() if whole else lists), self.store.write_list(new))
        named = saved_files(seen, sum(part.count for part in lists))
        return SavedDirectory(place, directory.weight, named, lists)

    def _lists(self, stream: str, place: str, weight: int) -> tuple[FileList, ...]:
        """The lists that the last commit has for a directory."""
        last = self.store.manifest
        source = None if last is None else last.sources.get(stream)
        found = () if source is None else source.directories
        return next((d.lists for d in found if (d.path, d.weight) == (place, weight)), ())


def saved_files(seen: Mapping[str, Seen], start: int = 0) -> tuple[SavedFile, ...]:
    """Files as a checkpoint records them, from the one at `start` on."""
    return tuple(SavedFile(path, file.size, file.modified) for path, file in islice(seen.items(), start, None))


def static_tables(plan: Plan, specs: Mapping[str, SourceSpec]) -> dict[str, SavedSource]:
    """The files of static tables as they are now; to be called before they are read."""
    return {
        name: SavedSource(True, (_static(specs[name]),), noted_version(specs[name])) for name in sorted(plan.tables)
    }


def noted_version(spec: SourceSpec) -> Offset:
    """The version of a static table to record; one given by the query is marked, as it holds for that source only."""
    return spec.version if spec.version_found or spec.version is None else {"version": spec.version}


def _static(spec: SourceSpec) -> SavedDirectory:
    return SavedDirectory(place_of(spec), 1, saved_files(files_of(spec)))


def files_of(spec: SourceSpec) -> dict[str, Seen]:
    """The files of a static table as they are now."""
    return {str(part.file.absolute()): part.seen for part in static_files(spec) if part.seen is not None}
