"""Sessions of Spark Connect: there is no JVM to reach, and a plan is analysed when it is computed.

So what is set for a plan has to be set then: what is computed of a query is computed at once, while the settings are
those of the query, and what it is given is computed before, under the settings of whoever has made it. The server keeps
that until it is given back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

_CONNECT = "pyspark.sql.connect."


def is_session(value: object) -> bool:
    """Whether it is a session, of either kind: those of Spark Connect are of a class of their own."""
    return isinstance(value, SparkSession) or (is_remote(value) and type(value).__name__ == "SparkSession")


def is_remote(of: object) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect."""
    return type(of).__module__.startswith(_CONNECT)


def computed_apart(df: DataFrame, wanted: Mapping[str, str]) -> DataFrame:
    """A DataFrame whose rows are what they are in its session as that is set now: of Spark Connect they are computed,
    unless the session has all that is wanted already."""
    if not is_remote(df) or not RemoteSwitch.of(df.sparkSession, wanted).changed:
        return df
    return computed(df)


_KEPT: ContextVar[list[DataFrame] | None] = ContextVar("kept", default=None)
"""What the server keeps for the block that runs."""


def computed(df: DataFrame) -> DataFrame:
    """The rows of a DataFrame, computed and kept by the server until the end of the block (`giving_back`)."""
    kept = _KEPT.get()
    assert kept is not None, "nobody would give it back"
    found = df.localCheckpoint()
    kept.append(found)
    return found


@contextmanager
def giving_back() -> Iterator[None]:
    """What the server keeps for the block is given back at its end."""
    kept: list[DataFrame] = []
    outer = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(outer)
        for df in kept:
            give_back(df)


def give_back(df: DataFrame) -> None:
    """Has the server forget the rows of a DataFrame that it has computed.

    The client does so when its object is gone. What is in a circle is gone when the garbage collector finds it, which
    may be in the midst of another call to the server: then both wait for each other, and do not end.
    """
    plan: Any = df._plan
    if plan._relation_id is not None:
        plan.__del__()
        plan._relation_id = None


@attrs.frozen
class RemoteSwitch:
    """Settings of a session of Spark Connect that are to be others for some time."""

    spark: SparkSession
    changed: Mapping[str, str]
    """What is set."""
    before: Mapping[str, str | None]
    """What that was."""

    @staticmethod
    def of(spark: SparkSession, wanted: Mapping[str, str]) -> RemoteSwitch:
        """What there is to do for settings that are wanted, as those of the session are now."""
        before = {key: spark.conf.get(key, None) for key in wanted}
        changed = {key: value for key, value in wanted.items() if before[key] != value}
        return RemoteSwitch(spark, changed, {key: before[key] for key in changed})

    def fits(self) -> bool:
        """It is made anew each time: to ask takes as long."""
        return False

    def on(self) -> None:
        """Sets them."""
        for key, value in self.changed.items():
            self.spark.conf.set(key, value)

    def off(self) -> None:
        """Sets back what was set otherwise before."""
        for key, value in self.before.items():
            self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)
