"""The parse tables of a grammar are cached across runs, and nothing depends on the cache."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lark import Lark

from mrql.algebra.errors import UserError
from mrql.parser import parser, table_cache
from mrql.parser.grammar import grammar
from mrql.parser.lexer import BracketFilter
from mrql.parser.table_cache import cache_directory, cached_parser

GRAMMAR = 'start: "a"+ [/b/]'


def load(text: str = GRAMMAR) -> Lark:
    return cached_parser("test", text, BracketFilter(), lexer="contextual", start=["start"])


def is_understood(text: str, with_grammar: str = GRAMMAR) -> bool:
    return load(with_grammar).parse(text).data == "start"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "mrql"
    monkeypatch.setattr(table_cache, "cache_directory", lambda: path)
    return path


def never_again(*_: object) -> None:
    raise AssertionError("the grammar is read again")


def test_tables_are_worked_out_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second load takes the tables from the cache, without reading the grammar."""
    assert is_understood("aab")
    monkeypatch.setattr("lark.lark.load_grammar", never_again)
    assert is_understood("aab")


def test_only_the_tables_are_left(directory: Path) -> None:
    """Grammars of one name have one file in the cache, in a directory for this user only."""
    load()
    load('start: "c"')
    assert len(list(directory.iterdir())) == 1
    if sys.platform != "win32":
        assert directory.stat().st_mode & 0o777 == 0o700


def test_another_grammar_has_other_tables(directory: Path) -> None:
    """A changed grammar takes effect at once."""
    assert is_understood("aab")
    assert is_understood("c", 'start: "c"')
    assert is_understood("aab")


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:10], lambda b: b[:-1], lambda b: b[:-1] + b"?"])
def test_damaged_tables_are_replaced(
    directory: Path, damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged file is not used, and is replaced by a valid one."""
    load()
    (path,) = directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert is_understood("aab")
    monkeypatch.setattr("lark.lark.load_grammar", never_again)
    assert is_understood("aab")


@pytest.mark.skipif(sys.platform == "win32", reason="files have no owner's number there")
def test_the_tables_of_others_are_not_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another user owns is not read, as it may hold anything."""
    load()
    monkeypatch.setattr("lark.lark.load_grammar", never_again)
    monkeypatch.setattr(os, "geteuid", lambda: -1)
    with pytest.raises(AssertionError, match="read again"):
        load()


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser also works if the cache cannot be written, or if there is no directory for it."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(table_cache, "cache_directory", lambda: tmp_path / "file" / "mrql")
    assert is_understood("aab")
    monkeypatch.setattr(table_cache, "cache_directory", lambda: None)
    assert is_understood("aab")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="the XDG specification is not for these systems")
@pytest.mark.parametrize(
    ("xdg", "home", "expected"),
    [
        ("/c", "/h", Path("/c/mrql")),
        ("", "/h", Path("/h/.cache/mrql")),
        ("c", "/h", Path("/h/.cache/mrql")),
        ("", "h", None),
    ],
)
def test_cache_directory(xdg: str, home: str, expected: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is where the XDG specification puts it, and never at a relative path."""
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", home)
    assert expected == cache_directory()


def test_the_language_is_the_same_from_the_cache(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees and messages are the same with computed tables and with cached ones."""
    texts = [
        "x = 1; select <A: a, B: f(b)> from (a, b) in X where a > 1 and b in Y group by k: a.C order by k limit 3",
        "select x from x in X wher x",
        "select (a, b from x in X",
        "if a then b",
        "a < b < c",
        "a ~ b",
    ]
    outcomes = []
    for _ in range(2):
        loaded = grammar.__wrapped__()
        monkeypatch.setattr(parser, "grammar", lambda loaded=loaded: loaded)
        outcomes.append([outcome_of(text) for text in texts])
        monkeypatch.setattr("lark.lark.load_grammar", never_again)
    assert outcomes[0] == outcomes[1]


def outcome_of(text: str) -> str:
    try:
        return repr(parser.parse_program(text))
    except UserError as error:
        return error.render()
