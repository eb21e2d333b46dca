"""What messages show: no password, and no control character that a terminal would obey."""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import mrql
from mrql.algebra import types as ty
from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.showable import escaped, named, without_passwords, written_name
from mrql.algebra.span import Source, Span
from mrql.algebra.values.value_text import show_value
from mrql.cli.main import main
from mrql.monitoring.logs import logged
from mrql.output.tables import type_name
from mrql.runtime.checkpoint.places import adapted_place
from mrql.runtime.postgresql.address import OURS, is_address, must_be_one, parse_address
from mrql.translate.compile_program import compile_program

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
    "a space": "postgresql://ann:S3CR TXYZ@db/x?table=t&column=c",
    "a quote": "postgresql://ann:S3CR'TXYZ@db/x?table=t&column=c",
    "a double quote": r"postgresql://ann:S3CR\"TXYZ@db/x?table=t&column=c",
    "a line": "postgresql://ann:S3CR\nTXYZ@db/x?table=t&column=c",
    "no host": "postgresql:///ann:S3CRT@db/x?table=t&column=c",
    "no slashes": "postgresql:ann:S3CRT@db/x?table=t&column=c",
    "a key's password": "postgresql://127.0.0.1:1/x?table=t&column=c&sslpassword=S3CRT",
    "quotes": "postgresql://127.0.0.1:1/x?table=t&column=c&password='S3CR TXYZ'",
    "an escaped option": "postgresql://127.0.0.1:1/x?table=t&column=c&passwor%64=S3CRT",
    "another kind": "mysql://ann:S3CRT@db/x?table=t&column=c",
}


SECRET = re.compile("S3CR|TXYZ")


def stream(home: Path, text: str, *more: str) -> Result:
    (home / "q.mrql").write_text(text)
    options = ["--data", str(home), "--engine", "reference", "--once", *more]
    return CliRunner().invoke(main, ["stream", str(home / "q.mrql"), *options], color=True)


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_no_message_has_a_password(tmp_path: Path, address: str) -> None:
    """No message about an output or a source has a password, even if it quotes the query or libpq."""
    (tmp_path / "s").mkdir()
    found = stream(tmp_path, 'select x from x in stream(csv, "s", ",", type(long));', "--output", address)
    assert found.exit_code in (0, 1, 2, 3)
    assert not SECRET.search(found.output), found.output
    text = f'select x.c\nfrom x in stream(postgresql, "{address}", type(<c: long>));'
    for more in ((), ("--log-level", "debug")):
        found = stream(tmp_path, text, *more)
        assert found.exit_code in (1, 3), found.output
        assert not SECRET.search(found.output), found.output


SHOWN = (
    *(["check"], ["explain"], ["explain", "--json"], ["explain", "--passes"], ["explain", "--derivation"]),
    *(["explain", "--graph", "{}/g.svg"], ["run", "--engine", "reference"], ["verify"]),
    ["stream", "--engine", "reference", "--once", "--metrics", "{}/m.json", "--checkpoint", "{}/c"],
)
"""The commands that show a query, or what it reads from; each may leave files."""


@pytest.mark.wide(keep=4)
@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_nothing_that_is_kept_has_a_password(tmp_path: Path, address: str) -> None:
    """No plan, graph, metrics file or checkpoint has a password."""
    query = tmp_path / "q.mrql"
    text = f'select x.c from x in stream(postgresql, "{address}", type(<c: long>)); undefined_here;'
    for written in (text, text.replace(" undefined_here;", "")):
        query.write_text(written)
        for command, *options in SHOWN:
            done = CliRunner().invoke(main, [command, str(query), *(each.format(tmp_path) for each in options)])
            assert done.exit_code in (0, 1, 3), done.output
            assert not SECRET.search(done.output), done.output
    query.unlink()
    for file in (each for each in tmp_path.rglob("*") if each.is_file()):
        assert not SECRET.search(file.read_text(errors="replace")), file


def is_read(address: str) -> bool:
    """Whether an address is accepted, so that a stream notes what it reads from."""
    try:
        must_be_one(address)
    except ValueError:
        return False
    return is_address(address)


@pytest.mark.parametrize("address", [address for address in ADDRESSES.values() if is_read(address)])
def test_what_a_checkpoint_notes_of_a_source(address: str) -> None:
    """The place of a source that `checkpoint show` prints has no password."""
    spec = SourceSpec("s", stream=True, format=ADAPTER, path=address, row=ty.LONG, adapter="postgresql")
    assert not SECRET.search(adapted_place(spec))


@pytest.mark.parametrize(
    "text",
    [
        'postgresql://db:5432/x?table=t: there is no role "ann@home"',
        'x in stream(xml, "http://db:80/x", type(row)), y in x.@z',
        "postgresql://[::1]:5432/x?table=t",
        "postgresql://ann@db:5432/x?table=t",
        "see postgresql://db: connection refused by x@y",
        "select u from u in users where u.has_password = true",
    ],
)
def test_what_is_no_password(text: str) -> None:
    """A port, an `@` after an address, and a name with the word "password" in it are shown."""
    assert text == without_passwords(text)


