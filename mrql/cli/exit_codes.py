"""How a command ends when something is wrong: with one message and an exit code."""

from __future__ import annotations

import functools
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

import click

from mrql.algebra.errors import InternalError, MrqlError, UserError
from mrql.algebra.span import Span
from mrql.algebra.stack import deep
from mrql.output.terminal import say
from mrql.runtime.files.durable import of_files

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells define it."""


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Makes errors of the package and of files end a command with their message and exit code; other exceptions are
    bugs, and are shown with their traceback. A command whose output is not read any more ends silently."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return deep(command)(*args, **kwargs)
        except MrqlError as error:
            _fail(error)
        except BrokenPipeError:
            # Otherwise Python would try to write the rest of the buffer when it ends, and fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            _fail(of_files(error))
        except MemoryError:
            _fail(
                UserError("out of memory", hint="a line or a packed file may be too large for it; Spark spills to disk")
            )
        except KeyboardInterrupt:
            say("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception:
            say(traceback.format_exc().rstrip("\n"), err=True)
            say("this is a fault of mrql, and not of the query or the data", err=True)
            sys.exit(InternalError.exit_code)

    return wrapped


_TRACED = "mrql.traceback"


def _trace(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    ctx.meta[_TRACED] = wanted


TRACEBACK = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    callback=_trace,
    help="Show where code in Python that the query names has raised an exception.",
)


def _fail(error: MrqlError) -> NoReturn:
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.meta.get(_TRACED) and error.__cause__ is not None:
        say("".join(traceback.format_exception(error.__cause__)).rstrip("\n"), err=True)
    say(str(_about_arguments(error)), err=True)
    sys.exit(error.exit_code)


def _about_arguments(error: MrqlError) -> MrqlError:
    """Adds a hint to an error at `args[i]`, for which too few arguments were given: where they are written."""
    match error:
        case UserError(hint=None, span=Span() as span) if re.fullmatch(r"args\[\d+\]", span.text):
            ctx = click.get_current_context(silent=True)
            command = "run" if ctx is None else ctx.info_name
            if command == "shell":
                return UserError(error.message, span, "the list `args` is what follows: `mrql shell ARGUMENT…`")
            hint = f"the arguments of a query follow its file: `mrql {command} FILE ARGUMENT…`"
            return UserError(error.message, span, hint)
        case _:
            return error
