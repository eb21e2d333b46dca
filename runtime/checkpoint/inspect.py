"""Reads, checks and compacts a checkpoint without the query that has written it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pyarrow.parquet as pq

from mrql.algebra.errors import MrqlError, UserError
from mrql.runtime.checkpoint.lines import read_lines, write_lines
from mrql.runtime.checkpoint.manifest import Manifest, SavedState, SavedTable
from mrql.runtime.checkpoint.store import COPIES, READ, Store, latest
from mrql.runtime.files import digests
from mrql.runtime.files.digests import WrittenFile
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sources.file_archive import Copies

Write = Callable[[Path], dict[str, int]]
"""Fills the directory of a run, and returns the number of rows of each file."""


NAMED_BY_A_STREAM = "a checkpoint is the directory that `mrql stream --checkpoint DIR`, or a view, keeps its states in"


def committed(root: Path) -> Manifest:
    """The manifest that a checkpoint has committed last.

    Raises: UserError where there is none, or it cannot be read.
    """
    manifest = latest(root, hint=NAMED_BY_A_STREAM)
    if manifest is None:
        raise UserError(f"{root} is not a checkpoint: nothing was committed to it", hint=NAMED_BY_A_STREAM)
    return manifest


# --- checking -----------------------------------------------------------------------------------


def faults(root: Path, manifest: Manifest) -> Iterator[str]:
    """The faults of the files that a manifest names, and of copies; none where each is as it was written."""
    named: list[tuple[Path, WrittenFile]] = [(root / run.path, file) for run in manifest.runs() for file in run.files]
    named += [(root / READ, part) for part in manifest.lists()]
    for path, fault in digests.faults(named):
        yield f"{path.relative_to(root)} {fault}"
    for publication in manifest.publications:
        for path, fault in publication.faults():
            yield f"{path}, which batch {manifest.batch} has put out, {fault}"
    yield from Copies(root / COPIES).faults()


def unreadable(root: Path, manifest: Manifest) -> Iterator[str]:
    """The tables that cannot be read as a whole."""
    for state, name, table in manifest.tables():
        try:
            _read_all(root, table, manifest.engine)
        except (ValueError, KeyError, OSError, MrqlError) as error:
            yield f"{state.name}, table {name}: {error}"


def _read_all(root: Path, table: SavedTable, engine: str) -> None:
    if engine == "reference":
        read_lines(table, root)
        return
    columns = [field["name"] for field in table.form["schema"]["fields"]]
    for run in table.runs:
        for file in run.files:
            found = pq.read_table(root / run.path / file.name, page_checksum_verification=True).column_names
            if found != columns:
                raise ValueError(f"{run.path}/{file.name} has the columns {', '.join(found)}, not {', '.join(columns)}")


# --- compacting ---------------------------------------------------------------------------------


def compact(store: Store, manifest: Manifest, writer: Callable[[SavedTable], Write]) -> Manifest:
    """Commits a checkpoint in which each table is one run, and returns its manifest.

    `writer` says how all of a table is written.
    """

    def merged(table: SavedTable, name: str) -> SavedTable:
        if len(table.runs) <= 1:
            return table
        return attrs.evolve(table, runs=(store.write_run(name, manifest.batch, writer(table)),))

    def state(identity: str, saved: SavedState) -> SavedState:
        tables = {name: merged(table, f"{identity}-{name}") for name, table in saved.tables.items()}
        return attrs.evolve(saved, tables=tables)

    states = {identity: state(identity, saved) for identity, saved in manifest.states.items()}
    whole = attrs.evolve(manifest, commit=store.next_commit, states=states)
    store.commit(whole)
    return whole


def reference_writer(root: Path, files: DurableFiles) -> Callable[[SavedTable], Write]:
    """A writer of whole tables of the reference engine."""
    return lambda table: lambda directory: write_lines(read_lines(table, root), directory, files)
