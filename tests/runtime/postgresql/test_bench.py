"""`bench.cdc` on a small scale: its stream follows tables that are written to, and ends with the answer of SQL."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bench import cdc
from tests.support.postgresql import MISSING, binaries


@pytest.mark.slow
@pytest.mark.wide
def test_tables_that_are_written_to() -> None:
    if binaries() is None:
        pytest.skip(MISSING)
    small = ["--scale", "1", "--rate", "300", "--seconds", "5", "--engine", "reference"]
    done = CliRunner().invoke(cdc.main, small, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "equal to SQL" in done.output
