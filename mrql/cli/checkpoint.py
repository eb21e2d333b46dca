"""The commands over checkpoints: `mrql checkpoint show|verify|compact|release DIR`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mrql.cli.exit_codes import reports_errors
from mrql.output.terminal import say, say_document
from mrql.runtime.checkpoint.consumed import files_read
from mrql.runtime.checkpoint.inspect import committed, compact, faults, reference_writer, unreadable
from mrql.runtime.checkpoint.manifest import FORMAT, Manifest, SavedRun, SavedSource
from mrql.runtime.checkpoint.store import Store
from mrql.runtime.files.lock import Lock
from mrql.runtime.postgresql.change_streams import release
from mrql.runtime.postgresql.slot_notes import SlotNote, slot_notes
from mrql.runtime.sources.arrived import Seen

DIRECTORY = click.argument("directory", type=click.Path(file_okay=False, exists=True, path_type=Path))


@click.group()
def checkpoint() -> None:
    """Show, verify, compact or give up what a stream has kept in a directory."""


@checkpoint.command()
@DIRECTORY
@click.option("--format", "output_format", type=click.Choice(["table", "json"]), default="table", show_default=True)
@reports_errors
def show(directory: Path, output_format: str) -> None:
    """Say what is committed: the batch, tables with their runs, sources with what was consumed, versions."""
    manifest, slots = committed(directory), slot_notes(directory)
    if output_format == "json":
        say_document(document(manifest, directory, slots))
    else:
        say("\n".join([*lines(manifest, directory), *(["", *map(_named, slots)] if slots else [])]))


@checkpoint.command()
@DIRECTORY
@reports_errors
def verify(directory: Path) -> None:
    """Check that each file of the last commit is there, as it was written, and that each table can be read."""
    with _taken(directory) as (store, manifest):
        found = list(faults(store.root, manifest)) or list(unreadable(store.root, manifest))
    for fault in found:
        say(f"error: {fault}", err=True)
    if found:
        say("  hint: put back a copy, or start with a new checkpoint, from all data again", err=True)
        sys.exit(1)
    files = sum(len(run.files) for run in manifest.runs())
    lists = sum(1 for _ in manifest.lists())
    read = f", and {lists} lists of files that were read," if lists else ""
    say(f"batch {manifest.batch}: {files} files of {_runs(manifest)} runs{read} are as they were written")


@checkpoint.command("compact")
@DIRECTORY
@click.option("--master", help="Spark master; a local one by default.")
@reports_errors
def compact_command(directory: Path, master: str | None) -> None:
    """Write each table as one run, and commit that."""
    with _taken(directory) as (store, before), store.told():
        if all(len(table.runs) <= 1 for _, _, table in before.tables()):
            say(f"batch {before.batch}: each table is one run already")
            return
        after = compact(store, before, _writer(store, before, master))
    say(f"batch {after.batch}: {_runs(before)} runs are now {_runs(after)}")


@checkpoint.command("release")
@DIRECTORY
@click.option("--address", help="postgresql://… to connect with, where a password is needed that is not in ~/.pgpass.")
@reports_errors
def release_command(directory: Path, address: str | None) -> None:
    """Drop the replication slots of a stream that is not to go on, so that the server need not keep its log."""
    if not slot_notes(directory):
        committed(directory)  # an error if this is not a checkpoint
        say("the stream has no replication slot")
        return
    with contextlib.closing(Lock.of(directory)):
        for note in slot_notes(directory):
            release(note, directory, address)
            say(f"dropped the slot {note.slot} of {note.stream}")


@contextlib.contextmanager
def _taken(directory: Path) -> Iterator[tuple[Store, Manifest]]:
    """A checkpoint, locked as by a stream, and its last manifest. Nothing is written to a directory without commits."""
    committed(directory)
    with contextlib.closing(Store.open(directory)) as store:
        yield store, committed(directory)


def _named(note: SlotNote) -> str:
    return f"slot {note.slot} of {note.stream} at {note.place}"


def _writer(store: Store, manifest: Manifest, master: str | None) -> Any:
    if manifest.engine == "reference":
        return reference_writer(store.root, store.files)
    from mrql.runtime.spark.checkpoint import spark_writer
    from mrql.runtime.spark.session.session import local_session

    return spark_writer(local_session(master), store.root, store.files)


def _runs(manifest: Manifest) -> int:
    return sum(1 for _ in manifest.runs())


# --- output -------------------------------------------------------------------------------------


def lines(manifest: Manifest, root: Path) -> list[str]:
    """A manifest as text, for people."""
    versions = ", ".join(f"{name} {number}" for name, number in sorted(manifest.versions.items()))
    shown = [
        f"batch {manifest.batch}, commit {manifest.commit}",
        f"engine {manifest.engine}; format {FORMAT}, {versions}",
    ]
    shown += ["", "sources"]
    shown += [f"  {name}: {_consumed(source, root)}" for name, source in sorted(manifest.sources.items())]
    shown += ["", "states"]
    for identity, state in manifest.states.items():
        shown.append(f"  {state.name} ({identity})")
        for name, table in state.tables.items():
            shown.append(f"    {name}: {_size(table.runs)}")
            shown += [f"      batch {run.batch}: {run.rows:,} rows, {run.bytes:,} bytes" for run in table.runs]
    if manifest.outputs:
        shown += ["", *(f"output {place}" for place in manifest.outputs)]
    return shown


def _files(source: SavedSource, root: Path) -> dict[str, Seen]:
    """All files of a source that were read."""
    return {file: seen for directory in source.directories for file, seen in files_read(root, directory).items()}


def _consumed(source: SavedSource, root: Path) -> str:
    what = "table" if source.static else "stream"
    if source.is_handed_over:
        digest = source.directories[0].path.partition(" ")[2]
        reached = "" if source.offset is None else f", up to {json.dumps(source.offset)}"
        return f"{what}, fed by a program{reached}" if not digest else f"{what}, a DataFrame, {digest}"
    if isinstance(source.offset, dict) and "slot" in source.offset:
        return f"{what}, slot {source.offset['slot']} at {source.offset['lsn']}, of {source.directories[0].path}"
    if source.offset is not None:
        return f"{what}, up to {json.dumps(source.offset)}, of {source.directories[0].path}"
    files = _files(source, root)
    read = f"{len(files):,} files, {sum(seen.size for seen in files.values()):,} bytes"
    return f"{what}, {read}, of {', '.join(directory.path for directory in source.directories)}"


def _size(runs: tuple[SavedRun, ...]) -> str:
    rows, size = sum(run.rows for run in runs), sum(run.bytes for run in runs)
    return f"{rows:,} rows, {size:,} bytes in {len(runs)} run{'' if len(runs) == 1 else 's'}"


def document(manifest: Manifest, root: Path, slots: Sequence[SlotNote] = ()) -> dict[str, Any]:
    """A manifest as JSON, for programs."""
    tables = [
        {
            "state": state.name,
            "table": name,
            "runs": [{"path": r.path, "batch": r.batch, "rows": r.rows, "bytes": r.bytes} for r in table.runs],
        }
        for state, name, table in manifest.tables()
    ]
    sources = {
        name: [{"path": file, "size": seen.size} for file, seen in _files(source, root).items()]
        for name, source in manifest.sources.items()
    }
    return {
        "batch": manifest.batch,
        "commit": manifest.commit,
        "engine": manifest.engine,
        "format": FORMAT,
        "versions": dict(manifest.versions),
        "sources": sources,
        "offsets": {name: source.offset for name, source in manifest.sources.items() if source.offset is not None},
        "tables": tables,
        "outputs": list(manifest.outputs),
        **({"slots": [{"name": n.slot, "stream": n.stream, "place": n.place} for n in slots]} if slots else {}),
    }
