"""The names needed to write an adapter: its protocol, the specification of a stream, and the values of rows."""

from mrql.algebra.catalog import ADAPTER, SourceSpec
from mrql.algebra.values.values import Bag, Document, Record, Value
from mrql.runtime.sources.source import Adapter, Bounded, Offset

__all__ = ["ADAPTER", "Adapter", "Bag", "Bounded", "Document", "Offset", "Record", "SourceSpec", "Value"]
