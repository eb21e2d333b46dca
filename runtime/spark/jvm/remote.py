"""Sessions of Spark Connect: there is no JVM to reach, and a plan is analysed when it is computed.

So the settings of a plan have to be set then: the result of a query is computed at once, under the settings of the
query, and its inputs are computed before, under the settings of whoever made them. The server keeps these rows until
they are given back.
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
    """Whether a value is a session, of either kind: those of Spark Connect have a class of their own."""
    return isinstance(value, SparkSession) or (is_remote(value) and type(value).__name__ == "SparkSession")


def is_remote(of: object) -> bool:
    """Whether a session or a DataFrame is one of Spark Connect."""
    return type(of).__module__.startswith(_CONNECT)


def computed_apart(df: DataFrame, wanted: Mapping[str, str]) -> DataFrame:
    """A DataFrame with the rows that it has under the current settings of its session: under Spark Connect it is
    computed, unless the session already has all `wanted` settings."""
    if not is_remote(df) or not RemoteSwitch.of(df.sparkSession, wanted).changed:
        return df
    return computed(df)


_KEPT: ContextVar[list[DataFrame] | None] = ContextVar("kept", default=None)
"""The DataFrames that the server keeps for the current block."""


def computed(df: DataFrame) -> DataFrame:
    """The rows of a DataFrame, computed and kept by the server until the end of the block (`giving_back`)."""
    kept = _KEPT.get()
    assert kept is not None, "nobody would give it back"
    found = df.localCheckpoint()
    kept.append(found)
    return found


@contextmanager
def giving_back() -> Iterator[None]:
    """A block at the end of which the rows that the server keeps for it are given back."""
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

    The client does so when its object is deleted. An object in a reference cycle is deleted when the garbage collector
    finds it, which may be during another call to the server: then the two calls wait for each other forever.
    """
    plan: Any = df._plan
    if plan._relation_id is not None:
        plan.__del__()
        plan._relation_id = None


@attrs.frozen
class RemoteSwitch:
    """Settings of a session of Spark Connect that are changed temporarily."""

    spark: SparkSession
    changed: Mapping[str, str]
    """The settings that are changed, with their new values."""
    before: Mapping[str, str | None]
    """Their previous values; None for one that was not set."""

    @staticmethod
    def of(spark: SparkSession, wanted: Mapping[str, str]) -> RemoteSwitch:
        """The changes that are necessary for the wanted settings, given the current ones of the session."""
        before = {key: spark.conf.get(key, None) for key in wanted}
        changed = {key: value for key, value in wanted.items() if before[key] != value}
        return RemoteSwitch(spark, changed, {key: before[key] for key in changed})

    def fits(self) -> bool:
        """False: it is made anew each time, since checking takes as long."""
        return False

    def on(self) -> None:
        """Sets the new values."""
        for key, value in self.changed.items():
            self.spark.conf.set(key, value)

    def off(self) -> None:
        """Restores the previous values."""
        for key, value in self.before.items():
            self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)
