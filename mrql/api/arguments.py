"""What is given to the API, and what is said where it is something else."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mrql.algebra.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Loop: TypeAlias = Literal["auto", "recompute", "exact", "fixpoint", "diffuse"]
"""The ways in which loops over streams are kept up to date (`mrql.rewrite.plan.loop_strategy.LoopStrategy`)."""


Trusted: TypeAlias = bool | Collection[str]
"""Whether the deletions of all streams are right, or the names of those streams whose are."""


def trusted_streams(trusted: Trusted, streams: Collection[str]) -> frozenset[str]:
    """The streams whose deletions are not looked up.

    Raises: UserError where one is named that is not there.
    """
    if isinstance(trusted, bool):
        return frozenset(streams if trusted else ())
    names = [trusted] if isinstance(trusted, str) else trusted
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise UserError(f"trusted is True, or the names of streams, not {kind_of(trusted)}")
    unknown = sorted({*names} - {*streams})
    if unknown:
        hint = f"its streams: {', '.join(streams) or 'none'}"
        raise UserError(f"the query has no stream `{unknown[0]}` whose deletions to trust", hint=hint)
    return frozenset(names)


def must_be_a_frame(name: str, df: object, *, streaming: bool = False) -> None:
    """Raises: UserError where it is no DataFrame of Spark whose rows are all there, or are still to come."""
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        wanted = "a DataFrame of Spark" if streaming else "a DataFrame of Spark or pandas or a table of Arrow"
        raise UserError(f"`{name}` is {wanted}, not {kind_of(df)}", hint="spark.createDataFrame(…) makes one")
    if streaming and not df.isStreaming:
        hint = "spark.readStream makes one that does; view.apply takes this one"
        raise UserError(f"`{name}` is a DataFrame that does not stream", hint=hint)
    if df.isStreaming and not streaming:
        hint = "view.follow takes it, and applies one batch after the other"
        raise UserError(f"`{name}` is a DataFrame that is still to come", hint=hint)


def directory_of(path: object) -> Path:
    """Raises: UserError where it is no path."""
    if not isinstance(path, str | os.PathLike) or not path:
        raise UserError(f"a checkpoint is a directory, not {kind_of(path)}")
    return Path(path).absolute()  # the process may go elsewhere


def kind_of(value: object) -> str:
    """What an argument is that should be something else."""
    return "None" if value is None else f"a value of the type {type(value).__module__}.{type(value).__qualname__}"


def session_of(spark: SparkSession | None) -> Any:
    from mrql.runtime.spark import jvm
    from mrql.runtime.spark.session.session import local_session, quiet

    if spark is not None and not jvm.is_session(spark):
        hint = "DataFrames are given by the names of their streams"
        raise UserError(f"the session is a SparkSession, not {kind_of(spark)}", hint=hint)
    session = spark if spark is not None else local_session()
    if jvm.is_remote(session):
        quiet()
    return session


def must_have_a_driver(session: SparkSession) -> None:
    """Raises: UserError for a session of Spark Connect."""
    from mrql.runtime.spark import jvm

    if jvm.is_remote(session):
        message = "a view keeps its states in Spark's driver, which a session of Spark Connect does not reach"
        raise UserError(message, hint="make it in the driver, SparkSession.builder.master(…); query.batch works here")
