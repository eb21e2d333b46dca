"""Batches that are repeated because a type was widened or states were lost: the rows of a source that cannot be read
again are in them, once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.values.values import Bag
from mrql.jobs.stream import run_stream
from mrql.runtime.checkpoint.commits import Commits
from mrql.runtime.engine.errors import StatesLost
from mrql.runtime.sources.socket import SocketLines
from mrql.runtime.streaming.stream_loop import Loop
from tests.runtime.checkpoint.streams import Stream, write

TEXT = """
events = stream(json, "events");
lines = stream(socket, "{place}");
(sum(select e.n from e in events), count(lines));
"""
LINES = 6


@contextmanager
def said_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that sends some lines to the first connection, and none to others; opening a source waits for the lines.
    Only one connection may be made."""
    made = SocketLines.__init__

    def patient(self: SocketLines, spec: SourceSpec) -> None:
        made(self, spec)
        until = time.monotonic() + 10
        while len(self.lines) < LINES and not connections[1:]:
            assert time.monotonic() < until
            time.sleep(0.01)

    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return
                if len(connections) == 1:
                    connections[0].sendall(b"line\n" * LINES)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setattr(SocketLines, "__init__", patient)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in connections:
        connection.close()
    assert len(connections) == 1


def states_lost(*_: object) -> None:
    raise StatesLost("an executor was lost")


@pytest.mark.parametrize("wide", [1, 2])
def test_lines_of_a_batch_whose_files_are_of_a_wider_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: int
) -> None:
    """If the second or third batch is repeated for a wider type, each line counts once, and the socket stays open."""
    for number in range(3):
        write(tmp_path / "events" / f"{number}.json", f'{{"n": {0.5 if number == wide else 1}}}\n' * 2000, number)
    with said_once(monkeypatch) as place:
        stream = Stream(tmp_path, TEXT.format(place=place), max_rows=2)
        job = stream.job  # the type is that of the first file
        run_stream(job)
    assert [*stream.answers().values()][-1] == Bag([(5000.0, LINES)])


@pytest.mark.parametrize("kept", [True, False])
def test_lines_of_the_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """If the first batch is repeated, as its first file was not there when the type was found, each line counts once,
    with and without a checkpoint."""
    write(tmp_path / "events" / "1.json", '{"n": 1}\n', 1)
    with said_once(monkeypatch) as place:
        stream = Stream(tmp_path, TEXT.format(place=place), max_rows=2)
        job = stream.job
        write(tmp_path / "events" / "0.json", '{"n": 0.5}\n', 0)
        run_stream(attrs.evolve(job, checkpoint=job.checkpoint if kept else None))
    assert [*stream.answers().values()][-1] == Bag([(1.5, LINES)])


@pytest.mark.parametrize("lost", [{0}, {1}, {1, 2}])
def test_lines_of_a_batch_whose_states_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> None:
    """If a batch is repeated because states were lost, also if that is found at its commit, each line counts once."""
    for number in range(3):
        write(tmp_path / "events" / f"{number}.json", '{"n": 1}\n', number)
    apply, commit = Loop._apply, Commits.commit

    def fails(self: Loop, *given: object) -> object:
        number = 0 if self.commits is None else self.commits.next_batch
        if number in lost:
            lost.remove(number)
            monkeypatch.setattr(Commits, "commit", states_lost)
        try:
            return apply(self, *given)  # type: ignore[arg-type]
        finally:
            monkeypatch.setattr(Commits, "commit", commit)

    with said_once(monkeypatch) as place:
        stream = Stream(tmp_path, TEXT.format(place=place), max_rows=2)
        monkeypatch.setattr(Loop, "_apply", fails)
        stream.run()
    assert not lost
    assert [*stream.answers().values()][-1] == Bag([(3, LINES)])