@pytest.mark.parametrize(
    "text",
    [
        *('"postgresql:' * 40_000, "postgresql:a:" * 40_000, "a:/" * 200_000, "'a:/" * 100_000, "a-" * 400_000),
        *("password='a" * 50_000, "'postgresql://a:b" + "\\'@" * 100_000, "'postgresql://" + "a:" * 100_000 + "'"),
    ],
    ids=lambda text: text[:20],
)
def test_a_long_text_is_looked_through_once(text: str) -> None:
    """Looking for passwords takes time linear in the length of the text."""
    began = time.process_time()
    without_passwords(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("table", OURS)
@pytest.mark.parametrize("schema", ["", "answers."])
def test_tables_of_our_own(table: str, schema: str) -> None:
    """Addresses of the tables that mrql keeps for itself are refused."""
    with pytest.raises(ValueError, match=f"{table} is a table that mrql keeps for itself"):
        parse_address(f"postgresql://db/x?table={schema}{table}")


def test_control_characters_of_data(tmp_path: Path) -> None:
    """A row, a field, a file name and a query cannot move the cursor, ring the bell, or begin a line."""
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
        assert is_tame(done.output), done.output
        assert "\nerror: b" not in done.output


def is_tame(output: str) -> bool:
    """Whether the output has no character that a terminal obeys."""
    return all(character.isprintable() or character in "\n\t" for character in output)


ODD = "a\x1b[2J\x07\x9b\u202e\u2028\U000e0001`\\u0041"


def test_control_characters_of_what_is_printed(tmp_path: Path) -> None:
    """No command prints control characters of a field name, a value or a path."""
    home = tmp_path / ODD
    home.mkdir()
    (home / "r.json").write_text(json.dumps({ODD: ODD, "b": 1}) + "\n")
    (home / "r.xml").write_text("<r><a>\u202e</a></r>", encoding="utf-8")
    inferred = CliRunner().invoke(main, ["infer", str(home / "r.json")], color=True)
    assert is_tame(inferred.output), inferred.output
    query = tmp_path / "q.mrql"
    query.write_text(
        "\n".join(inferred.stdout.splitlines()[:1])
        + f"select x from x in {inferred.stdout.splitlines()[1]};"
        + f'select x.{written_name(ODD)} from x in stream(json, {json.dumps(str(home))}, type(row), deletions("gone"));'
    )
    kept = ["stream", "--engine", "reference", "--once", "--checkpoint", str(tmp_path / "c")]
    for command, *options in (
        *(["check"], ["check", "--format", "json"], ["explain"], ["explain", "--passes"], ["explain", "--json"]),
        *(["run", "--engine", "reference"], ["run", "--engine", "reference", "--format", "json"]),
        *(kept, [*kept, "--format", "json"], ["verify", "--histories", "2"]),
    ):
        done = CliRunner().invoke(main, [command, str(query), *options], color=True)
        assert done.exit_code in (0, 1), done.output
        assert is_tame(done.output), (command, options, done.output)
    for options in ([], ["--format", "json"]):
        done = CliRunner().invoke(main, ["checkpoint", "show", str(tmp_path / "c"), *options], color=True)
        assert is_tame(done.output), done.output


def test_a_field_of_any_name_is_read_as_it_is_written() -> None:
    """A field name as `infer` prints it can be pasted into a query."""
    written = written_name(ODD)
    assert written.isprintable()
    query = compile_program(f"<{written}: 1>.{written}; <{written}: 1>")
    assert evaluate(query.queries[0].term) == 1
    assert query.queries[1].type == ty.RecordType(((ODD, ty.INT),))
    assert type_name(query.queries[1].type) == f"<{written}: int>"
    with pytest.raises(UserError, match="half a surrogate pair"):
        compile_program("<`\\ud800`: 1>")


@given(st.text(alphabet=st.sampled_from("\\u0041`a \x1b\u202e\U000e0001") | st.characters(), min_size=1))
def test_names_are_read_as_they_are_written(name: str) -> None:
    """Any name is read as it is written."""
    written = written_name(name)
    assert written == escaped(written)
    assert name == (named(written[1:-1]) if written.startswith("`") else written)


def test_words_and_pictures_are_shown_whole() -> None:
    """A joiner of Persian letters or of pictures is not a control character."""
    for text in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f468\u200d\U0001f469"):
        assert text == escaped(text)
        assert show_value(text) == f'"{text}"'


def test_commands_print_through_one_function() -> None:
    """No module of the commands calls `click.echo`, which would print control characters."""
    rooms = [Path(mrql.__file__).parent / name for name in ("cli", "shell", "monitoring", "jobs")]
    assert not [file for room in rooms for file in room.rglob("*.py") if "click.echo(" in file.read_text()]


def test_the_caret_stands_under_what_is_meant() -> None:
    """The caret is under its place, even if a character of the line is shown as several."""
    source = Source("q", 'x = "\x1b\x1b" + yy;')
    rendered = UserError("no `yy`", Span(source, 11, 13)).render().splitlines()
    assert rendered[1].index("yy") == rendered[2].index("^")
    assert rendered[2].count("^") == 2
    assert str(EngineError("a\x1b", "b\n")) == "error: a\\x1b\n  hint: b\\n"


def test_what_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of the log have no control characters and no passwords."""
    with logged("info"):
        logging.getLogger("mrql.test").warning("%s of %s", "a\x1b\nb", "postgresql://ann:S3CRT@db")
    assert "a\\x1b\\nb of postgresql://ann:*****@db" in capsys.readouterr().err
