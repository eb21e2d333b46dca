"""The formats of files on Spark, by their names."""

from __future__ import annotations

from mrql.algebra.errors import InternalError
from mrql.runtime.engine.answer import AnswerFormat
from mrql.runtime.spark.io.change_feed import CHANGE_FEED
from mrql.runtime.spark.io.copy import write_copy
from mrql.runtime.spark.io.csv import CSV
from mrql.runtime.spark.io.json import JSON
from mrql.runtime.spark.io.orc import ORC
from mrql.runtime.spark.io.parquet import PARQUET
from mrql.runtime.spark.io.spark_format import SparkFormat, Writer
from mrql.runtime.spark.io.text import TEXT
from mrql.runtime.spark.io.xml import XML

FORMATS: dict[str, SparkFormat] = {
    "csv": CSV,
    "json": JSON,
    "text": TEXT,
    "xml": XML,
    "parquet": PARQUET,
    "orc": ORC,
    "change feed": CHANGE_FEED,
}

ONLY_WRITTEN: dict[str, Writer] = {"copy": write_copy}
"""The formats of answers that are only written, to pass them on."""


def writer_of(format: AnswerFormat) -> Writer:
    """The writer of answers in a format."""
    write = ONLY_WRITTEN.get(format.name) or FORMATS[format.name].write
    if write is None:
        raise InternalError("answers", f"{format} file is only read")
    return write
