"""`mrql shell`: a session at the terminal, or over standard input where that is none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from mrql.algebra.errors import UserError
from mrql.output.tables import Printer
from mrql.shell.interpreter import Interpreter
from mrql.shell.piped import run_piped
from mrql.shell.session import Session
from mrql.version import __version__

ENGINES = {"reference": "in plain Python", "spark": "on Spark, which the first answer starts"}


def start(session: Session, engine: str, as_json: bool, rows: int | None) -> None:
    """Runs a session to its end; on a terminal, an answer shows at most `rows` rows.

    Raises: MrqlError where the input is no terminal and something in it is wrong.
    """
    console = Printer()
    with contextlib.closing(session):
        if sys.stdin.isatty() and sys.stdout.isatty():
            # The line editor takes a sixth of a second to load, and a pipe does not need it.
            from mrql.shell.prompt import history_file, run_terminal

            console.print(f"mrql {__version__} {ENGINES[engine]}. `:help` says what there is.", highlight=False)
            run_terminal(Interpreter(session, console, as_json, rows), history_file())
        else:
            session.transcript.name = "<stdin>"
            run_piped(_lines(), Interpreter(session, console, as_json))


def _lines() -> Iterator[str]:
    try:
        yield from sys.stdin
    except UnicodeDecodeError:
        raise UserError("the input is not a text in UTF-8") from None
