"""Generated histories of a stream of upserts, and a model of its current rows: a dict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.row_key import RowKey
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Canonical, Record, Value, canonical, same

Change: TypeAlias = tuple[Value, int]
"""A row that is inserted (+1), or that deletes the row with its key (−1)."""

NUMBERS = (math.nan, math.inf, 0.0, -0.0, 0.1, None)
TEXTS = ("", "a", "null", "\ufffd", None)


@attrs.frozen
class KeyKind:
    """Keys of one kind: the type of the field `k`, values of it, and the fields of the key."""

    type: str
    values: Sequence[Value]
    fields: tuple[str, ...] = ("k",)

    @property
    def row(self) -> Type:
        return parse_type(f"<k: {self.type}, l: string, v: double, n: long>")

    def key(self, *, versioned: bool) -> RowKey:
        return RowKey(self.fields, "n" if versioned else None)


KINDS: Mapping[str, KeyKind] = {
    "numbers": KeyKind("double", NUMBERS),
    "texts": KeyKind("string", TEXTS),
    "records": KeyKind("<a: double, b: string>", [Record({"a": a, "b": b}) for a in NUMBERS[:4] for b in (None, "a")]),
    "bags": KeyKind("{long}", (Bag(), Bag([1, 2]), Bag([2, 1]), None)),
    "two fields": KeyKind("double", NUMBERS, ("k", "l")),
}


def histories(kind: KeyKind, *, versioned: bool, most: int = 5) -> st.SearchStrategy[list[list[Change]]]:
    """Batches of changes of a few keys: versions come in any order, some twice, and some rows are repeated."""
    row = st.builds(
        lambda k, text, v, n: Record({"k": k, "l": text, "v": v, "n": n}),
        st.sampled_from(kind.values),
        st.sampled_from(TEXTS[:2]),
        st.sampled_from(NUMBERS),
        st.integers(0, 12 if versioned else 1),
    )
    changes = st.lists(st.tuples(row, st.sampled_from((1, 1, 1, -1))), max_size=6)
    return st.lists(changes, min_size=1, max_size=most)


@attrs.define
class TableModel:
    """The current rows, as a dict with what is known of each key."""

    key: RowKey
    known: dict[Canonical, tuple[Value, Value]] = attrs.Factory(dict)
    """By key, a version and a row, which is None if it was deleted."""

    def apply(self, batch: Sequence[Change]) -> bool:
        """Applies a batch if it determines which row of each key is the latest; returns whether it does."""
        versions: dict[Canonical, list[tuple[Value, Value]]] = {}
        for row, weight in batch:
            entry = (self.key.version_of(row), row if weight > 0 else None)
            versions.setdefault(canonical(self.key.of(row)), []).append(entry)
        last = {}
        for found, entries in versions.items():
            before = [self.known[found]] if found in self.known and self.key.version is not None else []
            newest = max(canonical(version) for version, _ in [*entries, *before])
            rows = [entry for entry in [*before, *entries] if canonical(entry[0]) == newest]
            if not all(same(row, rows[0][1]) for _, row in rows):
                return False
            last[found] = rows[0]
        self.known |= last
        return True

    @property
    def rows(self) -> Bag:
        return Bag(row for _, row in self.known.values() if row is not None)


def bag_of(kind: KeyKind) -> ty.BagType:
    return ty.BagType(kind.row)
