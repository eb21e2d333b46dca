"""The ways in which the loops of a query over streams are kept up to date."""

from __future__ import annotations

from enum import Enum

import attrs

from mrql.algebra.terms import Repeat


class LoopStrategy(Enum):
    """How a change of a stream reaches the value of a loop."""

    AUTO = "auto"
    """As a fixpoint where the loop is one, else by running it again."""
    RECOMPUTE = "recompute"
    """The loop runs again from its start; what is the same in all steps is maintained."""
    EXACT = "exact"
    """Each step is kept up to date by itself, where their number is known."""
    FIXPOINT = "fixpoint"
    """What is found stays found, with the step at which it is found first, where a step only adds."""
    DIFFUSE = "diffuse"
    """What the loop had goes on to be improved: a change spreads from where it begins, as far as it matters."""


KEEPING_BACK = (LoopStrategy.DIFFUSE, LoopStrategy.EXACT)
"""The ways that can keep small changes back."""


@attrs.frozen
class Chosen:
    """A loop, the way in which it is kept up to date, and why."""

    loop: Repeat
    strategy: LoopStrategy
    reason: str


class Unfit(Exception):
    """Says why a loop cannot be kept up to date in some way."""
