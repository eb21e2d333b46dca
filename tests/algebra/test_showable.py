"""What messages show: no password, and no control character that a terminal would obey."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.span import Source, Span
from mrql.cli.main import main
from mrql.monitoring.logs import logged
from mrql.runtime.postgresql.address import OURS, parse_address

ADDRESSES = {
    "a bad escape": "postgresql://ann:S3CR%zzT@db/x?table=t&column=c",
    "an escaped NUL": "postgresql://ann:S3CR%00T@db/x?table=t&column=c",
    "a slash": "postgresql://ann:S3CR/T@db/x?table=t&column=c",
    "a question mark": "postgresql://ann:S3CR?T@db/x?table=t&column=c",
    "a number sign": "postgresql://ann:S3CR#T@db/x?table=t&column=c",
    "a bracket": "postgresql://ann:S3CR[T@db/x?table=t&column=c",
    "what is no letter": "postgresql://ann:S3CR\u2100T@db/x?table=t&column=c",
    "no table": "postgresql://ann:S3CRT@db/x?column=c",
    "no user": "postgresql://ann:S3CRT/x?table=t&column=c",
    "a wrong option": "postgresql://ann:S3CRT@127.0.0.1:1/x?table=t&column=c&wrong=1",
    "nobody there": "postgresql://ann:S3CRT@127.0.0.1:1/x?table=t&column=c",
    "an option": "postgresql://127.0.0.1:1/x?table=t&column=c&password=S3CRT&user=ann",
    "another kind": "mysql://ann:S3CRT@db/x?table=t&column=c",
}


def stream(home: Path, text: str, *more: str) -> Result:
    (home / "q.mrql").write_text(text)
    options = ["--data", str(home), "--engine", "reference", "--once", *more]
    return CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options])


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_no_message_has_a_password(tmp_path: Path, address: str) -> None:
    """Neither of an output, nor of a source, whose line is quoted; nor what libpq says of it."""
    (tmp_path / "s").mkdir()
    found = stream(tmp_path, 'select x from x in stream(csv, "s", ",", type(long));', "--output", address)
    assert found.exit_code != 0
    assert "S3CR" not in found.output, found.output
    text = f'select x.c\nfrom x in stream(postgresql, "{address}", type(<c: long>));'
    for more in ((), ("--log-level", "debug")):
        found = stream(tmp_path, text, *more)
        assert found.exit_code in (1, 3), found.output
        assert "S3CR" not in found.output, found.output
    for command in ("check", "explain"):
        done = CliRunner().invoke(main, [command, str(tmp_path / "q.mrql")])
        assert "S3CR" not in done.output, done.output


@pytest.mark.parametrize("table", OURS)
@pytest.mark.parametrize("schema", ["", "answers."])
def test_tables_of_our_own(table: str, schema: str) -> None:
    """Nobody else writes to the table that says which stream keeps which one."""
    with pytest.raises(ValueError, match=f"{table} is a table that mrql keeps for itself"):
        parse_address(f"postgresql://db/x?table={schema}{table}")


def test_control_characters_of_data(tmp_path: Path) -> None:
    """A row, a field, a file name and a query cannot move the cursor, ring, or begin a line of their own."""
    odd = "\x1b[2J\x07\u202e\u2028\x9b"
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / f"a{odd}\nerror: b.csv").write_text(f"1\n\tx{odd}\n", encoding="utf-8")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "t.json").write_text(f'{{"a\\u001b\\u202e{odd[3:5]}": 1}}\n', encoding="utf-8")
    texts = (
        'select x from x in stream(csv, "s", ",", type(long));',
        f"select x from x in\t'{odd}' + 1;",
        'stream(json, "t", type(<a: long>));',
        f'import "{odd}";',
    )
    for text in texts:
        done = stream(tmp_path, text, "--allow-import")
        assert done.exit_code == 1, done.output
        assert not [character for character in done.output if character not in "\n\t" and not character.isprintable()]
        assert "\nerror: b" not in done.output


def test_the_caret_stands_under_what_is_meant() -> None:
    """Also where a character of the line is shown as several."""
    source = Source("q", 'x = "\x1b\x1b" + yy;')
    rendered = UserError("no `yy`", Span(source, 11, 13)).render().splitlines()
    assert rendered[1].index("yy") == rendered[2].index("^")
    assert rendered[2].count("^") == 2
    assert str(EngineError("a\x1b", "b\n")) == "error: a\\x1b\n  hint: b\\n"


def test_what_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """File names, and whatever else stands in a line of the log."""
    with logged("info"):
        logging.getLogger("mrql.test").warning("%s of %s", "a\x1b\nb", "postgresql://ann:S3CRT@db")
    assert "a\\x1b\\nb of postgresql://ann:*****@db" in capsys.readouterr().err
