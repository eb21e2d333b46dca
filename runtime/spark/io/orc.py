"""ORC, read by Spark."""

from __future__ import annotations

from mrql.runtime.sources.formats.orc import IN_ARROW
from mrql.runtime.spark.io.columnar import columnar_format

PROLEPTIC = "orc.proleptic.gregorian.default"
"""The option by which files that name no calendar count days before 1582 as Arrow does, by the Gregorian one."""

ORC = columnar_format(IN_ARROW, lambda reader, paths: reader.option(PROLEPTIC, True).orc([*paths]))
