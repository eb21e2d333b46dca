"""The strategies by which the loops of a query over streams are kept up to date."""

from __future__ import annotations

from enum import Enum

import attrs

from mrql.algebra.terms import Repeat


class LoopStrategy(Enum):
    """How a change of a stream reaches the value of a loop."""

    AUTO = "auto"
    """As a fixpoint where the loop is one, else by running it again."""
    RECOMPUTE = "recompute"
    """The loop runs again from its start, over states of what its steps read."""
    EXACT = "exact"
    """Each step is kept up to date by itself, where the number of steps is known."""
    FIXPOINT = "fixpoint"
    """Each fact is kept with the step at which it is first found, where a step only adds."""
    DIFFUSE = "diffuse"
    """The previous value is improved further: a change is propagated through the steps while it matters."""


KEEPING_BACK = (LoopStrategy.DIFFUSE, LoopStrategy.EXACT)
"""The strategies that can hold small changes back."""


@attrs.frozen
class Chosen:
    """A loop, its strategy, and the reason for the choice."""

    loop: Repeat
    strategy: LoopStrategy
    reason: str


class Unfit(Exception):
    """A strategy is not applicable to a loop; the message says why."""
