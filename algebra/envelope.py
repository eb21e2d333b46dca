"""Envelopes: records that describe what has happened to a row."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from mrql.algebra import types as ty


@attrs.frozen
class Envelope:
    """The format of a change: the fields with the kind of change, and with the row before and after it.

    Envelopes are compared by name.
    """

    name: str
    op: str = attrs.field(eq=False, repr=False)
    """The field with the kind of change."""
    comes: frozenset[str] = attrs.field(eq=False, repr=False)
    """The values of `op` where there is a row after the change."""
    goes: frozenset[str] = attrs.field(eq=False, repr=False)
    """The values of `op` where there was a row before the change, which is deleted."""
    removes: frozenset[str] = attrs.field(eq=False, repr=False)
    """The values of `op` where no row with the same key remains: for a stream with a key, only these are deletions."""
    before: str | None = attrs.field(default=None, eq=False, repr=False)
    """The field with the row before the change; None if the row's fields lie beside `op` in the change itself."""
    after: str | None = attrs.field(default=None, eq=False, repr=False)
    payload: str | None = attrs.field(default=None, eq=False, repr=False)
    """The field in which a change may be wrapped, if the outer record lacks `op`."""
    needs_key: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether the row before a change is never there: a deleted row is identified by its key alone."""
    metadata: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, eq=False, repr=False)
    """Fields that rows may take from the change itself, with their paths in it. Their values differ from change to
    change, so only rows with a key can have them."""

    @property
    def fields(self) -> frozenset[str]:
        """The fields that distinguish a change from a row."""
        return frozenset({self.op, *(side for side in (self.before, self.after) if side is not None)})

    @property
    def beside(self) -> frozenset[str]:
        """The top-level fields of a change that contain `metadata`."""
        return frozenset(path[0] for path in self.metadata.values())

    @property
    def known(self) -> frozenset[str]:
        """The known values of `op`."""
        return self.comes | self.goes | self.removes

    def taken_away(self, *, keyed: bool) -> frozenset[str]:
        """The values of `op` that delete a row."""
        return self.removes if keyed else self.goes

    def inner(self, row: ty.RecordType) -> ty.RecordType:
        """The type of the rows inside a change: without `metadata` where the change has fields for the row."""
        outside = () if self.before is None else self.metadata
        return ty.RecordType(tuple((name, t) for name, t in row.fields if name not in outside))

    def whole(self, row: ty.RecordType) -> ty.RecordType:
        """The type of a change of rows of type `row`."""
        if self.before is None or self.after is None:
            return ty.RecordType(((self.op, ty.STRING), *row.fields))
        inner = self.inner(row)
        outside: dict[str, ty.Type] = {}
        for name, t in row.fields:
            if name in self.metadata:
                _put(outside, self.metadata[name], t)
        return ty.RecordType(((self.op, ty.STRING), (self.before, inner), (self.after, inner), *outside.items()))


def _put(fields: dict[str, ty.Type], path: tuple[str, ...], t: ty.Type) -> None:
    """Adds a field at a path of one or two names."""
    if len(path) == 1:
        fields[path[0]] = t
        return
    known = fields.get(path[0])
    others = known.fields if isinstance(known, ty.RecordType) else ()
    fields[path[0]] = ty.RecordType((*others, (path[1], t)))
