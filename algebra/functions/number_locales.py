"""Numbers in the notation of a locale, such as `1.234,5`.

A locale, named by a tag of BCP 47, has a decimal separator, and possible separators between groups of three digits. A
number has an optional sign, digits, in groups or not, an optional fraction and an optional exponent; all its groups
have the same separator. It is brought into the form that the language reads, in Python and in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import attrs

SPACES = " \u00a0\u202f"
"""A blank, and two non-breaking spaces: people type the first, and programs write the others."""
POINT_COMMA = (".", ",")
COMMA_POINT = (",", ".")
COMMA_SPACE = (",", SPACES)

WRITTEN: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("en", "en-US", "en-GB", "en-AU", "en-CA", "en-IE", "en-NZ"), POINT_COMMA),
    **dict.fromkeys(("es-MX", "ja", "ja-JP", "ko", "ko-KR", "th", "th-TH", "zh", "zh-CN", "zh-TW"), POINT_COMMA),
    **dict.fromkeys(("de", "de-DE", "da", "da-DK", "el", "el-GR", "es", "es-ES", "es-AR", "id", "id-ID"), COMMA_POINT),
    **dict.fromkeys(("it", "it-IT", "nl", "nl-NL", "nl-BE", "pt", "pt-BR", "ro", "ro-RO", "tr", "tr-TR"), COMMA_POINT),
    **dict.fromkeys(("de-AT", "pt-PT"), (",", f".{SPACES}")),
    **dict.fromkeys(("de-CH", "it-CH", "de-LI"), (".", "\u2019'")),
    **dict.fromkeys(("bg", "bg-BG", "cs", "cs-CZ", "fi", "fi-FI", "fr", "fr-FR", "fr-BE", "fr-CA"), COMMA_SPACE),
    **dict.fromkeys(("hu", "hu-HU", "nb", "nb-NO", "pl", "pl-PL", "ru", "ru-RU", "sk", "sk-SK"), COMMA_SPACE),
    **dict.fromkeys(("sv", "sv-SE", "uk", "uk-UA"), COMMA_SPACE),
}
"""By the tag, the decimal separator and the possible separators between groups."""


@attrs.frozen
class NumberLocale:
    """The notation of numbers in a locale."""

    point: str
    between: str
    """The possible separators between groups of three digits."""

    def regex(self, encoding: str = "utf-8", *, whole: bool = False) -> str:
        """The regular expression of a number, or a `whole` one, in this notation, for Python and Java. Characters
        outside ASCII may have been read byte by byte, as those of another `encoding`."""
        groups = rf"[0-9]{{1,3}}(?:({self.separator(encoding)})[0-9]{{3}}(?:\1[0-9]{{3}})*+)?+"
        if whole:
            return f"[+-]?(?:{groups}|[0-9]++)"
        point = re.escape(self.point)
        return f"[+-]?(?:(?:{groups}|[0-9]++)(?:{point}[0-9]*+)?|{point}[0-9]++)(?:[eE][+-]?[0-9]++)?"

    def separator(self, encoding: str = "utf-8") -> str:
        """The regular expression of a separator between groups, for Python and Java."""
        return "|".join(re.escape(sign.encode().decode(encoding)) for sign in self.between)

    def canonical(self, field: str) -> str | None:
        """A number in the form that the language reads; None if it is not in this notation.

        >>> number_locale("de").canonical("-1.234.567,5"), number_locale("de").canonical("1,234.5")
        ('-1234567.5', None)
        >>> number_locale("fr").canonical("1 234"), number_locale("fr").canonical("1 23")
        ('1234', None)
        """
        number, separator = _for_python(self)
        return None if number.fullmatch(field) is None else separator.sub("", field).replace(self.point, ".")


@lru_cache(maxsize=64)
def _for_python(locale: NumberLocale) -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(locale.regex()), re.compile(locale.separator())


@lru_cache(maxsize=64)
def number_locale(tag: str) -> NumberLocale:
    """The notation of numbers in the locale of a tag.

    Raises: ValueError with the known tags, for another one.
    """
    if tag not in WRITTEN:
        raise ValueError(f"it is one of {', '.join(sorted(WRITTEN))}")
    return NumberLocale(*WRITTEN[tag])
