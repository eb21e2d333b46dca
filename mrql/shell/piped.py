"""A session whose input is a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mrql.shell.interpreter import Interpreter, Quit
from mrql.shell.statement_reader import is_finished


def run_piped(lines: Iterable[str], interpreter: Interpreter) -> None:
    """Takes the inputs one after the other, each as soon as it has ended, up to the first that is in error.

    What follows an error mostly depends on the input in error, and a script should be seen to fail.

    Raises: MrqlError, that error.
    """
    try:
        for text in inputs(lines):
            interpreter.submit(text)
    except Quit:
        return


def inputs(lines: Iterable[str]) -> Iterator[str]:
    """The inputs in some lines; the last input ends with the lines, finished or not."""
    text = ""
    for line in lines:
        text += line
        if is_finished(text.removesuffix("\n")):
            yield text
            text = ""
    if text:
        yield text
