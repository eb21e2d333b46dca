"""The encoding in which a command reads and writes text."""

from __future__ import annotations

import codecs
import io
import sys


def speak_utf8() -> None:
    """Sets the standard streams to UTF-8, like files, whatever the locale is. A terminal keeps its encoding, and shows
    characters outside of it as escapes."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper) or codecs.lookup(stream.encoding).name == "utf-8":
            continue
        if stream.isatty():
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
