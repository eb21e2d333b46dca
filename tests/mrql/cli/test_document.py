"""`docs/commands.md` has every command with every option, and nothing that no command has."""

from __future__ import annotations

import re

import click
import pytest

from mrql.cli.main import COMMANDS, main
from tests.support.documents import DOCS

SHARED = "What evaluates"
"""The section of the options that several commands have."""
ONLY_IN_HELP = {"--help"}


def options(name: str) -> set[str]:
    """The options of a command, as they are typed."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return {text for parameter in command.params for text in parameter.opts if text.startswith("--")} - ONLY_IN_HELP


def sections() -> dict[str, str]:
    """The text below each heading."""
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


def named(text: str) -> set[str]:
    return set(re.findall(r"`(--[a-z-]+)", text))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_of_a_command_stands_in_its_section(name: str) -> None:
    """Each option of a command is in its section or in the shared one; the section has no other options."""
    of_all = sections()
    assert options(name) - named(of_all[f"mrql {name}"]) - named(of_all[SHARED]) == set()
    assert named(of_all[f"mrql {name}"]) - options(name) == set()


def test_shared_options_are_those_of_what_evaluates() -> None:
    shared = named(sections()[SHARED])
    assert shared - options("run") == set()
    for name in ("stream", "shell"):
        assert shared - options(name) == set()
