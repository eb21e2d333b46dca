"""What the batches of a loop leave in memory is looked at by `make soak`, over 200 of them; here is how it judges."""

from __future__ import annotations

from tests.loop_memory import Sample, growth


def test_what_grows_is_seen() -> None:
    """An RDD or a megabyte more with each batch."""
    lost = [Sample(n, n, 100.0 + n) for n in range(3, 31, 3)]
    assert growth(lost) == (12, 1.0)
    assert growth([Sample(n, 5, 100.0) for n in range(3, 31, 3)]) == (0, 0.0)
