"""The arguments of the API, and the errors if they are of the wrong kind."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mrql.algebra.catalog import item_type
from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey
from mrql.algebra.types import Type
from mrql.algebra.values.file_names import begin_of_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Loop: TypeAlias = Literal["auto", "recompute", "exact", "fixpoint", "diffuse"]
"""The ways in which loops over streams are kept up to date (`mrql.rewrite.plan.loop_strategy.LoopStrategy`)."""


Trusted: TypeAlias = bool | Collection[str] | None
"""The streams whose deletions are trusted: True for all, False for none, or names; None for those that are consistent
by themselves."""


def trusted_streams(trusted: bool | Collection[str], streams: Collection[str]) -> frozenset[str]:
    """The streams whose deletions are not looked up.

    Raises: UserError if the argument is of another kind, or names an unknown stream.
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


Keys: TypeAlias = Mapping[str, str | Sequence[str] | RowKey]
"""The keys of streams: the names of the fields, or a key that `mrql.key` makes, which may have a version."""


def key(*fields: str, version: str | None = None) -> RowKey:
    """The fields by which rows of a stream replace each other.

    Of two rows with the same key, the one with the larger `version` stays.

    >>> key("id", version="changed")
    RowKey(fields=('id',), version='changed')

    Raises: UserError if there are no fields, or an argument is not a string.
    """
    names = [*fields, *([] if version is None else [version])]
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise UserError(f"a field is called by a text, not {kind_of(wrong[0])}")
    if not fields:
        raise UserError("a key has at least one field", hint='mrql.key("id")')
    return RowKey(fields, version)


def keyed_streams(keys: Keys | None, streams: Mapping[str, Type], tables: Collection[str] = ()) -> dict[str, RowKey]:
    """The streams whose rows replace each other, with their keys.

    Raises: UserError if a stream is unknown, a static table, or does not have such a key and version.
    """
    if not isinstance(keys, Mapping | None):
        raise UserError(f"keys are given by stream, not as {kind_of(keys)}", hint='keys={"orders": "id"}')
    found = {}
    for name, given in (keys or {}).items():
        if name in tables:
            raise UserError(f"`{name}` is a static table of this view: no row of it is replaced")
        if name not in streams:
            hint = f"its streams: {', '.join(streams) or 'none'}"
            raise UserError(f"the query has no stream `{name}` to give a key to", hint=hint)
        found[name] = _row_key(name, given)
        try:
            found[name].check_fields(item_type(streams[name]))
            found[name].check_version(item_type(streams[name]))
        except UserError as error:
            raise UserError(f"the key of `{name}`: {error.message}", hint=error.hint) from None
    return found


def _row_key(name: str, given: object) -> RowKey:
    match given:
        case RowKey():
            return given
        case str():
            return key(given)
        case list() | tuple():
            return key(*given)
        case _:
            hint = f'keys={{"{name}": "id"}}, or mrql.key("id", version="changed")'
            raise UserError(f"the key of `{name}` is the names of its fields, not {kind_of(given)}", hint=hint)


def must_be_a_frame(name: str, df: object, *, streaming: bool | None = False) -> None:
    """Raises: UserError if it is not a DataFrame of Spark, or not `streaming` as required; None allows both."""
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        wanted = "a DataFrame of Spark" if streaming else "a DataFrame of Spark or pandas or a table of Arrow"
        raise UserError(f"`{name}` is {wanted}, not {kind_of(df)}", hint="spark.createDataFrame(…) makes one")
    if streaming and not df.isStreaming:
        hint = "spark.readStream makes one that does; view.apply takes this one"
        raise UserError(f"`{name}` is a DataFrame that does not stream", hint=hint)
    if df.isStreaming and streaming is False:
        hint = "view.follow takes it, and applies one batch after the other"
        raise UserError(f"`{name}` is a DataFrame that is still to come", hint=hint)


def directory_of(path: object, what: str) -> Path:
    """The absolute path of a directory of this machine.

    Raises: UserError if it is not a path, or is empty, or begins as an address does.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise UserError(f"{what} is a directory, not {kind_of(path)}")
    if not text:
        raise UserError(f"{what} is a directory, and has a name")
    begin = begin_of_address(text)
    if begin is not None:
        hint = "a path as /data/x; one of such a name begins with ./"
        raise UserError(f"{what} is a directory of this machine, and {begin}… is none", hint=hint)
    return Path(text).absolute()  # the process may change its working directory


def must_be_a_choice(name: str, value: object) -> None:
    """Raises: UserError if it is neither True nor False."""
    if not isinstance(value, bool):
        raise UserError(f"{name} is True or False, not {kind_of(value)}")


def must_be_a_receiver(deliver: object) -> None:
    """Raises: UserError if it is neither None nor a function."""
    if deliver is not None and not callable(deliver):
        raise UserError(f"deliver is a function of changes and a number, not {kind_of(deliver)}")


def kind_of(value: object) -> str:
    """The type of an argument of the wrong kind, for an error."""
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
