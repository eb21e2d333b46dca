"""Where in a query a row comes from that cannot be what it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import WrongRow


@contextmanager
def placed(specs: Mapping[str, SourceSpec]) -> Iterator[None]:
    """Gives an error about a row beside others the place of its stream in the query."""
    try:
        yield
    except WrongRow as error:
        error.span = error.span or specs[error.stream].span
        raise
