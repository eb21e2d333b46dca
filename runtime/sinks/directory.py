"""A directory for each batch, with its answer in part files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from mrql.algebra.errors import UserError
from mrql.runtime.engine.answer import Answer, Output
from mrql.runtime.files.batch_names import batch_name, batch_number
from mrql.runtime.files.durable import DurableFiles, Publication
from mrql.runtime.files.lock import Lock
from mrql.runtime.sinks.files import write_output
from mrql.runtime.sinks.places import Opening


@attrs.frozen
class DirectoryPlace:
    """A directory that a command names."""

    directory: Path
    is_current: bool = False

    @property
    def known_by(self) -> str:
        return str(self.directory.resolve())

    def open(self, opening: Opening) -> DirectorySink:
        """A sink for the batches after the last one that went there.

        Raises: UserError where there are other batches, another stream writes there, or the files cannot hold such an
            answer.
        """
        output = Output(opening.type, opening.changes, opening.format, opening.span)
        after = opening.last_batch(place_of(self.directory))
        return DirectorySink(self.directory, output, opening.files, opening.suffix, after)


@attrs.define
class DirectorySink:
    """Writes a directory for each batch, which appears as a whole: it is written under another name and then renamed.

    A sink that continues `after` a batch may find the batches up to that one; `suffix` tells the hidden directories of
    this process from those of others. The directory is locked until the sink is closed.

    Raises: UserError where there are other batches, another stream writes there, or the files cannot hold such an
        answer.
    """

    directory: Path
    output: Output
    files: DurableFiles = attrs.Factory(DurableFiles)
    suffix: str = ""
    after: int | None = None
    due: bool = False
    lock: Lock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.output.must_have_a_form()
        self.files.make_directory(self.directory)
        self.lock = Lock.of_directory(self.directory, "--output")
        try:
            self._must_go_on(self.after)
        except BaseException:
            self.lock.close()
            raise

    @property
    def place(self) -> str:
        return place_of(self.directory)

    @property
    def changes(self) -> bool:
        return self.output.changes

    def _must_go_on(self, after: int | None) -> None:
        there = sorted(self.directory.glob("batch-*"))
        if there and after is None:
            raise UserError(f"{self.directory} holds batches already", hint="name another --output, or remove them")
        numbers = {path: batch_number(path.name) for path in there}
        over = [path for path, number in numbers.items() if number is not None and after is not None and number > after]
        if over:
            message = f"{over[0]} is there already, and the checkpoint is at batch {after}"
            raise UserError(message, hint="name another --output, or remove what came after the checkpoint")

    def prepare(self, number: int, answer: Answer) -> Publication:
        """Writes the answer after a batch to a hidden directory."""
        hidden = self.directory / f".{batch_name(number)}{self.suffix}"
        write_output(self.output, answer.changes() if self.changes else answer.snapshot(), hidden, self.files)
        return Publication(hidden, self.directory / batch_name(number))

    def start_anew(self) -> None:
        """Does nothing: each batch has a directory of its own."""

    def hidden(self) -> Iterator[Path]:
        """The hidden directories that were not published."""
        yield from self.directory.glob(".batch-*")

    def close(self) -> None:
        """Releases the directory."""
        self.lock.close()


def place_of(directory: Path) -> str:
    """A directory, as a checkpoint notes it."""
    return str(directory.absolute())
