"""The thread that feeds a view from tables and logs, tested without a view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mrql.api.following import StoppedFollowing
from mrql.api.source_query import Pace, SourceLoop, SourceQuery


class OneBatch:
    """A feed that always has something new."""

    is_closed = False

    def next(self, *, whole: bool) -> dict[str, list[int]]:
        return {"s": [1]}

    def counted(self, batch: object) -> dict[str, int]:
        return {"s": 1}

    def close(self) -> None:
        self.is_closed = True


@contextmanager
def stopped() -> Iterator[None]:
    raise StoppedFollowing
    yield


def test_a_batch_that_comes_after_the_wish_to_stop() -> None:
    """A batch after a stop request is not applied; its query ends without an error, even if not yet stopped itself."""
    feed: Any = OneBatch()
    applied: list[object] = []

    def take(batch: object, offsets: object) -> int:
        applied.append(batch)
        return 0

    loop = SourceLoop(feed, Pace(), take, stopped, lambda: False)
    query = SourceQuery(loop, "s", None)
    loop.start()
    assert query.awaitTermination(10)
    assert (query.exception(), applied, feed.is_closed) == (None, [], True)
