"""Processes that commit to a checkpoint, such as `mrql stream --once`, and are killed (`kill -9`) at random moments."""

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
"""The seconds after which a process that has not ended is taken to hang."""


@attrs.define
class KilledProcess(ABC):
    """A process that commits to a checkpoint, and is killed repeatedly."""

    random: Random
    delay: float
    """The maximal time between a commit and the kill, in seconds."""

    patience: ClassVar[float] = PATIENCE
    """The seconds after which it is taken to hang, if it has not ended."""

    @property
    @abstractmethod
    def directory(self) -> Path:
        """The directory of the checkpoint."""

    @property
    @abstractmethod
    def said(self) -> Path:
        """The file that receives its standard error."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts it."""

    def until_done(self, most: int) -> int:
        """Starts and kills the process until it ends by itself, with at most `most` kills; returns the number of
        kills."""
        kills = 0
        while kills < most and self._killed():
            kills += 1
        if kills == most:
            assert self._start().wait(self.patience) == 0, self.said.read_text()
        return kills

    def _killed(self) -> bool:
        """Starts the process and kills it up to three commits later; false if it ends by itself before that."""
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
    """A process of `mrql stream` that runs a stream of the tests."""

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
    """Kills a stream at random moments, and returns the number of kills; its output must be that of an uninterrupted
    run.

    With a server, the stream also writes to a table there, which must hold the answer to all data in the end.
    """
    table = f"killed_{secrets.token_hex(8)}"
    stream.address = None if server is None else server.address(table)
    expected = stream.uninterrupted()
    assert stream.job.query is not None  # this writes the query file
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
    """Whether exactly the files that the kept manifests name are there, each as it was written."""
    manifests = [read_manifest(file) for file in manifest_files(stream.checkpoint)]
    wrong = [fault for manifest in manifests for fault in faults(stream.checkpoint, manifest)]
    named = {stream.checkpoint / run.path for manifest in manifests for run in manifest.runs()}
    aside = [*stream.out.glob(".*"), *stream.checkpoint.glob(".*"), *stream.checkpoint.glob("outbox/*/*")]
    named |= {stream.checkpoint / READ / part.name for manifest in manifests for part in manifest.lists()}
    return not wrong and not aside and {*stream.checkpoint.glob("runs/*/*"), *stream.checkpoint.glob("read/*")} == named
