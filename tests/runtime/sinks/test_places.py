"""The argument of `--output`: a directory, an address, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mrql.cli.main import main
from mrql.runtime.sinks.places import place_at

SECRET = "hunter2"
NEITHER = "is neither a directory nor postgresql://… nor delta://…; one of such a name begins with ./"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql:/u:hunter2@host/db?table=t", "begins with postgresql://, and a directory of such a name with ./"),
        ("postgresql:u:hunter2@host/db?table=t", "begins with postgresql://"),
        ("postgres:/u:hunter2@host/db?table=t", "begins with postgres://"),
        ("PostgreSQL://u:hunter2@host/db?table=t", "begins with postgresql://"),
        ("delta:/tmp/hunter2", "begins with delta://"),
        ("delta:hunter2", "begins with delta://"),
        ("postgresql+psycopg://u:hunter2@host/db?table=t", f"postgresql+psycopg://… {NEITHER}"),
        ("mysql://u:hunter2@host/db", f"mysql://… {NEITHER}"),
        ("kafka:/hunter2", f"kafka:/… {NEITHER}"),
        ("file:/hunter2", f"file:/… {NEITHER}"),
        ("s3a:///hunter2", f"s3a:///… {NEITHER}"),
    ],
)
def test_what_is_like_an_address_and_is_none(tmp_path: Path, text: str, message: str) -> None:
    """A text that resembles an address is an error, and no directory; the message does not quote it, as it may have a
    password."""
    (tmp_path / "s").mkdir()
    (tmp_path / "q.mrql").write_text('S = stream(csv, "s", ",", type((long, long))); select x from (x, y) in S;')
    command = ["stream", "--engine", "reference", "--once", str(tmp_path / "q.mrql")]
    done = CliRunner().invoke(main, [*command, "--output", text])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
    assert SECRET not in done.output
    with pytest.raises(ValueError, match="begins with") as caught:
        place_at(text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["out", "./postgresql:/x", "/tmp/delta:/x", "C:/out", "a:b", "2026-01-01T10:00", "out:", ""]
)
def test_paths(text: str) -> None:
    """A name with a colon in it may be a path."""
    assert place_at(text) is None


@pytest.mark.parametrize("option", ["--checkpoint", "--quarantine"])
@pytest.mark.parametrize("text", ["postgresql://u:hunter2@host/db", "delta:/hunter2", "s3://bucket/hunter2"])
def test_other_directories_are_no_addresses(tmp_path: Path, option: str, text: str) -> None:
    """The directories of other options must not be named like addresses."""
    (tmp_path / "q.mrql").write_text("1;")
    done = CliRunner().invoke(main, ["stream", "--malformed", "quarantine", str(tmp_path / "q.mrql"), option, text])
    assert done.exit_code == 2
    assert "… is no directory; one of such a name begins with ./" in " ".join(done.output.split())
    assert SECRET not in done.output
