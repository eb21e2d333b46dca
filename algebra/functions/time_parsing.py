"""Texts as dates and timestamps in SQL, read as `atom_conversion.parse_atom` reads them."""

from __future__ import annotations

from mrql.algebra.functions.function import fails
from mrql.algebra.values.atom_conversion import DATE_TEXT, TIMESTAMP_TEXT, ZONE_TEXT


def moment_sql(timestamp: str) -> str:
    """A `TIMESTAMP_NTZ` as Spark's other kind, a moment; in UTC, in which expressions are analyzed."""
    return f"CAST({timestamp} AS TIMESTAMP)"


def utc_fields(moment: str) -> str:
    """A moment as a `TIMESTAMP_NTZ` with its UTC clock, whatever the zone of the session."""
    return _clock(f"unix_micros({moment})")


def nanosecond_sql(number: str) -> str:
    """The timestamp of a number of nanoseconds since 1970, rounded down to microseconds."""
    return _clock(f"({number} DIV 1000 - if({number} % 1000 < 0, 1, 0))")


def _clock(micros: str) -> str:
    return f"(TIMESTAMP_NTZ'1970-01-01' + make_dt_interval(0, 0, 0, CAST({micros} AS DECIMAL(20, 0)) / 1000000))"


BEFORE, AFTER = -62_135_596_800_000_001, 253_402_300_800_000_000
"""The last microsecond before the year 1 and the first one after the year 9999, since 1970."""


def _in_range(micros: str) -> str:
    """The microseconds; missing if they are outside the years 1 to 9999, which a zone may cause."""
    return f"nullif(nullif(greatest(least({micros}, {AFTER}L), {BEFORE}L), {BEFORE}L), {AFTER}L)"


def date_sql(text: str) -> str:
    """The date of a text; missing if it is not one."""
    return f"if({text} RLIKE '^\\\\s*{_escaped(DATE_TEXT)}\\\\s*\\\\z', try_cast({text} AS DATE), NULL)"


def timestamp_sql(text: str) -> str:
    """The timestamp of a text; missing if it is not one.

    It is read as a moment, with its own zone or UTC, since Spark ignores the zone when it reads a `TIMESTAMP_NTZ`.
    Spark requires seconds before a zone.
    """
    trimmed = f"regexp_replace({text}, '^\\\\s+|\\\\s+\\\\z', '')"
    with_seconds = f"regexp_replace({trimmed}, '^(.{{16}})(?!:)', '$1:00')"
    zoned = f"if({text} RLIKE '{_escaped(ZONE_TEXT)}\\\\s*\\\\z', {with_seconds}, concat({with_seconds}, 'Z'))"
    found = zoned_sql(f"if({text} RLIKE ':', {zoned}, concat({trimmed}, ' 00:00:00Z'))")
    return f"if({text} RLIKE '^\\\\s*{_escaped(TIMESTAMP_TEXT)}\\\\s*\\\\z', {found}, NULL)"


def zoned_sql(text: str) -> str:
    """The timestamp of a text with seconds and a zone; missing if it is not one."""
    return _clock(_in_range(f"unix_micros(try_cast({text} AS TIMESTAMP))"))


def parsed_date_sql(text: str, at: str) -> str:
    """The date of a text, or an error."""
    return _parsed(text, date_sql(text), "date", at)


def parsed_timestamp_sql(text: str, at: str) -> str:
    """The timestamp of a text, or an error."""
    return _parsed(text, timestamp_sql(text), "timestamp", at)


def _parsed(text: str, found: str, kind: str, at: str) -> str:
    wrong = fails(at, f'"{{}}" is not a value of type {kind}', text)
    return f"coalesce({found}, if({text} IS NULL, NULL, {wrong}))"


def _escaped(pattern: str) -> str:
    return pattern.replace("\\", "\\\\")
