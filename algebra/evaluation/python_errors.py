"""Messages for exceptions from a user's own code: the exception, and the line that raised it."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

OURS = tuple(str(Path(__file__).parents[2] / folder) for folder in ("algebra", "rewrite", "runtime", "mrql"))
OF_PYTHON = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def said_of(error: BaseException) -> str:
    """An exception in one line, with the innermost place outside this package and, if possible, outside libraries.

    >>> def fail():
    ...     return 1 / 0
    >>> try:
    ...     fail()
    ... except ZeroDivisionError as error:
    ...     said_of(error).partition(" (")[0]
    'ZeroDivisionError: division by zero'
    """
    said = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(OURS)]
    own = [frame for frame in frames if not frame.filename.startswith(OF_PYTHON)] or frames
    return f"{said} ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else said
