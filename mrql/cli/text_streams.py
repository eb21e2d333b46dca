"""In which encoding a command reads and writes text."""

from __future__ import annotations

import codecs
import io
import sys


def speak_utf8() -> None:
    """What is piped in or out is UTF-8, as files are, whatever the locale says; a terminal of another encoding shows
    what it has no sign for by its number."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or codecs.lookup(stream.encoding).name == "utf-8":
            continue
        if stream.isatty():
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
