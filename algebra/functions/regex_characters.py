"""The characters that a part of a regular expression matches, as ranges of codes, and the classes of ASCII."""

from __future__ import annotations

import string

Ranges = tuple[tuple[int, int], ...]
"""Characters, as sorted ranges of their codes."""

LAST = 0x10FFFF
"""The code of the last character."""


def ranges(*found: tuple[int, int]) -> Ranges:
    """The ranges sorted, with overlapping and adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def all_but(taken: Ranges) -> Ranges:
    """All other characters."""
    ends = [-1, *(bound for pair in taken for bound in pair), LAST + 1]
    return tuple((low + 1, high - 1) for low, high in zip(ends[::2], ends[1::2], strict=True) if low + 1 < high)


def overlap(a: Ranges, b: Ranges) -> bool:
    return any(low <= other_high and other_low <= high for low, high in a for other_low, other_high in b)


def characters_of(characters: str) -> Ranges:
    return ranges(*((ord(c), ord(c)) for c in characters))


def folded(taken: Ranges) -> Ranges:
    """The characters, and those that differ from them only in case, of ASCII."""
    other = [
        (max(low, start) + shift, min(high, end) + shift)
        for low, high in taken
        for start, end, shift in ((65, 90, 32), (97, 122, -32))
        if max(low, start) <= min(high, end)
    ]
    return ranges(*taken, *other)


CLASSES = {
    "d": characters_of(string.digits),
    "w": characters_of(string.ascii_letters + string.digits + "_"),
    "s": characters_of(" \t\n\x0b\f\r"),
}
CLASSES |= {name.upper(): all_but(taken) for name, taken in CLASSES.items()}
"""The characters that `\\d` and the like match, by their letters."""

ANY = all_but(characters_of("\n"))
"""The characters that `.` matches."""
