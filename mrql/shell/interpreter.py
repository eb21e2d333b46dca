"""Executes inputs: statements are evaluated and their answers printed; commands begin with a colon."""

from __future__ import annotations

import difflib
import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
from rich.console import Console

from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.showable import escaped
from mrql.algebra.span import Span
from mrql.jobs.kept_aside import keep_aside
from mrql.output.tables import json_line, print_table, type_name
from mrql.output.terminal import say
from mrql.shell.session import Session
from mrql.shell.statement_reader import COMMAND
from mrql.translate.collection_functions import DERIVED
from mrql.translate.library import LIBRARY
from mrql.translate.program import CompiledExpression
from mrql.translate.scope import PREDEFINED, UnknownName


class Quit(Exception):
    """The session is to end."""


@attrs.frozen
class Command:
    """A command: its argument, and what it does, in words."""

    argument: str
    meaning: str


COMMANDS: Mapping[str, Command] = {
    "type": Command("e", "the type of an expression; it is not evaluated"),
    "explain": Command("e", "what is kept of an expression, and what a batch costs"),
    "load": Command("FILE", "the statements of a file, as if they were typed here"),
    "names": Command("", "what has been defined"),
    "help": Command("[f]", "this, or what a function of the library does"),
    "quit": Command("", "leaves, as Ctrl-D does"),
}

ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("exit", "quit", "bye", "q"), "quit"),
    **dict.fromkeys(("help", "h", "usage"), "help"),
    **dict.fromkeys(("names", "tables", "ls"), "names"),
}
"""Commands of other shells, and the command here."""

INTRODUCTION = """\
A statement ends with `;`, or with an empty line. It may go on over several lines.
What is defined (`x = …;`, `type`, `function`, …) stays, and may be defined again.
"""


@attrs.frozen
class Interpreter:
    """Gives inputs to a session and prints the results: at most `rows` rows of an answer, or all."""

    session: Session
    console: Console
    as_json: bool = False
    rows: int | None = None
    _numbers: Iterator[int] = attrs.field(init=False, factory=lambda: itertools.count(1))
    """The numbers of the answered expressions, each of which has a directory for its malformed rows."""

    def submit(self, text: str) -> None:
        """Executes an input.

        Raises: MrqlError where it is wrong or its data are, and Quit where it asks for that.
        """
        command = COMMAND.match(text)
        if command is None:
            self._answer(self._defined(text))
        elif command[1] not in COMMANDS:
            raise self._unknown(text, command.start(1) - 1, command.end(1))
        else:
            act: Callable[[str, int], None] = getattr(self, f"_{command[1]}")
            transcript = self.session.transcript
            before = len(transcript.text)
            try:
                act(text, command.end())
            finally:
                if len(transcript.text) == before:  # an input that was not parsed is recorded all the same
                    transcript.add(text)

    def _defined(self, text: str) -> tuple[CompiledExpression, ...]:
        """Raises: UserError where the text is wrong; for a command of another shell, it names the one here."""
        try:
            return self.session.define(text)
        except UnknownName as error:
            command = ELSEWHERE.get(error.name.lower())
            if command is None or error.what != "name":
                raise
            raise UserError(error.message, error.span, f"in the shell it is `:{command}`") from None

    def _answer(self, queries: tuple[CompiledExpression, ...]) -> None:
        for query in queries:
            if query.target is not None:
                self.session.write(query)
            elif self.as_json:
                self._print(json_line(query.span.line, query.type, self.session.answer(query)))
            else:
                print_table(self.session.answer(query), query.type, self.console, self.rows)
            if (said := keep_aside(self.session.quarantine, f"answer-{next(self._numbers):06}")) is not None:
                say(said, err=True)

    def _print(self, text: str) -> None:
        self.console.print(escaped(text, "\n\t"), markup=False, highlight=False, soft_wrap=True)

    # --- the commands: their arguments begin at an offset of the text -------------------------------

    def _type(self, text: str, begin: int) -> None:
        self._print(self.session.type_of(text, begin))

    def _explain(self, text: str, begin: int) -> None:
        self._print(self.session.explain(text, begin, self.console.width).rstrip("\n"))

    def _load(self, text: str, begin: int) -> None:
        path = text[begin:].strip().strip("\"'")
        if not path:
            raise self._error("a file is missing", text, len(text.rstrip()), len(text.rstrip()), ":load FILE")
        self._answer(self.session.load(Path(path).expanduser()))

    def _names(self, text: str, begin: int) -> None:
        known = self.session.definitions.globals
        kinds: dict[str, Mapping[str, object]] = {
            "types": known.types,
            "functions": {**known.functions, **known.closures},
            "macros": known.macros,
            "aggregations": known.aggregations,
            "constructors": {name: c for name, c in known.constructors.items() if c != PREDEFINED.get(name)},
        }
        for name, term in known.values.items():
            if name != "args" or self.session.args:
                self._print(f"{name}: {type_name(term.type)}")
        for kind, table in kinds.items():
            if table:
                self._print(f"{kind}: {', '.join(table)}")

    def _help(self, text: str, begin: int) -> None:
        name = text[begin:].strip()
        if not name:
            self._print(f"{INTRODUCTION}\n{_table_of_commands()}")
        elif name in LIBRARY:
            self._print(_help_on(LIBRARY[name]))
        elif name in DERIVED:
            found = DERIVED[name]
            self._print(_help_text(f"{name}: {found.signature}", found.meaning, found.examples))
        else:
            start = text.index(name, begin)
            near = difflib.get_close_matches(name, [*LIBRARY, *DERIVED], n=1)
            hint = f"did you mean `{near[0]}`?" if near else None
            raise self._error(f"the library has no function `{name}`", text, start, start + len(name), hint)

    def _quit(self, text: str, begin: int) -> None:
        raise Quit

    def _unknown(self, text: str, start: int, end: int) -> UserError:
        near = difflib.get_close_matches(text[start + 1 : end], COMMANDS, n=1, cutoff=0.5)
        hint = f"did you mean `:{near[0]}`?" if near else "`:help` lists the commands"
        return self._error(f"unknown command `{text[start:end]}`", text, start, end, hint)

    def _error(self, message: str, text: str, start: int, end: int, hint: str | None) -> UserError:
        source, begin = self.session.transcript.add(text)
        return UserError(message, Span(source, begin + start, begin + end), hint)


def _table_of_commands() -> str:
    lines = [(f":{name} {command.argument}".rstrip(), command.meaning) for name, command in COMMANDS.items()]
    return "\n".join(f"{head:<12} {meaning}" for head, meaning in lines)


def _help_on(function: Function) -> str:
    names = (function.name, *function.also)
    heads = "\n".join(f"{', '.join(names)}: {version.signature}" for version in function.versions)
    return _help_text(heads, function.meaning, function.examples)


def _help_text(heads: str, meaning: str, examples: tuple[tuple[str, str], ...]) -> str:
    shown = "\n".join(f"{call} = {value}" for call, value in examples)
    return "\n".join([heads, *textwrap.wrap(meaning, 100, initial_indent="  ", subsequent_indent="  "), shown]).rstrip()
