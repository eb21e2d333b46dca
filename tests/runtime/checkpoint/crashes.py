"""`kill -9` at random moments of `mrql stream --once --checkpoint`, as a process of its own, until it is done."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import ClassVar

import attrs

from mrql.algebra.values.values import Bag, close
from mrql.runtime.checkpoint.inspect import faults
from mrql.runtime.checkpoint.manifest import read_manifest
from mrql.runtime.checkpoint.store import READ, manifest_files
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.support.postgresql import Server

PATIENCE = 180
"""After so many seconds without an end a process hangs."""


@attrs.define
class KilledProcess(ABC):
    """A process that commits to a checkpoint, and is killed again and again."""

    random: Random
    delay: float
    """How long after a commit it is killed, in seconds, at most."""

    patience: ClassVar[float] = PATIENCE
    """After so many seconds without an end it hangs."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """The checkpoint."""

    @property
    @abstractmethod
    def said(self) -> Path:
        """What it writes to its standard error."""

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    def until_done(self, most: int) -> int:
        """Starts it again until it has come to its end; it is killed so many times at most. Returns how often."""
        kills = 0
        while kills < most and self._killed():
            kills += 1
        if kills == most:
            assert self._start().wait(self.patience) == 0, self.said.read_text()
        return kills

    def _killed(self) -> bool:
        """Starts it and kills it some commits later; false where it has come to its end before."""
        process = self._start()
        target = self._commits() + self.random.randint(0, 3)
        until = time.monotonic() + self.patience
        while process.poll() is None and self._commits() < target:
            assert time.monotonic() < until, "the process hangs"
            time.sleep(0.002)
        try:
            code = process.wait(self.random.uniform(0, self.delay))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            code = process.wait()
        assert code in (0, -signal.SIGKILL), self.said.read_text()
        return code != 0

    def _start(self) -> subprocess.Popen[str]:
        with self.said.open("w") as said:
            return subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=said, text=True)

    def _commits(self) -> int:
        found = os.listdir(self.directory) if self.directory.exists() else []
        return max((int(name[9:-5]) for name in found if name.startswith("manifest-")), default=0)


@attrs.define
class KilledStream(KilledProcess):
    """`mrql stream` over a stream."""

    stream: Stream

    @property
    def directory(self) -> Path:
        return self.stream.checkpoint

    @property
    def said(self) -> Path:
        return self.stream.home / "stderr"

    def command(self) -> list[str]:
        stream = self.stream
        command = [sys.executable, "-m", "mrql", "stream", str(stream.home / "q.mrql"), "--data", str(stream.home)]
        command += ["--once", "--max-files", str(stream.max_files), "--engine", stream.engine]
        command += [] if stream.max_rows is None else ["--max-rows", str(stream.max_rows), "--allow-import"]
        command += ["--emit", stream.emit.value, "--output", str(stream.out), "--checkpoint", str(stream.checkpoint)]
        return [*command, *([] if stream.address is None else ["--output", stream.address])]


def survives(stream: Stream, random: Random, *, kills: int, delay: float, server: Server | None = None) -> int:
    """Kills a stream at random moments, and returns how often; what it puts out is what it would have without.

    With a server, it keeps a table there, too, which then holds the answer to all of the data.
    """
    table = f"killed_{secrets.token_hex(8)}"
    stream.address = None if server is None else server.address(table)
    expected = stream.uninterrupted()
    assert stream.job.query is not None  # the query is written
    killed = KilledStream(random, delay, stream).until_done(kills)
    found = stream.answers()
    assert list(found) == list(expected)
    wrong = [name for name in expected if found[name] != expected[name]]
    assert not wrong, f"{wrong[0]}: {found[wrong[0]]}, not {expected[wrong[0]]}"
    assert is_whole(stream)
    if server is not None:
        rows = Bag(server.rows(table))
        assert close(rows, batch_answer(stream)), f"{rows}, not {batch_answer(stream)}"
        assert server.rows(f"mrql_streams WHERE table_name = '{table}'")[0][2] == len(expected) - 1
    return killed


def is_whole(stream: Stream) -> bool:
    """Whether what each kept manifest names is there as it was written, and nothing else."""
    manifests = [read_manifest(file) for file in manifest_files(stream.checkpoint)]
    wrong = [fault for manifest in manifests for fault in faults(stream.checkpoint, manifest)]
    named = {stream.checkpoint / run.path for manifest in manifests for run in manifest.runs()}
    aside = [*stream.out.glob(".*"), *stream.checkpoint.glob(".*"), *stream.checkpoint.glob("outbox/*/*")]
    named |= {stream.checkpoint / READ / part.name for manifest in manifests for part in manifest.lists()}
    return not wrong and not aside and {*stream.checkpoint.glob("runs/*/*"), *stream.checkpoint.glob("read/*")} == named
