"""The address of a table for answers: `delta://path`, which `?replace=true` may follow."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote

import attrs

SCHEME = "delta://"


@attrs.frozen
class DeltaAddress:
    """The directory of a table, and whether a table there that is not the stream's may be replaced."""

    path: Path
    replace: bool = False


def parse_address(text: str) -> DeltaAddress:
    """The table that an address names. A `?`, `#` or `%` in a path is written `%3F`, `%23`, `%25`.

    Raises: ValueError where it names none.

    >>> parse_address("delta://out/a%20b?replace=true")
    DeltaAddress(path=PosixPath('out/a b'), replace=True)
    """
    path, _, query = text.removeprefix(SCHEME).partition("?")
    if not path or "#" in path:
        raise ValueError(f"{text} names no table: a directory as in {SCHEME}out/answers")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in options if name != "replace"]
    if unknown:
        raise ValueError(f"{text} has the parameter {unknown[0]}, and there is only replace")
    if options.get("replace", "false") not in ("true", "false"):
        raise ValueError(f"{text} says replace={options['replace']}, which is true or false")
    return DeltaAddress(Path(unquote(path)), options.get("replace") == "true")
