"""File names as text, with a lone surrogate for each byte that is not UTF-8; and how addresses begin."""

from __future__ import annotations

import re

_LONE = re.compile("[\\ud800-\\udfff]")
_SCHEME = re.compile(r"(\w[\w+.-]+):(/*)")


def is_odd(name: str) -> bool:
    """Whether a name is not UTF-8.

    >>> import os
    >>> is_odd("é"), is_odd(os.fsdecode(bytes([0x61, 0xff])))
    (False, True)
    """
    return _LONE.search(name) is not None


def scheme_of(text: str) -> tuple[str, str] | None:
    """The scheme at the start of a text, and the slashes after it; None if it is a path. A single letter is a drive.

    >>> scheme_of("delta:/tables/x"), scheme_of("rows:2026"), scheme_of("C:/tables/x"), scheme_of("./delta:/x")
    (('delta', '/'), ('rows', ''), None, None)
    """
    begin = _SCHEME.match(text)
    return None if begin is None else (begin[1], begin[2])


def begin_of_address(text: str) -> str | None:
    """The scheme at the start of an address, with its slashes; None if the text is a path.

    >>> begin_of_address("s3://bucket/x"), begin_of_address("dbfs:/x"), begin_of_address("rows:2026")
    ('s3://', 'dbfs:/', None)
    """
    begin = scheme_of(text)
    return None if begin is None or not begin[1] else ":".join(begin)


def as_utf8(json: str) -> bytes:
    r"""JSON with such names in it, as UTF-8; lone surrogates become escapes.

    >>> import os
    >>> as_utf8('{"file": "é' + os.fsdecode(bytes([0xff])) + '"}').decode()
    '{"file": "é\\udcff"}'
    """
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", json).encode()
