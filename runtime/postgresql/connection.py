"""Connections to PostgreSQL, whose errors become errors of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from mrql.algebra.errors import EngineError, MrqlError, UserError
from mrql.algebra.showable import is_secret

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

OLDEST_VERSION = 14
"""Versions before this one cannot hash rows."""
REFUSED = ("password", "does not exist", "pg_hba.conf", "not permitted", "permission denied")
"""Parts of the messages by which a server refuses a connection, or says that something does not exist; libpq gives only
the text."""
SETTINGS = {
    "client_encoding": "UTF8",
    # Values as text have all of their digits, and a single form.
    "bytea_output": "hex",
    "datestyle": "ISO",
    "extra_float_digits": "1",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    # A transaction waits while the rest of its batch is committed.
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
    # A commit is on the server's disk, whatever the server does for other connections.
    "synchronous_commit": "on",
}


def connect(conninfo: str, shown: str, *, replication: bool = False) -> Connection:
    """A connection; `shown` stands for it in messages. One for `replication` also takes the commands of replication,
    and only statements without parameters: psycopg puts their values into the text.

    Raises: EngineError without psycopg, or where the server cannot be reached; UserError where it refuses.
    """
    try:
        import psycopg
    except ImportError:
        hint = "pip install 'psycopg[binary]'"
        raise EngineError("PostgreSQL is reached with psycopg, which is not installed", hint) from None
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    try:
        given = psycopg.conninfo.conninfo_to_dict(conninfo)
        together = f"{options} {given.get('options') or ''}".strip()
        timeout = str(given.get("connect_timeout") or 10)
        more = {"options": together, "connect_timeout": timeout, **({"replication": "database"} if replication else {})}
        made = psycopg.conninfo.make_conninfo(conninfo, **more)
        if replication:
            connection = psycopg.connect(
                made, autocommit=True, prepare_threshold=None, cursor_factory=psycopg.ClientCursor
            )
        else:
            connection = psycopg.connect(made)
    except psycopg.ProgrammingError as error:
        raise UserError(f"{shown} is no address of PostgreSQL: {_without(_line(error), conninfo)}") from None
    except psycopg.OperationalError as error:
        raise _not_connected(shown, _line(error)) from None
    if connection.info.server_version < OLDEST_VERSION * 10_000:
        connection.close()
        raise UserError(
            f"{shown} is of version {connection.info.server_version // 10_000}; {OLDEST_VERSION} is the oldest"
        )
    return connection


def _without(said: str, conninfo: str) -> str:
    """A message of libpq, or a general one if it quotes a password of the address."""
    url = urlsplit(conninfo)
    written = [url.password or "", *(value for key, value in parse_qsl(url.query) if is_secret(key))]
    secrets = {form for text in written for form in (text, unquote(text)) if form}
    return "it cannot be read" if any(secret in said for secret in secrets) else said


def _not_connected(shown: str, said: str) -> MrqlError:
    message = f"cannot connect to {shown}: {said}"
    if "replication role" in said or "start WAL sender" in said:
        return UserError(message, hint="to read the log takes a right of its own: ALTER ROLE … REPLICATION")
    if "max_wal_senders" in said:
        return EngineError(message, "raise max_wal_senders at the server, or end another reader of its log")
    if not any(part in said for part in REFUSED):
        return EngineError(message, "is the server running, and is this its address?")
    hint = "a password is taken from the address, from PGPASSWORD or from ~/.pgpass" if "password" in said else None
    return UserError(message, hint=hint)


@contextmanager
def translated(shown: str, after: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turns what psycopg raises in a block into errors of this package; `after` returns a hint at the current state.

    Raises: EngineError where the server is gone or has no room; UserError where it refuses.
    """
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.LockNotAvailable:
        raise UserError(f"another process writes to {shown}", hint="stop it, or name another table") from None
    except (errors.DiskFull, errors.OutOfMemory) as error:
        raise EngineError(f"{shown}: {_line(error)}", after() or None) from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise EngineError(f"the connection to {shown} was lost: {_line(error)}", after() or None) from None
    except psycopg.Error as error:
        raise UserError(f"{shown}: {_line(error)}", hint=after() or None) from None


def _line(error: Exception) -> str:
    """The message of an error, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # libpq begins with the address, which may be long, and has one line for each address of a host.
    return (lines or [type(error).__name__])[0].removeprefix("connection failed: ")
