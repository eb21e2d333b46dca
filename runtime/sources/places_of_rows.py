"""The place in a query of an error about a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import WrongRow


@contextmanager
def placed(specs: Mapping[str, SourceSpec]) -> Iterator[None]:
    """Adds the place of the stream in the query to a `WrongRow` error."""
    try:
        yield
    except WrongRow as error:
        error.span = error.span or specs[error.stream].span
        raise
