"""ORC, read by Spark."""

from __future__ import annotations

from mrql.runtime.sources.formats.orc import IN_ARROW
from mrql.runtime.spark.io.columnar import columnar_format

PROLEPTIC = "orc.proleptic.gregorian.default"
"""Files that do not say how they count the days before 1582 count as those of Arrow do, and not as Java once did."""

ORC = columnar_format(IN_ARROW, lambda reader, paths: reader.option(PROLEPTIC, True).orc([*paths]))
