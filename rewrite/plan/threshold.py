"""The size up to which a change of a number is held back from the next step of a loop.

As with `math.isclose`, a difference is compared to a fraction of the larger number, to an absolute bound, or to both.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Threshold:
    """A difference of two numbers matters if it exceeds both bounds."""

    relative: float = 0.0
    """The bound as a fraction of the larger one of the two."""
    absolute: float = 0.0
    """The absolute bound."""

    @staticmethod
    def of(relative: float | None, absolute: float | None) -> Threshold | None:
        """The threshold with these bounds; None where neither is given."""
        return None if relative is None and absolute is None else Threshold(relative or 0.0, absolute or 0.0)

    @property
    def is_given(self) -> bool:
        """Whether anything is held back."""
        return self.relative > 0 or self.absolute > 0

    def passes(self, change: float, distance: float) -> bool:
        """Whether a difference matters: `change` is its fraction of the larger number, `distance` its absolute size."""
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
"""The default threshold of loops that are carried over."""
