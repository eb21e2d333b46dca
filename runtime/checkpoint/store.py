"""A checkpoint on disk: `manifest-NNNNNNNN.json`, the runs that manifests name under `runs/`, the name of the last
manifest in `committed`, and a lock.

The order of a commit is in docs/checkpoints.md. Each process writes under names of its own, so that the Java process
of one that was killed cannot affect the files of its successor, even if it is still writing.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import attrs

from mrql.algebra.errors import EngineError, UserError
from mrql.runtime.checkpoint import policy
from mrql.runtime.checkpoint.manifest import (
    PUT_BACK,
    FileList,
    Manifest,
    RunFile,
    SavedFile,
    SavedRun,
    damaged,
    list_content,
    manifest_name,
    read_manifest,
)
from mrql.runtime.files.digests import WrittenFile, digest
from mrql.runtime.files.durable import DiskFull, DurableFiles, Publication, is_full, of_files
from mrql.runtime.files.lock import NAME as LOCK
from mrql.runtime.files.lock import Lock
from mrql.runtime.postgresql.slot_notes import SLOTS
from mrql.runtime.sources.rows_file import INCOMING

logger = logging.getLogger(__name__)

RUNS = "runs"
READ = "read"
"""The directory of the lists of files that were read, where these are many."""
OUTBOX = "outbox"
"""The directory of output for databases, from the commit of its batch until it is delivered."""
COPIES = "copies"
"""The directory of copies of the files that were read, if files may change."""
STREAMING = "streaming"
"""The directory of what Spark keeps of the streaming queries that feed a view."""
COMMITTED = "committed"
"""The file with the name of a committed manifest: the last one, or the one before it."""
MANIFEST = re.compile(r"manifest-(\d{8,})\.json")


ASIDE = (".manifest-", f".{COMMITTED}-")
"""The prefixes of the names of files that are written aside, and then renamed into place."""


def manifest_files(root: Path) -> list[Path]:
    """The manifests of a checkpoint, the newest first."""
    found = (file for file in root.iterdir() if MANIFEST.fullmatch(file.name))
    return sorted(found, key=_number, reverse=True)


def _number(file: Path) -> int:
    """The number of a manifest's commit."""
    named = MANIFEST.fullmatch(file.name)
    assert named is not None
    return int(named[1])


def noted(root: Path) -> int:
    """The number of the last commit, or of the one before it, by which a removed manifest is detected; 0 without any.

    Raises: UserError where the file that has it is not what was written.
    """
    file = root / COMMITTED
    try:
        name, _, found = file.read_text(encoding="utf-8").partition(" ")
    except FileNotFoundError:
        return 0
    except UnicodeDecodeError:
        name, found = "", ""
    if MANIFEST.fullmatch(name) is None or found != f"{digest(name.encode())}\n":
        raise damaged(file, "it is no name of a manifest with its SHA-256", f"remove it, or {PUT_BACK}")
    return _number(Path(name))


def latest(root: Path, hint: str = "name a new directory") -> Manifest | None:
    """What a checkpoint has committed last; None where nothing was. `hint` is for a directory that is no checkpoint.

    Raises: UserError where the directory holds something else, or the manifest cannot be read.
    """
    if not root.is_dir():
        return None
    number = noted(root)
    files = manifest_files(root)
    if number > (_number(files[0]) if files else 0):
        raise UserError(f"{root / manifest_name(number)} is gone, and it was committed", hint=PUT_BACK)
    if files:
        return read_manifest(files[0])
    ours = (LOCK, RUNS, READ, OUTBOX, COPIES, STREAMING, INCOMING, SLOTS)
    strange = [p for p in root.iterdir() if p.name not in ours and not p.name.startswith(ASIDE)]
    if strange:
        raise UserError(f"{root} is not a checkpoint: it holds {sorted(strange)[0].name}", hint=hint)
    return None


