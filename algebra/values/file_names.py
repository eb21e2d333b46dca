"""Names of files as text: one that is not UTF-8 has a lone surrogate for each byte that is none."""

from __future__ import annotations

import re

_LONE = re.compile("[\\ud800-\\udfff]")


def is_odd(name: str) -> bool:
    """Whether a name is not UTF-8.

    >>> import os
    >>> is_odd("é"), is_odd(os.fsdecode(bytes([0x61, 0xff])))
    (False, True)
    """
    return _LONE.search(name) is not None


def as_utf8(json: str) -> bytes:
    r"""JSON with such names in it as UTF-8: JSON has escapes for lone surrogates.

    >>> import os
    >>> as_utf8('{"file": "é' + os.fsdecode(bytes([0xff])) + '"}').decode()
    '{"file": "é\\udcff"}'
    """
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", json).encode()
