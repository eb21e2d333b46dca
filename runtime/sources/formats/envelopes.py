"""The envelopes in which changes come, and the rows that a change inserts and deletes.

Debezium: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events; the metadata
that a row may have is named as by its transformation `ExtractNewRecordState`. The flat envelopes are the output of that
transformation: https://debezium.io/documentation/reference/stable/transformations/event-flattening.html. Delta Lake:
https://docs.delta.io/latest/delta-change-data-feed.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.envelope import Envelope
from mrql.algebra.values.values import Record, Value

DEBEZIUM = Envelope(
    "debezium",
    op="op",
    comes=frozenset({"c", "r", "u"}),
    goes=frozenset({"u", "d"}),
    removes=frozenset({"d"}),
    before="before",
    after="after",
    payload="payload",
    metadata={
        "__ts_ms": ("ts_ms",),
        "__source_ts_ms": ("source", "ts_ms"),
        **{f"__{name}": ("source", name) for name in ("lsn", "pos", "scn", "commit_lsn", "change_lsn")},
    },
)

DELTA = Envelope(
    "delta",
    op="_change_type",
    comes=frozenset({"insert", "update_postimage"}),
    goes=frozenset({"delete", "update_preimage"}),
    removes=frozenset({"delete"}),
    metadata={name: (name,) for name in ("_commit_version", "_commit_timestamp")},
)

DEBEZIUM_FLAT = Envelope(
    "debezium_flat",
    op="__deleted",
    comes=frozenset({"false"}),
    goes=frozenset({"true"}),
    removes=frozenset({"true"}),
    payload="payload",
    needs_key=True,
)

DEBEZIUM_FLAT_OP = Envelope(
    "debezium_flat_op",
    op="__op",
    comes=DEBEZIUM.comes,
    goes=DEBEZIUM.removes,
    removes=DEBEZIUM.removes,
    payload="payload",
    needs_key=True,
)

ENVELOPES = {envelope.name: envelope for envelope in (DEBEZIUM, DELTA, DEBEZIUM_FLAT, DEBEZIUM_FLAT_OP)}
"""All envelopes, by their names in a query."""


def changes_of(change: Value, spec: SourceSpec) -> Iterator[tuple[Value, int]]:
    """The rows that a change deletes and inserts, with their weights.

    Raises: ValueError where it is of no known kind, or lacks a row.
    """
    envelope = spec.changes
    assert envelope is not None
    said = change[envelope.op]
    if said not in envelope.known:
        raise ValueError(unknown_change(said, envelope))
    for side, kinds, weight in (
        (envelope.before, envelope.taken_away(keyed=spec.key is not None), -1),
        (envelope.after, envelope.comes, 1),
    ):
        if said in kinds:
            row = change if side is None else change[side]
            if row is None:
                raise ValueError(f"a change `{said}` without `{side}`")
            yield _row(row, change, spec), weight


def unknown_change(said: str | None, envelope: Envelope) -> str:
    """The message for a change of no known kind."""
    known = ", ".join(sorted(envelope.known))
    found = "missing" if said is None else f'"{said}"'
    return f"`{envelope.op}` is {found}, and none of {known}"


def _row(row: Record, change: Record, spec: SourceSpec) -> Record:
    """A row, with the metadata of the change that its type asks for."""
    envelope = spec.changes
    assert envelope is not None
    assert isinstance(spec.row, ty.RecordType)
    if envelope.before is None:
        return Record({name: row[name] for name in spec.row.names})
    return Record({n: _at(change, envelope.metadata[n]) if n in envelope.metadata else row[n] for n in spec.row.names})


def _at(value: Value, path: tuple[str, ...]) -> Value:
    for name in path:
        value = None if value is None else value[name]
    return value