@attrs.define
class Store:
    """A checkpoint that this process alone writes to."""

    root: Path
    files: DurableFiles
    lock: Lock
    manifest: Manifest | None
    kept: list[Manifest] = attrs.Factory(list)
    """The manifests that are kept, the newest first."""
    token: str = attrs.Factory(lambda: secrets.token_hex(4))
    """A part of the names of what this process writes."""
    stream: str = attrs.field(init=False)
    """The id of the stream."""

    def __attrs_post_init__(self) -> None:
        self.stream = secrets.token_hex(16) if self.manifest is None else self.manifest.stream

    @staticmethod
    def open(root: Path, files: DurableFiles | None = None) -> Store:
        """Locks a checkpoint, a new one where there is none, and finishes the commit that was under way, if one was.

        Raises: UserError where another process has it, or it cannot be read.
        """
        files = files or DurableFiles()
        with opening(root):
            latest(root)
            files.make_directory(root)
            files.sync(root.absolute().parent)
            lock = Lock.of(root)
            try:
                store = Store(root, files, lock, latest(root))
                store.recover()
            except BaseException:
                lock.close()
                raise
        return store

    def recover(self) -> None:
        """Publishes what is committed, and removes what is not; what is written from now on has new names."""
        self.token = secrets.token_hex(4)
        if self.manifest is not None:
            for publication in self.manifest.publications:
                _must_be_whole(publication, self.manifest)
                publication.publish(self.files)
            self.kept = [self.manifest, *_readable(manifest_files(self.root)[1 : policy.KEPT_MANIFESTS])]
            if noted(self.root) != self.manifest.commit:
                self._note(self.manifest)
        self.clean()

    # --- runs ---------------------------------------------------------------------------------

    @property
    def next_commit(self) -> int:
        return 1 if self.manifest is None else self.manifest.commit + 1

    def write_run(self, table: str, batch: int, write: Callable[[Path], dict[str, int]]) -> SavedRun:
        """Writes a run: `write` fills its directory, and returns the number of rows of each file."""
        name = f"{RUNS}/{table}/{batch:06d}-{self.next_commit:06d}-{self.token}"
        directory = self.root / name
        is_new = not directory.parent.exists()
        self.files.make_directory(directory.parent)
        rows = write(directory)
        self.files.sync_tree(directory)
        if is_new:
            self.files.sync(directory.parent.parent)
            self.files.sync(self.root)
        return SavedRun(name, batch, tuple(_described(directory / file, n) for file, n in sorted(rows.items())))

    def write_list(self, files: Sequence[SavedFile]) -> FileList:
        """Writes a list of files that were read."""
        directory, data = self.root / READ, list_content(files)
        if not directory.exists():
            self.files.make_directory(directory)
            self.files.sync(self.root)
        name = f"{self.next_commit:06d}-{secrets.token_hex(4)}-{self.token}.json"
        self.files.write(directory / name, data)
        self.files.sync(directory / name)
        self.files.sync(directory)
        return FileList(name, len(data), digest(data), len(files))

    # --- commits ------------------------------------------------------------------------------

    def commit(self, manifest: Manifest) -> None:
        """Commits a manifest: from its rename on, everything that it names counts."""
        self.lock.must_hold()
        path = self.root / manifest.name
        self.files.put(path, manifest.content(), path.with_name(f".{manifest.name}-{self.token}"))
        self.manifest = manifest
        self._note(manifest)
        logger.debug("commit %d: batch %d, %d runs", manifest.commit, manifest.batch, sum(1 for _ in manifest.runs()))
        dropped = self.kept[policy.KEPT_MANIFESTS - 1 :]
        self.kept = [manifest, *self.kept[: policy.KEPT_MANIFESTS - 1]]
        for publication in manifest.publications:
            publication.publish(self.files)
        self._drop(dropped)

    def _note(self, manifest: Manifest) -> None:
        """Records the name of a committed manifest."""
        line = f"{manifest.name} {digest(manifest.name.encode())}\n"
        self.files.put(self.root / COMMITTED, line.encode(), self.root / f".{COMMITTED}-{self.token}")

    def _drop(self, dropped: Iterable[Manifest]) -> None:
        """Removes manifests, and what only they name."""
        needed = self._needed()
        for manifest in dropped:
            self.files.remove(self.root / manifest.name)
            for path in _named_by(manifest):
                if path not in needed:
                    self.files.remove(self.root / path)

    def clean(self) -> None:
        """Removes all that no kept manifest names: leftovers of interrupted writes, and what a commit did not remove.

        Raises: UserError where there is something else among the runs.
        """
        keep = {manifest.name for manifest in self.kept}
        for file in self.root.iterdir():
            if file.name.startswith(ASIDE) or (MANIFEST.fullmatch(file.name) and file.name not in keep):
                self.files.remove(file)
        needed = self._needed()
        for directory in sorted((self.root / RUNS).glob("*")):
            if not directory.is_dir():
                message = f"{directory} is no directory of runs: nothing else is kept in {directory.parent}"
                raise UserError(message, hint="move it elsewhere")
            for run in sorted(directory.iterdir()):
                if f"{RUNS}/{directory.name}/{run.name}" not in needed:
                    self.files.remove(run)
            if not any(directory.iterdir()):
                self.files.remove(directory)
        for file in sorted((self.root / READ).glob("*")):
            if f"{READ}/{file.name}" not in needed:
                self.files.remove(file)

    def _needed(self) -> set[str]:
        return {path for manifest in self.kept for path in _named_by(manifest)}

    @property
    def continues(self) -> str:
        """What is committed, and how to go on."""
        return _continues(self.manifest)

    def told(self) -> AbstractContextManager[None]:
        """Turns errors with files in a block into one message, which says which batch is committed."""
        return told(self.root, lambda: self.manifest)

    def close(self) -> None:
        """Releases the checkpoint."""
        self.lock.close()


