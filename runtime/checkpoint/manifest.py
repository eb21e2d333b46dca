"""Manifests: the contents of a checkpoint after a batch. Renaming a manifest into place commits the batch.

A manifest is JSON that begins with a checksum of everything after it. Paths of runs are relative to the
checkpoint, all others absolute.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from mrql.algebra.errors import UserError
from mrql.algebra.values.file_names import as_utf8
from mrql.runtime.files.digests import WrittenFile, digest, fault_of
from mrql.runtime.files.durable import Publication

STATES_FORMAT = 5
"""The version of the format of states in a checkpoint. It is part of the identity of a state."""
FORMAT = 6
"""The version of manifests. Those of version 5 have no lists of files."""
READ_FORMATS = (5, FORMAT)

Json: TypeAlias = Any


@attrs.frozen
class RunFile(WrittenFile):
    """A file of a run."""

    rows: int


@attrs.frozen
class SavedRun:
    """Some rows of a table in a directory of their own, and the batch that has written them."""

    path: str
    batch: int
    files: tuple[RunFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@attrs.frozen
class SavedTable:
    """A table as its runs, oldest first. The meaning of `form` is up to the engine."""

    form: Mapping[str, Json]
    runs: tuple[SavedRun, ...]

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.runs)


@attrs.frozen
class SavedState:
    """What is kept of a stage or a stream: tables by name."""

    name: str
    form: Mapping[str, Json]
    tables: Mapping[str, SavedTable]


@attrs.frozen
class SavedFile:
    """A file that was read, as it was then."""

    path: str
    size: int
    modified: int


@attrs.frozen
class FileList(WrittenFile):
    """A file in the checkpoint that names some of the files that were read. Where there are many, a commit writes only
    the new ones."""

    count: int
    """The number of files that it names."""


@attrs.frozen
class SavedDirectory:
    """The files of a directory that were read, whose rows count with a weight: those in lists, then the others."""

    path: str
    weight: int
    files: tuple[SavedFile, ...]
    lists: tuple[FileList, ...] = ()


@attrs.frozen
class SavedSource:
    """What was read of a source; of a static one, all of it. A source that an adapter reads has an offset."""

    static: bool
    directories: tuple[SavedDirectory, ...]
    offset: Json = None
    row: str | None = None
    """The type of its rows, where that was inferred, with what was left out of it."""
    reading: str | None = None
    """The way in which its files were read when the type was inferred (`reading_of`)."""

    @property
    def is_handed_over(self) -> bool:
        """Whether a program hands its rows over, as DataFrames: nobody else can give them again."""
        return any(directory.path.split(" ")[0] == HANDED_OVER for directory in self.directories)


HANDED_OVER = "dataframe"
"""Stands in place of a directory where a program hands rows over; for a static table, followed by their digest."""


@attrs.frozen
class Manifest:
    """A commit: its batch, and the contents of the checkpoint after it."""

    commit: int
    batch: int
    engine: str
    versions: Mapping[str, str]
    query: str
    sources: Mapping[str, SavedSource]
    states: Mapping[str, SavedState]
    stream: str
    """The id of the stream, the same in all of its commits, by which sinks recognize it."""
    outputs: tuple[str, ...] = ()
    """The places that the answers go to."""
    publications: tuple[Publication, ...] = ()
    quarantines: tuple[str, ...] | None = None
    """The directories that malformed rows were kept in, up to now; None where the version that wrote it did not say."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return manifest_name(self.commit)

    def tables(self) -> Iterator[tuple[SavedState, str, SavedTable]]:
        """All tables with their state and name."""
        for state in self.states.values():
            for name, table in state.tables.items():
                yield state, name, table

    def runs(self) -> Iterator[SavedRun]:
        """All runs that it names."""
        for _, _, table in self.tables():
            yield from table.runs

    def lists(self) -> Iterator[FileList]:
        """All lists of files that it names."""
        for source in self.sources.values():
            for directory in source.directories:
                yield from directory.lists

    def content(self) -> bytes:
        """The manifest as it is written, with its checksum."""
        body = {"format": FORMAT, **attrs.asdict(self, value_serializer=_plain)}
        rest = as_utf8(json.dumps(body, ensure_ascii=False, indent=1).removeprefix("{\n") + "\n")
        return f'{{\n "sha256": "{digest(rest)}",\n'.encode() + rest


def manifest_name(commit: int) -> str:
    """The name of the file of a commit's manifest."""
    return f"manifest-{commit:08d}.json"


