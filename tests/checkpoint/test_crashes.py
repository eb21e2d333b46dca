"""Streams that are killed: every batch is there once, and each answer is what it would have been."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mrql.algebra.values import close
from mrql.runtime.stream import Emit
from tests.checkpoint.crashes import survives
from tests.checkpoint.streams import Stream, batch_answer, fill
from tests.postgresql import Server

BATCHES = 60


@pytest.mark.slow
@pytest.mark.parametrize("emit", Emit)
def test_kills_of_the_reference_engine(tmp_path: Path, postgresql: Server, emit: Emit) -> None:
    """Sixty batches with deletions, killed ten times and more in each way to put answers out, with a directory and a
    table; a state is larger than what is written whole. `make soak` kills two hundred times in a round."""
    fill(tmp_path, BATCHES, Random(1), first=1200)
    stream = Stream(tmp_path, emit=emit)
    # The name of the table is drawn too: each way has one of its own on the server that all tests share.
    kills = survives(stream, Random(emit.value), kills=12, delay=0.2, server=postgresql)
    assert kills >= 10
    assert len(stream.answers()) == BATCHES
    if emit is Emit.SNAPSHOT:
        assert close(stream.answers()[f"batch-{BATCHES - 1:06d}"], batch_answer(stream))


@pytest.mark.spark
@pytest.mark.slow
def test_kills_of_spark(tmp_path: Path) -> None:
    """The same on Spark, once: one is started before it and one after it."""
    fill(tmp_path, 8, Random(3), first=1200)
    assert survives(Stream(tmp_path, engine="spark"), Random(4), kills=1, delay=2) == 1
