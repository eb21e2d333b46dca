"""The address of a table: `postgresql://user@host:5432/db?table=schema.name`."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

import attrs

SCHEMES = ("postgresql", "postgres")
STREAMS = "mrql_streams"
"""The table that records which stream keeps which table current."""
OURS = (STREAMS, "mrql_batch", "mrql_net")
"""The tables that are made for internal use, lasting and temporary ones."""
NAME_MAX_BYTES = 63
"""The most bytes that PostgreSQL keeps of a name."""

BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
"""Escapes that are invalid in a URL: where libpq finds one, its message quotes the address."""


@attrs.frozen
class Address:
    """A table of a database.

    `conninfo` is the address for libpq. It may contain a password, so it is neither shown nor kept; `shown` has none.
    """

    conninfo: str = attrs.field(repr=False)
    shown: str
    table: str
    schema: str | None = None
    replace: bool = False
    """Whether a table that is not the stream's is to be replaced."""

    @property
    def name(self) -> str:
        """The table, as it is named in messages."""
        return self.table if self.schema is None else f"{self.schema}.{self.table}"


def is_address(text: str) -> bool:
    """Whether a text is an address of PostgreSQL and not a path."""
    return text.split("://", 1)[0] in SCHEMES and "://" in text


def must_be_one(text: str) -> None:
    """Raises: ValueError where a text is not an address, or might be read as another one than was meant. The message
    does not quote it, as there may be a password in it.
    """
    try:
        url = urlsplit(text)
        assert url.port is None or url.port >= 0  # urllib parses the port only when it is accessed
    except ValueError:
        raise ValueError("the host or the port of this address is none") from None
    if "@" in url.path + url.query + url.fragment:
        raise ValueError("a / ? # or @ in a user, a password or another part of an address is written %2F %3F %23 %40")
    if BAD_ESCAPE.search(text):
        raise ValueError("a % in an address is written %25; two hexadecimal digits follow any other, and not 00")


def apart_from(text: str, parameter: str) -> tuple[str, str | None]:
    """An address without one of its parameters, and the value of that parameter; None if it has none.

    >>> apart_from("postgresql://db/sales?table=orders&column=id", "column")
    ('postgresql://db/sales?table=orders', 'id')

    Raises: ValueError, as `must_be_one`.
    """
    must_be_one(text)
    url = urlsplit(text)
    query = dict(parse_qsl(url.query))
    value = query.pop(parameter, None)
    return _written(url._replace(query=urlencode(query, quote_via=quote))), value


def _written(url: SplitResult) -> str:
    """An address, put together from its parts; one without a host, as `postgresql:///db`, keeps its slashes."""
    fragment = f"#{url.fragment}" if url.fragment else ""
    return f"{url.scheme}://{url.netloc}{url.path}{'?' if url.query else ''}{url.query}{fragment}"


def parse_address(text: str) -> Address:
    """The table that an address names.

    >>> parse_address("postgresql://ann:secret@db/sales?table=answers.sums&sslmode=require")
    Address(shown='postgresql://ann@db/sales?table=answers.sums', table='sums', schema='answers', replace=False)
    >>> parse_address("postgresql:///sales?table=sums&host=/run/postgresql").conninfo
    'postgresql:///sales?host=%2Frun%2Fpostgresql'

    Raises: ValueError where it names none.
    """
    must_be_one(text)
    url = urlsplit(text)
    given = parse_qsl(url.query, keep_blank_values=True)
    ours = {key: value for key, value in given if key in ("table", "replace")}
    schema, dot, table = ours.get("table", "").rpartition(".")
    if not table or (dot and not schema):
        raise ValueError(f"which table? Say it as in {url.scheme}://…/{url.path.lstrip('/') or 'db'}?table=answer")
    if table in OURS:
        raise ValueError(f"{table} is a table that mrql keeps for itself; name another one")
    if any(len(name.encode()) > NAME_MAX_BYTES for name in (schema, table)):
        raise ValueError(f"the name of a table has at most {NAME_MAX_BYTES} bytes")
    if ours.get("replace", "false") not in ("true", "false"):
        raise ValueError(f"replace is true or false, not {ours['replace']}")
    if url.fragment:
        raise ValueError("a # in an address is written %23")
    rest = urlencode([(key, value) for key, value in given if key not in ours], quote_via=quote)
    user, at, host = url.netloc.rpartition("@")
    public = f"{user.split(':', 1)[0]}{at}{host}"
    shown = _written(SplitResult(SCHEMES[0], public, url.path, f"table={ours['table']}", ""))
    conninfo = _written(SplitResult(SCHEMES[0], url.netloc, url.path, rest, ""))
    return Address(conninfo, shown, table, schema or None, ours.get("replace") == "true")
