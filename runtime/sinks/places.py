"""Places that answers go to, as `--output` names them: a directory, or an address of what is in the table below.

A sink that is added is a file with a `Place` in it, and a line of the table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import attrs

from mrql.algebra.span import Span
from mrql.algebra.types import Type
from mrql.algebra.values.file_names import scheme_of
from mrql.runtime.engine.answer import AnswerFormat
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sinks.sink import Sink


@attrs.frozen
class Opening:
    """What a sink is made for: the answers of a stream, and where that stands."""

    type: Type
    """That of the answer."""
    changes: bool
    """Whether changes are asked for."""
    format: AnswerFormat
    """That of files."""
    span: Span | None
    """The place of the query."""
    stream: str
    """What the stream is known by, as long as it has its checkpoint."""
    files: DurableFiles
    suffix: str
    """What tells that which this process writes aside from what others did."""
    last_batch: Callable[[str], int | None]
    """The last batch that went to a place, by what the place is called; None where it is new."""
    outbox: Callable[[str], Path]
    """A directory for what is on its way to a place."""


class Place(Protocol):
    """Where answers can go."""

    @property
    def is_current(self) -> bool:
        """Whether it holds the answer as it is now: it is given changes, and asks for them itself."""

    @property
    def known_by(self) -> str:
        """What it is, however it is written: no two places of a stream are the same."""

    def open(self, opening: Opening) -> Sink:
        """A sink that writes there.

        Raises: UserError where something else is there; EngineError where the place is not reached.
        """


@attrs.frozen
class Addresses:
    """A kind of places that have addresses: `scheme://…`."""

    schemes: tuple[str, ...]
    """The first is the one that messages name."""
    reads: str
    """What makes a place of an address, as `module:function`; it raises ValueError where the text is none. It is loaded
    when an address is given."""


ADDRESSES: list[Addresses] = [
    Addresses(("postgresql", "postgres"), "mrql.runtime.postgresql.sink:table_at"),
    Addresses(("delta",), "mrql.runtime.delta.sink:delta_at"),
]


def place_at(text: str) -> Place | None:
    """The place of an address; None of what begins with no scheme, and is a path.

    Raises: ValueError where it is no address of its scheme, or none has its scheme, or that has no `://` behind it.
        Of these the message does not have the text, in which there may be a password.
    """
    begin = scheme_of(text)
    if begin is None:
        return None
    scheme, slashes = begin
    if slashes.startswith("//"):
        for addresses in ADDRESSES:
            if scheme in addresses.schemes:
                module, _, name = addresses.reads.partition(":")
                place: Place = getattr(importlib.import_module(module), name)(text)
                return place
    if any(scheme.lower() in addresses.schemes for addresses in ADDRESSES):
        raise ValueError(f"an address begins with {scheme.lower()}://, and a directory of such a name with ./{scheme}:")
    if not slashes:
        return None
    known = " nor ".join(f"{each.schemes[0]}://…" for each in ADDRESSES)
    raise ValueError(f"{scheme}:{slashes}… is neither a directory nor {known}; one of such a name begins with ./")
