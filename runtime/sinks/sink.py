"""Sinks: where the answer of each batch goes.

A batch is output in two steps: `prepare` writes its answer out of sight, and `publish` makes it visible. In a stream
with a checkpoint the commit comes between the two: a batch that is not committed never becomes visible, and a committed
one does even if the process dies before it has published it. So the next process may call `publish` again, which must
then leave alone what is already done.
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
        """Directories under hidden names. The commit lists them, and moves them to their places."""

    def publish(self, files: DurableFiles) -> None:
        """Makes it visible; called when the batch is committed, and its publications are in their places."""


class Sink(Protocol):
    """Where the answer of each batch goes."""

    @property
    def place(self) -> str | None:
        """The place that the sink writes to, as a checkpoint notes it; None if its output is not kept."""

    @property
    def changes(self) -> bool:
        """Whether it asks for changes; then they are computed for each batch."""

    @property
    def due(self) -> bool:
        """Whether it needs an answer even if nothing is new: it has none yet, or one that is not the stream's."""

    def prepare(self, number: int, answer: Answer) -> Pending:
        """Writes the answer after a batch; it is complete when this returns, and not visible yet.

        Raises: UserError, EngineError where that cannot be done; the batch is then rolled back.
        """

    def start_anew(self) -> None:
        """Called if the next answer is that of another query: its changes do not follow on what was output before."""

    def hidden(self) -> Iterator[Path]:
        """The hidden files and directories that were not published: an interrupted process has left them."""

    def close(self) -> None:
        """Releases its resources. Output that is prepared and not published is dropped."""


@attrs.frozen
class Passing:
    """A sink that passes the answer of each batch to a function, and keeps nothing."""

    take: Callable[[Answer], None]
    place: None = None
    changes: bool = False
    due: bool = False
    publications: tuple[Publication, ...] = ()

    def prepare(self, number: int, answer: Answer) -> Passing:
        """Passes the answer to the function, which has to read it before it returns."""
        self.take(answer)
        return self

    def publish(self, files: DurableFiles) -> None:
        """Does nothing: there is no output to make visible."""

    def start_anew(self) -> None:
        """Does nothing: no answer is kept."""

    def hidden(self) -> Iterator[Path]:
        """None: there are no hidden files."""
        return iter(())

    def close(self) -> None:
        """Does nothing: there are no resources."""


@attrs.frozen
class Several:
    """Several sinks as one. Each of them gets all committed batches."""

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
        """The places that they write to."""
        return tuple(sink.place for sink in self.sinks if sink.place is not None)

    def prepare(self, number: int, answer: Answer) -> list[Pending]:
        """Writes the answer after a batch to each of them."""
        return [sink.prepare(number, answer) for sink in self.sinks]

    def start_anew(self) -> None:
        """Tells them that the next answer is that of another query."""
        for sink in self.sinks:
            sink.start_anew()

    def hidden(self) -> Iterator[Path]:
        """Their hidden files and directories that were not published."""
        for sink in self.sinks:
            yield from sink.hidden()

    def close(self) -> None:
        """Closes all of them."""
        for sink in self.sinks:
            sink.close()


def publish(pending: Iterable[Pending], files: DurableFiles) -> None:
    """Publishes the output of a batch in a stream without a checkpoint."""
    for one in pending:
        for publication in one.publications:
            publication.publish(files)
        one.publish(files)
