"""Texts as messages show them: without passwords, and with control characters escaped."""

from __future__ import annotations

import re
import unicodedata

IN_ADDRESS = re.compile(r"(?:(?<=://)|(?<=:/))([^\s/:@\"']*):([^\s\"']*)(?=@)")
NO_PORT = re.compile(r"(?<=://)([^\s/:@\[?#\"']*):(?=[^\s/@?#\"']*[^\s/@?#\"'\d])([^\s/@?#\"']+)")
"""A user and a password without a host, which may be taken for a host and a port."""
IN_OPTION = re.compile(r"(?i)(\bpassword\s*=\s*)([^\s&\"']+)")


def without_passwords(text: str) -> str:
    """A text in which the passwords of addresses are asterisks; what stands behind them stays where it is.

    >>> without_passwords("postgresql://ann:se/cr:et@db/x?table=t&password=abc")
    'postgresql://ann:********@db/x?table=t&password=***'
    >>> without_passwords("postgresql:/ann:secret@db/x")
    'postgresql:/ann:******@db/x'
    """
    text = IN_ADDRESS.sub(lambda found: f"{found[1]}:{'*' * len(found[2])}", text)
    text = NO_PORT.sub(lambda found: f"{found[1]}:{'*' * len(found[2])}", text)
    return IN_OPTION.sub(lambda found: found[1] + "*" * len(found[2]), text)


def written_name(name: str) -> str:
    """The name of a field as a query writes it: in backquotes where it is no word, each backquote in it twice.

    >>> print(written_name("price"), written_name("unit price"), written_name("a`b"))
    price `unit price` `a``b`
    """
    return name if _WORD.fullmatch(name) else "`" + name.replace("`", "``") + "`"


_WORD = re.compile(r"[^\W\d]\w*")


def escaped(text: str, kept: str = "") -> str:
    r"""A text whose control characters are escaped, those that a terminal would obey or that turn its lines round.

    >>> print(escaped("a\x1b[2J\u202eb\n"))
    a\x1b[2J\u202eb\n
    """
    if text.isprintable():
        return text
    return "".join(_escaped(character) if character not in kept else character for character in text)


def _escaped(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return character.encode("unicode_escape").decode()
    return character


def showable(text: str, kept: str = "") -> str:
    """A text as a message shows it."""
    return escaped(without_passwords(text), kept)
