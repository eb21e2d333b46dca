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
"""A quoted address, up to the closing quote; an unquoted one of PostgreSQL, up to the end of its line, since a password
may contain spaces; any other address, up to a space or a quote."""
USER = re.compile(r"(?P<before>\w[\w+.-]*:/*[^/:@]*:)(?P<secret>.*)(?=@)", re.DOTALL)
"""A user and a password, before a host."""
PORT = re.compile(r"\d{1,5}(?=[/?]|$)")
NO_PORT = re.compile(r"(?P<before>\w[\w+.-]*:/*[^/:@\[?#]*:)(?=[^/@?#]*[^/@?#\d])(?P<secret>[^/@?#]+)")
"""A user and a password without a host, which look like a host and a port, except that the port is not a number."""
OPTION = re.compile(r"(?P<before>[?&](?P<key>[^=&?]*)=)(?P<secret>[^&]*)")
IN_OPTION = re.compile(r"""(?i)(?P<before>\b(?:ssl)?password\s*=\s*)(?P<secret>'(?:\\.|[^'\\\n])+'|[^\s&"']+)""")
"""A password as an option anywhere in a text, also in the notation of libpq."""


@functools.lru_cache(maxsize=8)
def without_passwords(text: str) -> str:
    """The text with the passwords of addresses replaced by as many asterisks, so that all else keeps its position.

    >>> without_passwords("postgresql://ann:se/cr:et@db/x?table=t&password=abc")
    'postgresql://ann:********@db/x?table=t&password=***'
    >>> without_passwords("postgresql:/ann:sec ret@db/x")
    'postgresql:/ann:*******@db/x'
    >>> print(without_passwords('stream(postgresql, "postgresql://db/x?passwor%64=a b", type(row))'))
    stream(postgresql, "postgresql://db/x?passwor%64=***", type(row))
    """
    return IN_OPTION.sub(_hidden, ADDRESS.sub(_public, text))


def is_secret(key: str) -> bool:
    """Whether the name of an option, as it is written in an address, is that of a password.

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
        # A port, followed by a message about the address: `postgresql://db:5432/x: there is no role "ann@home"`.
        user = USER.match(first)
    user = user or NO_PORT.match(first)
    if user is not None:
        address = _hidden(user) + address[user.end() :]
    return quote + OPTION.sub(lambda option: _hidden(option) if is_secret(option["key"]) else option[0], address)


def _hidden(found: re.Match[str]) -> str:
    """The match with asterisks for its secret; line breaks stay."""
    return found["before"] + re.sub(r"[^\n]", "*", found["secret"])


def written_name(name: str) -> str:
    r"""The name of a field as a query writes it: in backquotes if it is not a word, with each backquote doubled and
    control characters as `\uXXXX`.

    >>> print(written_name("price"), written_name("unit price"), written_name("a`b"), written_name("a\x1b"))
    price `unit price` `a``b` `a\u001b`
    """
    if _WORD.fullmatch(name):
        return name
    # A backslash that would begin an escape is itself written as one.
    plain = _NUMBER.sub(r"\\u005cu\1", name)
    return "`" + numbered(plain).replace("`", "``") + "`"


def named(written: str) -> str:
    r"""The name that a text between backquotes stands for.

    >>> print(named("a``b"), named(r"a\u0062"), named(r"\u005cu0062"))
    a`b ab \u0062

    Raises: UnicodeDecodeError if it has half a surrogate pair.
    """
    found = _NUMBER.sub(lambda number: chr(int(number[1], 16)), written.replace("``", "`"))
    return found.encode("utf-16", "surrogatepass").decode("utf-16") if _HALF.search(found) else found


_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"\\u([0-9A-Fa-f]{4})")
_HALF = re.compile("[\ud800-\udfff]")
JOINERS = "\u200c\u200d"
"""Format characters that words of Persian and emoji contain."""


def escaped(text: str, kept: str = "") -> str:
    r"""The text with control characters escaped, which a terminal would obey, or which reverse the order of its text.

    >>> print(escaped("a\x1b[2J\u202eb\n"))
    a\x1b[2J\u202eb\n
    """
    return _without_controls(text, kept, lambda character: character.encode("unicode_escape").decode())


def numbered(text: str, kept: str = "") -> str:
    r"""The text with control characters written as in JSON and in strings of the language.

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
    """The text as a message shows it: without passwords, with control characters escaped."""
    return escaped(without_passwords(text), kept)