def _plain(owner: object, field: attrs.Attribute[Json], value: Json) -> Json:
    if isinstance(owner, SavedDirectory) and field.name == "files":
        return _listed(value)
    return str(value) if isinstance(value, Path) else value


def _listed(files: Iterable[SavedFile]) -> dict[str, list[str]]:
    """The files by directory, a line for each file."""
    found: dict[str, list[str]] = {}
    for file in files:
        directory, name = os.path.split(file.path)
        found.setdefault(directory, []).append(f"{file.size} {file.modified} {name}")
    return found


def _files(listed: Mapping[str, list[str]]) -> Iterator[SavedFile]:
    for directory, lines in listed.items():
        for line in lines:
            size, modified, name = line.split(" ", 2)
            yield SavedFile(os.path.join(directory, name), int(size), int(modified))


def list_content(files: Iterable[SavedFile]) -> bytes:
    """A list of files as it is written."""
    return as_utf8(json.dumps(_listed(files), ensure_ascii=False, indent=1) + "\n")


def read_list(path: Path, written: FileList) -> Iterator[SavedFile]:
    """The files that a list names.

    Raises: UserError where it is gone, or is not what was written.
    """
    if not path.is_file():
        raise UserError(f"{path} is gone, and it names files that were read", hint=PUT_BACK)
    return _files(json.loads(read_written(path, written).decode()))


def read_written(path: Path, written: WrittenFile) -> bytes:
    """The content of a file of a checkpoint.

    Raises: UserError where it is not what was written.
    """
    data = path.read_bytes()
    if (fault := fault_of(written, data)) is not None:
        raise damaged(path, f"it {fault}")
    return data


HEAD = re.compile(rb'\{\n "sha256": "([0-9a-f]{64})",\n')
"""The beginning of a manifest; the checksum is that of all bytes after it."""


def read_manifest(file: Path) -> Manifest:
    """Reads a manifest.

    Raises: UserError where it is damaged, or of a version that is not read here.
    """
    data = file.read_bytes()
    try:
        body = json.loads(data.decode())
        version = body.pop("format")
        del body["sha256"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged(file, NO_MANIFEST) from None
    if version not in READ_FORMATS:
        hint = "start with a new checkpoint, or go on with the version of mrql that has written it"
        read = " and ".join(map(str, READ_FORMATS))
        raise UserError(f"{file} is of format {version}, and this version of mrql reads formats {read}", hint=hint)
    head = HEAD.match(data)
    if head is None:
        raise damaged(file, NO_MANIFEST)
    if digest(data[head.end() :]) != head[1].decode():
        raise damaged(file, "what is in it has another SHA-256 than the one it begins with")
    return _manifest(body)


NO_MANIFEST = "it is not JSON as manifests are"


def damaged(file: Path, why: str, hint: str | None = None) -> UserError:
    """The error for a file of a checkpoint that is not what was written."""
    return UserError(f"{file} is damaged: {why}", hint=hint or PUT_BACK)


PUT_BACK = "put back a copy of it; or start with a new checkpoint, from all data again"


def _manifest(body: dict[str, Json]) -> Manifest:
    body["sources"] = {name: _source(source) for name, source in body["sources"].items()}
    body["states"] = {name: _state(state) for name, state in body["states"].items()}
    body["outputs"] = tuple(body["outputs"])
    body["publications"] = tuple(
        Publication(
            Path(p["hidden"]), Path(p["final"]), p["replaces"], p["waits"], tuple(WrittenFile(**f) for f in p["files"])
        )
        for p in body["publications"]
    )
    body["quarantines"] = None if body.get("quarantines") is None else tuple(body["quarantines"])
    return Manifest(**body)


def _source(body: Json) -> SavedSource:
    directories = tuple(map(_directory, body["directories"]))
    return SavedSource(body["static"], directories, body["offset"], body.get("row"), body.get("reading"))


def _directory(body: Json) -> SavedDirectory:
    lists = tuple(FileList(**part) for part in body.get("lists", ()))
    return SavedDirectory(body["path"], body["weight"], tuple(_files(body["files"])), lists)


def _state(body: Json) -> SavedState:
    return SavedState(body["name"], body["form"], {name: _table(table) for name, table in body["tables"].items()})


def _table(body: Json) -> SavedTable:
    runs = (
        SavedRun(run["path"], run["batch"], tuple(RunFile(**file) for file in run["files"])) for run in body["runs"]
    )
    return SavedTable(body["form"], tuple(runs))
