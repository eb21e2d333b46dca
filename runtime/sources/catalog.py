"""What a query may name where it says what it reads."""

from __future__ import annotations

from mrql.algebra.catalog import Catalog
from mrql.runtime.sources.formats.envelopes import ENVELOPES
from mrql.runtime.sources.formats.formats import FORMATS
from mrql.runtime.sources.source import CONNECTORS

CATALOG = Catalog(FORMATS, CONNECTORS, ENVELOPES)
