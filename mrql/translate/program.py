"""A typed query file: its sources, and the expressions whose answers are wanted."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from mrql.algebra.catalog import SinkSpec, SourceSpec
from mrql.algebra.row_key import RowKey
from mrql.algebra.span import Span
from mrql.algebra.terms import Term
from mrql.algebra.types import Type


@attrs.frozen
class CompiledExpression:
    """An expression of a program whose answer is to be shown, or to be written to a target."""

    term: Term
    span: Span
    target: SinkSpec | None = None

    @property
    def type(self) -> Type:
        return self.term.type


@attrs.frozen
class Program:
    """A typed program: its queries in order, and every source that they may read, by name.

    The terms that are `stored` are parts of the queries that name them; each may be evaluated once for all of these.
    """

    queries: tuple[CompiledExpression, ...]
    sources: Mapping[str, SourceSpec]
    stored: Mapping[str, Term] = attrs.Factory(dict)

    @property
    def shrinking(self) -> frozenset[str]:
        """The streams from which rows may be deleted."""
        return frozenset(name for name, spec in self.sources.items() if spec.shrinks)

    @property
    def keyed(self) -> dict[str, RowKey]:
        """The streams with a key, in which a row replaces the one with the same key."""
        return {name: spec.key for name, spec in self.sources.items() if spec.key is not None}

    @property
    def consistent(self) -> frozenset[str]:
        """The streams that delete only rows that are there, so that these need not be looked up: logs of changes, and
        tables with a log."""
        return frozenset(name for name, spec in self.sources.items() if spec.is_log)
