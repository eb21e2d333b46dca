"""The formats of files, by their names in a query."""

from __future__ import annotations

from mrql.runtime.sources.formats.csv import CSV, LINE
from mrql.runtime.sources.formats.file_format import FileFormat
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.formats.orc import ORC
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.sources.formats.text import TEXT
from mrql.runtime.sources.formats.xml import XML

FORMATS: dict[str, FileFormat] = {
    "line": LINE,
    "csv": CSV,
    "json": JSON,
    "text": TEXT,
    "xml": XML,
    "parquet": PARQUET,
    "orc": ORC,
}


def answer_formats() -> dict[str, FileFormat]:
    """The formats that answers are written in; the first takes values of all types."""
    return {JSON.name: JSON, **{format.name: format for format in FORMATS.values() if format.encode is not None}}
