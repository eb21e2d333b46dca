"""`kill -9` at random moments of `mrql stream --once --checkpoint`, as a process of its own, until it is done."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from random import Random

import attrs

from mrql.algebra.values.values import Bag, close
from mrql.runtime.checkpoint.inspect import faults
from mrql.runtime.checkpoint.manifest import read_manifest
from mrql.runtime.checkpoint.store import manifest_files
from tests.runtime.checkpoint.streams import Stream, batch_answer
from tests.support.postgresql import Server

PATIENCE = 180
"""After so many seconds without an end a process hangs."""


@attrs.define
class Killed:
    """A stream that is killed again and again."""

    stream: Stream
    random: Random
    delay: float
    """How long after a commit a process is killed, in seconds, at most."""
    kills: int = 0

    def until_done(self, most: int) -> None:
        """Starts it again until it has come to its end; it is killed so many times at most."""
        assert self.stream.job.query is not None  # the query is written
        while self.kills < most:
            if not self._killed():
                return
            self.kills += 1
        assert self._start().wait(PATIENCE) == 0, (self.stream.home / "stderr").read_text()

    def _killed(self) -> bool:
        """Starts it and kills it some commits later; false where it has come to its end before."""
        process = self._start()
        target = self._commits() + self.random.randint(0, 3)
        until = time.monotonic() + PATIENCE
        while process.poll() is None and self._commits() < target:
            assert time.monotonic() < until, "the stream hangs"
            time.sleep(0.002)
        try:
            code = process.wait(self.random.uniform(0, self.delay))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            code = process.wait()
        assert code in (0, -signal.SIGKILL), (self.stream.home / "stderr").read_text()
        return code != 0

    def _start(self) -> subprocess.Popen[str]:
        stream = self.stream
        command = [sys.executable, "-m", "mrql", "stream", str(stream.home / "q.mrql"), "--data", str(stream.home)]
        command += ["--once", "--max-files", str(stream.max_files), "--engine", stream.engine]
        command += ["--emit", stream.emit.value, "--output", str(stream.out), "--checkpoint", str(stream.checkpoint)]
        command += [] if stream.address is None else ["--output", stream.address]
        with (stream.home / "stderr").open("w") as said:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, text=True)

    def _commits(self) -> int:
        found = os.listdir(self.stream.checkpoint) if self.stream.checkpoint.exists() else []
        return max((int(name[9:-5]) for name in found if name.startswith("manifest-")), default=0)


def survives(stream: Stream, random: Random, *, kills: int, delay: float, server: Server | None = None) -> int:
    """Kills a stream at random moments, and returns how often; what it puts out is what it would have without.

    With a server, it keeps a table there, too, which then holds the answer to all of the data.
    """
    table = f"killed_{secrets.token_hex(8)}"
    stream.address = None if server is None else server.address(table)
    expected = stream.uninterrupted()
    killed = Killed(stream, random, delay)
    killed.until_done(kills)
    found = stream.answers()
    assert list(found) == list(expected)
    wrong = [name for name in expected if found[name] != expected[name]]
    assert not wrong, f"{wrong[0]}: {found[wrong[0]]}, not {expected[wrong[0]]}"
    assert is_whole(stream)
    if server is not None:
        rows = Bag(server.rows(table))
        assert close(rows, batch_answer(stream)), f"{rows}, not {batch_answer(stream)}"
        assert server.rows(f"mrql_streams WHERE table_name = '{table}'")[0][2] == len(expected) - 1
    return killed.kills


def is_whole(stream: Stream) -> bool:
    """Whether what each kept manifest names is there as it was written, and nothing else."""
    manifests = [read_manifest(file) for file in manifest_files(stream.checkpoint)]
    wrong = [fault for manifest in manifests for fault in faults(stream.checkpoint, manifest)]
    named = {stream.checkpoint / run.path for manifest in manifests for run in manifest.runs()}
    aside = [*stream.out.glob(".*"), *stream.checkpoint.glob(".*"), *stream.checkpoint.glob("outbox/*/*")]
    return not wrong and not aside and {*stream.checkpoint.glob("runs/*/*")} == named