def _named_by(manifest: Manifest) -> Iterator[str]:
    """The runs and the lists of files that a manifest names."""
    yield from (run.path for run in manifest.runs())
    yield from (f"{READ}/{part.name}" for part in manifest.lists())


def _readable(files: Iterable[Path]) -> Iterator[Manifest]:
    """The earlier manifests that can be read; nothing depends on one that is damaged."""
    for file in files:
        try:
            yield read_manifest(file)
        except UserError as error:
            logger.warning("%s; nothing rests on it, and it is removed", error.message)


def _described(file: Path, rows: int) -> RunFile:
    found = WrittenFile.of(file)
    return RunFile(found.name, found.bytes, found.sha256, rows)


def _must_be_whole(publication: Publication, manifest: Manifest) -> None:
    """Compares a publication to what was committed. What is published already belongs to its readers, who may change
    it: a difference is logged. What is still to be published must be as it was committed.

    Raises: UserError, naming the first file that is not.
    """
    for file, fault in publication.faults():
        if not publication.is_out:
            raise damaged(file, f"it {fault}", publication.hint)
        logger.warning("%s is not as batch %d has put it out: it %s", file, manifest.batch, fault)


@contextmanager
def told(root: Path, committed: Callable[[], Manifest | None]) -> Iterator[None]:
    """Turns errors with files into one message, which says which batch is committed.

    Raises: EngineError, as it is no fault of the query or its data.
    """
    try:
        yield
    except BrokenPipeError:  # the reader of the answers is gone
        raise
    except DiskFull as error:
        raise _disk_full(root, committed()) from error
    except EngineError as error:
        hints = [hint for hint in (error.hint, _continues(committed())) if hint]
        error.hint = "; ".join(hints)
        raise
    except OSError as error:
        elsewhere = error.filename is not None and not Path(error.filename).absolute().is_relative_to(root.absolute())
        if elsewhere:
            raise of_files(error, _continues(committed())) from error
        if is_full(error):
            raise _disk_full(root, committed()) from error
        raise EngineError(f"a commit to {root} failed: {of_files(error).message}", _continues(committed())) from error


@contextmanager
def opening(root: Path) -> Iterator[None]:
    """Turns errors with files into one that says that a checkpoint cannot be opened; what it holds is unknown then.

    Raises: EngineError.
    """
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise _disk_full(root, None) from error
        raise EngineError(f"the checkpoint {root} cannot be opened: {of_files(error).message}") from error


def _disk_full(root: Path, manifest: Manifest | None) -> EngineError:
    return DiskFull(f"no space is left on the disk for a commit to {root}", f"make room; {_continues(manifest)}")


def _continues(manifest: Manifest | None) -> str:
    if manifest is None:
        return "nothing is committed yet, and the next start is from the beginning"
    return f"batch {manifest.batch} is committed, and the next start goes on after it"
