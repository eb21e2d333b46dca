"""Answers written to the place that a query names: a directory of part files.

It replaces the one that an earlier run has written, and is visible as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs

from mrql.algebra.catalog import SinkSpec
from mrql.algebra.errors import UserError
from mrql.runtime.engine.answer import Answer, Output, Rows
from mrql.runtime.files.batch_names import batch_name
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.files import is_ours, write_output
from mrql.runtime.sources.formats.file_format import file_format

PLACE = "directory in the query"


def write(target: SinkSpec, rows: Rows) -> None:
    """Writes an answer.

    Raises: UserError where something else is in the way, another query writes there, or a value cannot be written in
        the format.
    """
    _must_be_free(target)
    hidden, aside = (target.path.with_name(f".{target.path.name}.{what}") for what in ("writing", "replaced"))
    target.path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(Lock.beside(target.path, PLACE)):
        _tidy_up(target.path, hidden, aside)  # an earlier run may have been cut off
        try:
            _write_rows(target, rows, hidden, DurableFiles())
            if target.path.exists():
                target.path.rename(aside)
            hidden.rename(target.path)
        finally:
            _tidy_up(target.path, hidden, aside)


def _tidy_up(path: Path, hidden: Path, aside: Path) -> None:
    """Puts back the directory that was moved aside, if nothing has replaced it, and removes what is left over."""
    if aside.exists() and not path.exists():
        aside.rename(path)
    for old in (hidden, aside):
        shutil.rmtree(old, ignore_errors=True)


def _must_be_free(target: SinkSpec) -> None:
    """Checks that the directory to replace was written by a query, and contains nothing else.

    Raises: UserError where something else is there.
    """
    path = target.path
    if path.is_symlink() or (path.exists() and not is_ours(path)):
        hint = "remove it, or name another directory"
        raise UserError(f"{path} is there already, and was not written by a query", target.span, hint)


def _write_rows(target: SinkSpec, rows: Rows, directory: Path, files: DurableFiles) -> None:
    output = Output(target.type, changes=False, format=file_format(target.format), span=target.span)
    write_output(output, rows, directory, files)


@attrs.frozen
class TargetSink:
    """Writes the answer after each batch to the place that the query names, which it locks until it is closed."""

    target: SinkSpec
    files: DurableFiles
    suffix: str
    lock: Lock

    @staticmethod
    def instead_of(
        target: SinkSpec, *, named: bool, changes: bool, files: DurableFiles | None = None, suffix: str = ""
    ) -> TargetSink:
        """The sink of a query that itself names the place of its answer.

        Raises: UserError where the command names one, too, or asks for changes, or another query writes there.
        """
        if named or changes:
            option = "--output" if named else "--emit changes"
            raise UserError(f"the query writes its answer to {target.path}", target.span, f"leave out {option}")
        files = files or DurableFiles()
        files.make_directory(target.path.parent)
        return TargetSink(target, files, suffix, Lock.beside(target.path, PLACE))

    place: None = None
    changes: bool = False
    due: bool = False

    def prepare(self, number: int, answer: Answer) -> Publication:
        """Writes the answer after a batch to a hidden directory.

        Raises: UserError where something else is in the way, or a value cannot be written in the format.
        """
        path = self.target.path
        _must_be_free(self.target)
        hidden = path.with_name(f".{path.name}.{batch_name(number)}{self.suffix}")
        _write_rows(self.target, answer.snapshot(), hidden, self.files)
        return Publication(hidden, path, replaces=True)

    def start_anew(self) -> None:
        """Does nothing: each answer replaces the one before."""

    def hidden(self) -> Iterator[Path]:
        """The hidden directories that were not published."""
        yield from self.target.path.parent.glob(f".{self.target.path.name}.batch-*")

    def close(self) -> None:
        """Releases the place."""
        self.lock.close()
