"""The place of a source, as a checkpoint records it, and its identity, which has no passwords.

A stream goes on where its place has the same identity: also after a password was changed, or, for a log of PostgreSQL,
the server was moved.
"""

from __future__ import annotations

import re
from pathlib import Path

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.showable import OPTION, is_secret
from mrql.runtime.checkpoint.notation import connector
from mrql.runtime.postgresql.change_streams import LOG, log_place

USER_PASSWORD = re.compile(r"(?<=//)([^/@:]*):[^/@]*@")


def adapted_place(spec: SourceSpec) -> str:
    """What an adapter reads from, as a checkpoint records it, without passwords."""
    if spec.versioned:
        return f"{connector(spec.adapter)} {Path(spec.path).absolute()}"
    place = USER_PASSWORD.sub(r"\1@", spec.path)
    place = OPTION.sub(lambda found: found["before"][:-1] if is_secret(found["key"]) else found[0], place)
    return f"{connector(spec.adapter)} {re.sub(r'password=[^&]*', 'password', place)}"


def place_of(spec: SourceSpec) -> str:
    """What a source is read from, as a checkpoint records it."""
    return str(Path(spec.path).absolute()) if spec.adapter is None else adapted_place(spec)


def known_address(spec: SourceSpec) -> str:
    """The identity of the address that an adapter is given."""
    return _known(spec.adapter, spec.path)


def known_by(noted: str) -> str:
    """The identity of a place that a checkpoint records.

    >>> known_by("postgresql_cdc postgresql://ann@db1/sales?table=orders&password")
    'postgresql_cdc postgresql:///sales?table=orders'
    >>> known_by("/data/a b")
    '/data/a b'
    """
    adapter, blank, address = noted.partition(" ")
    return noted if noted.startswith("/") else adapter + blank + _known(adapter, address)


def _known(adapter: str | None, address: str) -> str:
    return log_place(address) if adapter == LOG else _without_secrets(address)


def _without_secrets(address: str) -> str:
    """An address without passwords, and without the options that hold them.

    >>> _without_secrets("postgresql://ann:x@db/sales?table=t&password=y&column=id"), _without_secrets("host:1")
    ('postgresql://ann@db/sales?table=t&column=id', 'host:1')
    """
    begin, mark, options = USER_PASSWORD.sub(r"\1@", address).rpartition("?")
    each = options.split("&")
    kept = [option for option in each if not _is_secret(option, after_mark=bool(mark))]
    return begin + (mark if kept or not each else "") + "&".join(kept)


def _is_secret(option: str, *, after_mark: bool) -> bool:
    """Whether an option holds a password, or held one: a checkpoint records its name only."""
    key, has_value, _ = option.partition("=")
    return is_secret(key) and (after_mark or bool(has_value))
