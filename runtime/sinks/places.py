"""The places that `--output` names for answers: a directory, or an address of a kind in the table below.

To add a kind of sink, add a module with a `Place`, and a line to the table.
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
    """What a sink is made from: the type of a stream's answers, how they are written, and how far the stream is."""

    type: Type
    """The type of the answer."""
    changes: bool
    """Whether changes are asked for."""
    format: AnswerFormat
    """The format of files."""
    span: Span | None
    """The place of the query."""
    stream: str
    """The identity of the stream, which lasts as long as its checkpoint."""
    files: DurableFiles
    suffix: str
    """Tells the hidden files and directories of this process from those of others."""
    last_batch: Callable[[str], int | None]
    """The last batch that went to a place, which is given as `Sink.place`; None if it is new."""
    outbox: Callable[[str], Path]
    """A directory for output on its way to a place."""


class Place(Protocol):
    """A place that answers can go to."""

    @property
    def is_current(self) -> bool:
        """Whether it holds the current answer: it is kept so by changes, which its sink asks for itself."""

    @property
    def known_by(self) -> str:
        """Its identity, however the place is written: no two places of a stream have the same one."""

    def open(self, opening: Opening) -> Sink:
        """A sink that writes there.

        Raises: UserError where something else is there; EngineError where the place cannot be reached.
        """


@attrs.frozen
class Addresses:
    """A kind of place that has addresses: `scheme://…`."""

    schemes: tuple[str, ...]
    """Messages name the first one."""
    reads: str
    """The function that makes a place from an address, as `module:function`; it raises ValueError where the text is not
    an address. It is loaded when an address is given."""


ADDRESSES: list[Addresses] = [
    Addresses(("postgresql", "postgres"), "mrql.runtime.postgresql.sink:table_at"),
    Addresses(("delta",), "mrql.runtime.delta.sink:delta_at"),
]


def place_at(text: str) -> Place | None:
    """The place at an address; None for a text without a scheme, which is a path.

    Raises: ValueError where the text is not an address of its scheme, the scheme is unknown, or no `://` follows a
        known one. In the last two cases the message does not quote the text, in which there may be a password.
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
