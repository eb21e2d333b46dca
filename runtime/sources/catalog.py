"""The catalog of what a query may read: formats, connectors, sources handed over by a program, and envelopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mrql.algebra.catalog import Catalog, Format, HandedOver, Records, SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.formats.envelopes import ENVELOPES
from mrql.runtime.sources.formats.formats import FORMATS
from mrql.runtime.sources.source import CONNECTORS

HANDED_OVER: Mapping[str, HandedOver] = {
    "spark": HandedOver(Format("spark", Records(typed=True), handed_over=True), True, '"orders"'),
    "table": HandedOver(Format("table", Records(typed=True), handed_over=True), False, '"sales.rates"'),
}
"""The kinds of sources that a program hands over, by their names in a query: a stream of DataFrames, and a table of its
session's catalog."""

CATALOG = Catalog(FORMATS, CONNECTORS, HANDED_OVER, ENVELOPES)


def must_not_be_handed_over(specs: Iterable[SourceSpec]) -> None:
    """Raises: UserError for a source that a program has to hand over, so that no command can read it."""
    for spec in specs:
        if spec.format.handed_over:
            what = f"the stream `{spec.path}`" if spec.stream else f"the table `{spec.path}` of a session"
            hint = (
                f"mrql.compile(…).view(spark).follow({spec.path}=df)" if spec.stream else "mrql.compile(…).view(spark)"
            )
            raise UserError(f"a program has to hand over {what}; a command cannot read it", spec.span, hint)
