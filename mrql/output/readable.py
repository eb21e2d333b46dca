"""Numbers for people."""

from __future__ import annotations


def readable(size: float) -> str:
    """A number of bytes for people.

    >>> readable(999), readable(123_456), readable(20_000_000)
    ('999 B', '123.5 kB', '20.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
