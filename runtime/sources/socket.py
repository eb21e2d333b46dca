"""Lines of text from a socket, as MRQL and Spark's `socketTextStream` read them: a client of `host:port`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.values.values import Value
from mrql.runtime.sources.source import Offset

PATIENCE_SECONDS = 10.0
"""The time limit for connecting."""


class SocketLines:
    """The lines received from a socket; the offset is the number of lines since the stream began.

    A socket cannot be read again. Lines that are sent while nobody listens are lost, and so are received lines that are
    in no committed batch when the process dies. Lines in a committed batch count exactly once.

    Raises: UserError where the text is not `host:port`, EngineError where nobody answers there.
    """

    replays = False

    def __init__(self, spec: SourceSpec) -> None:
        host, _, port = spec.path.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise UserError(f'"{spec.path}" is not of the form host:port', spec.span)
        self.spec = spec
        self.lines: list[str] = []
        """The lines received after the offset `first`."""
        self.first: int | None = None
        """The last offset that was passed to `latest`."""
        self.fault: str | None = None
        self.lock = threading.Lock()
        try:
            self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        except OSError as error:
            hint = "a server must listen there before the stream starts"
            raise EngineError(f"{spec.path} does not answer: {error.strerror or error}", hint) from None
        self.socket.settimeout(None)
        threading.Thread(target=self._listen, name=f"lines of {spec.path}", daemon=True).start()

    def _listen(self) -> None:
        try:
            with self.socket.makefile("rb") as stream:
                for line in stream:
                    text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                    with self.lock:
                        self.lines.append(text)
        except UnicodeDecodeError:
            self.fault = "a line is not UTF-8"
        except (OSError, ValueError) as error:
            self.fault = str(error)

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Raises: UserError where all lines were read, and then the connection failed or a line was not UTF-8."""
        with self.lock:
            before = start or 0
            if self.first is None:
                self.first = before
            del self.lines[: before - self.first]
            self.first = before
            if not self.lines and self.fault is not None:
                raise UserError(f"{self.spec.path}: {self.fault}", self.spec.span)
            count = len(self.lines) if most is None else min(most, len(self.lines))
            return before + count if count else start

    def read(self, start: Offset, end: Offset) -> Iterator[tuple[Value, int]]:
        """The lines between two offsets, which are kept until `latest` is called with the later one."""
        with self.lock:
            begin = (start or 0) - (self.first or 0)
            found = self.lines[begin : begin + end - (start or 0)]
        yield from ((line, 1) for line in found)

    def close(self) -> None:
        self.socket.close()
