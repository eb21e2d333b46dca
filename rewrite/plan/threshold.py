"""How little a number may change for the change to be kept back from the next step of a loop.

As with `math.isclose`, a difference is compared to a part of the larger number, or to a number, or to both.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Threshold:
    """A difference of two numbers matters if it is larger than both say."""

    relative: float = 0.0
    """As a part of the larger one of the two."""
    absolute: float = 0.0
    """By itself."""

    @staticmethod
    def of(relative: float | None, absolute: float | None) -> Threshold | None:
        """What was asked for; None where nothing was."""
        return None if relative is None and absolute is None else Threshold(relative or 0.0, absolute or 0.0)

    @property
    def is_given(self) -> bool:
        """Whether anything is kept back."""
        return self.relative > 0 or self.absolute > 0

    def passes(self, change: float, distance: float) -> bool:
        """Whether a difference matters that is so large in relation to the larger number, and so large by itself."""
        return change > self.relative and distance > self.absolute

    def __str__(self) -> str:
        """In words, after "by more than" or "by no more than".

        >>> print(Threshold(0.001)), print(Threshold(0, 0.1)), print(Threshold(0.001, 0.1))
        0.001 of its size
        0.1
        the larger of 0.001 of its size and 0.1
        (None, None, None)
        """
        relative, absolute = f"{self.relative:g} of its size", f"{self.absolute:g}"
        if not self.absolute:
            return relative
        return f"the larger of {relative} and {absolute}" if self.relative else absolute


NOTHING = Threshold()
"""Each change is passed on, however small."""

EPSILON = Threshold(relative=0.001)
"""What is kept back of a loop that is carried over, if nothing else is said."""
