"""Text: each line is a string."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra import types as ty
from mrql.algebra.catalog import Always, SourceSpec
from mrql.algebra.values.values import Value
from mrql.runtime.files.compression import NOT_UTF8, decoded, lines
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.file_format import FileFormat, once


def read_text(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[Value]:
    """The lines of a file."""
    for number, line in lines(file):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            reject(Malformed(file, number, NOT_UTF8, decoded(line)))


def count_text(spec: SourceSpec, file: Path) -> int:
    """The number of lines; empty lines are rows too."""
    return sum(1 for _ in lines(file))


TEXT = FileFormat("text", Always(ty.STRING, "strings"), read=once(read_text), count=count_text)
