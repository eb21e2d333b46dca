"""Texts as messages show them: without passwords, and with control characters escaped."""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

ADDRESS = re.compile(
    r"""
    (?P<quote>["'])(?P<quoted>(?:postgres(?:ql)?:|[\w+.-]+:/)(?:\\.|(?!(?P=quote))[^\\])*)
    | (?P<ours>\bpostgres(?:ql)?:/*[^\s/:@"']*:(?!\s)(?:(?!postgres(?:ql)?:)[^\n])*)
    | (?P<other>(?<![\w+.-])[\w+.-]+:/[^\s"']*)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""An address in quotes, up to the end of these; one of PostgreSQL without quotes, with all of its line, since there may
be spaces in a password; any other one up to a space."""
USER = re.compile(r"(?P<before>\w[\w+.-]*:/*[^/:@]*:)(?P<secret>.*)(?=@)", re.DOTALL)
"""A user and a password, and a host."""
PORT = re.compile(r"\d{1,5}(?=[/?]|$)")
NO_PORT = re.compile(r"(?P<before>\w[\w+.-]*:/*[^/:@\[?#]*:)(?=[^/@?#]*[^/@?#\d])(?P<secret>[^/@?#]+)")
"""A user and a password without a host, which may be taken for a host and a port."""
OPTION = re.compile(r"(?P<before>[?&](?P<key>[^=&?]*)=)(?P<secret>[^&]*)")
IN_OPTION = re.compile(r"""(?i)(?P<before>\b(?:ssl)?password\s*=\s*)(?P<secret>'(?:\\.|[^'\\\n])+'|[^\s&"']+)""")
"""An option anywhere, as libpq writes them as well."""


@functools.lru_cache(maxsize=8)
def without_passwords(text: str) -> str:
    """A text in which the passwords of addresses are asterisks; what stands behind them stays where it is.

    >>> without_passwords("postgresql://ann:se/cr:et@db/x?table=t&password=abc")
    'postgresql://ann:********@db/x?table=t&password=***'
    >>> without_passwords("postgresql:/ann:sec ret@db/x")
    'postgresql:/ann:*******@db/x'
    >>> print(without_passwords('stream(postgresql, "postgresql://db/x?passwor%64=a b", type(row))'))
    stream(postgresql, "postgresql://db/x?passwor%64=***", type(row))
    """
    return IN_OPTION.sub(_hidden, ADDRESS.sub(_public, text))


def is_secret(key: str) -> bool:
    """Whether an option of an address, as it is written, has a password.

    >>> [is_secret(key) for key in ("password", "sslpassword", "passwor%64", "table")]
    [True, True, True, False]
    """
    return "password" in unquote(key).lower()


def _public(found: re.Match[str]) -> str:
    """An address without its passwords."""
    quote = found["quote"] or ""
    address = found[0][len(quote) :]
    first = address if quote else address.split(maxsplit=1)[0]
    user = USER.match(address)
    if user is not None and not quote and PORT.match(user["secret"]):
        # A port, and what is said of the address: `postgresql://db:5432/x: there is no role "ann@home"`.
        user = USER.match(first)
    user = user or NO_PORT.match(first)
    if user is not None:
        address = _hidden(user) + address[user.end() :]
    return quote + OPTION.sub(lambda option: _hidden(option) if is_secret(option["key"]) else option[0], address)


def _hidden(found: re.Match[str]) -> str:
    """What is found, with asterisks for what is secret; lines stay lines."""
    return found["before"] + re.sub(r"[^\n]", "*", found["secret"])


def written_name(name: str) -> str:
    r"""The name of a field as a query writes it: in backquotes where it is no word, each backquote in it twice, and
    control characters by their numbers.

    >>> print(written_name("price"), written_name("unit price"), written_name("a`b"), written_name("a\x1b"))
    price `unit price` `a``b` `a\u001b`
    """
    if _WORD.fullmatch(name):
        return name
    # A backslash that would begin a number is written as one.
    plain = _NUMBER.sub(r"\\u005cu\1", name)
    return "`" + numbered(plain).replace("`", "``") + "`"


def named(written: str) -> str:
    r"""What stands in backquotes as a name.

    >>> print(named("a``b"), named(r"a\u0062"), named(r"\u005cu0062"))
    a`b ab \u0062

    Raises: UnicodeDecodeError where it has half a surrogate pair.
    """
    found = _NUMBER.sub(lambda number: chr(int(number[1], 16)), written.replace("``", "`"))
    return found.encode("utf-16", "surrogatepass").decode("utf-16") if _HALF.search(found) else found


_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"\\u([0-9A-Fa-f]{4})")
_HALF = re.compile("[\ud800-\udfff]")
JOINERS = "\u200c\u200d"
"""What words of Persian and pictures are put together with."""


def escaped(text: str, kept: str = "") -> str:
    r"""A text whose control characters are escaped, those that a terminal would obey or that turn its lines round.

    >>> print(escaped("a\x1b[2J\u202eb\n"))
    a\x1b[2J\u202eb\n
    """
    return _without_controls(text, kept, lambda character: character.encode("unicode_escape").decode())


def numbered(text: str, kept: str = "") -> str:
    r"""A text whose control characters are written as JSON and strings of the language write them.

    >>> print(numbered("a\x9b\u202e\U000e0001"))
    a\u009b\u202e\udb40\udc01
    """
    return _without_controls(text, kept, _number)


def _without_controls(text: str, kept: str, written: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(
        written(character) if character not in kept and _is_control(character) else character for character in text
    )


def _number(character: str) -> str:
    return f"\\u{ord(character):04x}" if character <= "\x7f" else json.dumps(character)[1:-1]


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") and character not in JOINERS


def showable(text: str, kept: str = "") -> str:
    """A text as a message shows it."""
    return escaped(without_passwords(text), kept)
