"""Sinks: where the answer of each batch goes.

A batch is put out in two steps. `prepare` writes its answer such that nobody sees it yet; `publish` shows it. In a
stream with a checkpoint the commit stands between the two: a batch that is not committed is never seen, and one that is
committed is seen even if the process dies before it has shown it. So `publish` may be called again by the next process,
and has to leave what it finds done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import attrs

from mrql.runtime.engine.answer import Answer
from mrql.runtime.files.durable import DurableFiles, Publication


class Pending(Protocol):
    """The output of a batch that is not committed yet."""

    @property
    def publications(self) -> tuple[Publication, ...]:
        """Directories that are written aside. The commit names them, and moves them to their places."""

    def publish(self, files: DurableFiles) -> None:
        """Shows it; called when the batch is committed, and its publications are in their places."""


class Sink(Protocol):
    """Where the answer of each batch goes."""

    @property
    def place(self) -> str | None:
        """What the sink writes to, as a checkpoint notes it; None where nothing of it stays."""

    @property
    def changes(self) -> bool:
        """Whether it asks for changes; then they are computed for each batch."""

    @property
    def due(self) -> bool:
        """Whether it needs an answer though there is nothing new: it has none yet, or another than the stream's."""

    def prepare(self, number: int, answer: Answer) -> Pending:
        """Writes the answer after a batch; it is there as a whole when this returns, and not seen.

        Raises: UserError, EngineError where that cannot be done; the batch is then taken back.
        """

    def start_anew(self) -> None:
        """Called where the next answer is that to another query: its changes do not follow on what was put out."""

    def hidden(self) -> Iterator[Path]:
        """What is written aside, and was not published: a process that was cut off has left it."""

    def close(self) -> None:
        """Gives back what it holds. What is prepared and not published is dropped."""


@attrs.frozen
class Passing:
    """A sink that gives the answer of each batch to a function. Nothing of it stays."""

    take: Callable[[Answer], None]
    place: None = None
    changes: bool = False
    due: bool = False
    publications: tuple[Publication, ...] = ()

    def prepare(self, number: int, answer: Answer) -> Passing:
        """Gives it to the function, which has to read it before it returns."""
        self.take(answer)
        return self

    def publish(self, files: DurableFiles) -> None:
        """There is nothing to be seen."""

    def start_anew(self) -> None:
        """Each answer stands by itself."""

    def hidden(self) -> Iterator[Path]:
        """Nothing is written aside."""
        return iter(())

    def close(self) -> None:
        """Nothing is held."""


@attrs.frozen
class Several:
    """Several sinks as one. Each of them has all batches that are committed."""

    sinks: Sequence[Sink]

    @property
    def changes(self) -> bool:
        """Whether one of them asks for changes."""
        return any(sink.changes for sink in self.sinks)

    @property
    def due(self) -> bool:
        """Whether one of them needs an answer."""
        return any(sink.due for sink in self.sinks)

    @property
    def places(self) -> tuple[str, ...]:
        """What they write to."""
        return tuple(sink.place for sink in self.sinks if sink.place is not None)

    def prepare(self, number: int, answer: Answer) -> list[Pending]:
        """Writes the answer after a batch to each of them."""
        return [sink.prepare(number, answer) for sink in self.sinks]

    def start_anew(self) -> None:
        """Tells them that the next answer is that to another query."""
        for sink in self.sinks:
            sink.start_anew()

    def hidden(self) -> Iterator[Path]:
        """What they have written aside."""
        for sink in self.sinks:
            yield from sink.hidden()

    def close(self) -> None:
        """Closes all of them."""
        for sink in self.sinks:
            sink.close()


def publish(pending: Iterable[Pending], files: DurableFiles) -> None:
    """Shows the output of a batch that no checkpoint commits."""
    for one in pending:
        for publication in one.publications:
            publication.publish(files)
        one.publish(files)
