"""Envelopes: rows that do not say what there is, but what has happened to a row."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from mrql.algebra import types as ty


@attrs.frozen
class Envelope:
    """How a change is written: where it says what has happened, and where the row is, before and after.

    Envelopes are told apart by their names.
    """

    name: str
    op: str = attrs.field(eq=False, repr=False)
    """The field that says what has happened."""
    comes: frozenset[str] = attrs.field(eq=False, repr=False)
    """What it says where there is a row afterwards."""
    goes: frozenset[str] = attrs.field(eq=False, repr=False)
    """What it says where there was one before, which is not there any more."""
    removes: frozenset[str] = attrs.field(eq=False, repr=False)
    """What it says where there is none of its key afterwards: with a key nothing else that goes is looked at."""
    before: str | None = attrs.field(default=None, eq=False, repr=False)
    """The field with the row as it was; None where all fields are those of the one row that a change is about."""
    after: str | None = attrs.field(default=None, eq=False, repr=False)
    payload: str | None = attrs.field(default=None, eq=False, repr=False)
    """The field that a change may be wrapped in, if it does not say itself what has happened."""
    needs_key: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether it never has the row before: what goes is known by its key alone."""
    metadata: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict, eq=False, repr=False)
    """Fields that rows may have though they are no part of the row, with their places in the change. Each change has
    others, so that only rows with a key can have them."""

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a change that tell it from a row."""
        return frozenset({self.op, *(side for side in (self.before, self.after) if side is not None)})

    @property
    def beside(self) -> frozenset[str]:
        """The fields of a change that may be beside those, of which rows may have something."""
        return frozenset(path[0] for path in self.metadata.values())

    @property
    def known(self) -> frozenset[str]:
        """What it may say."""
        return self.comes | self.goes | self.removes

    def taken_away(self, *, keyed: bool) -> frozenset[str]:
        """What it says where a row is taken away."""
        return self.removes if keyed else self.goes

    def inner(self, row: ty.RecordType) -> ty.RecordType:
        """The fields of a row that are in the row itself."""
        outside = () if self.before is None else self.metadata
        return ty.RecordType(tuple((name, t) for name, t in row.fields if name not in outside))

    def whole(self, row: ty.RecordType) -> ty.RecordType:
        """The type of a change of rows."""
        if self.before is None or self.after is None:
            return ty.RecordType(((self.op, ty.STRING), *row.fields))
        inner = self.inner(row)
        outside: dict[str, ty.Type] = {}
        for name, t in row.fields:
            if name in self.metadata:
                _put(outside, self.metadata[name], t)
        return ty.RecordType(((self.op, ty.STRING), (self.before, inner), (self.after, inner), *outside.items()))


def _put(fields: dict[str, ty.Type], path: tuple[str, ...], t: ty.Type) -> None:
    """Adds a field at a place of one or two names."""
    if len(path) == 1:
        fields[path[0]] = t
        return
    known = fields.get(path[0])
    others = known.fields if isinstance(known, ty.RecordType) else ()
    fields[path[0]] = ty.RecordType((*others, (path[1], t)))
