"""Functions of dates and timestamps. A timestamp is in UTC, in both engines and whatever the settings.

On Spark a timestamp is a `TIMESTAMP_NTZ`: the fields of the UTC clock, not a moment that the time zone of a session
could shift. Functions that Spark only has for its other kind are analyzed in UTC (`runtime.spark.session.session`).
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from typing import Any

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions import time_reading, time_writing
from mrql.algebra.functions.conversion import convert
from mrql.algebra.functions.function import Function, Sql, clamped, fails, version
from mrql.algebra.functions.sql_text import text_of
from mrql.algebra.functions.time_parsing import moment_sql, parsed_date_sql, parsed_timestamp_sql
from mrql.algebra.values.atom_conversion import parse_atom
from mrql.algebra.values.values import Value

OUTSIDE = "a time outside of the years 1 to 9999"
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_EPOCH = datetime(1970, 1, 1)


def _bounded(made: Callable[..., Value]) -> Callable[..., Value]:
    def apply(*args: Value) -> Value:
        try:
            return made(*args)
        except (OverflowError, ValueError):
            raise EvaluationError(OUTSIDE) from None

    return apply


def _bounded_sql(made: str, kind: str, at: str) -> str:
    """SQL for a time, with an error if it is outside the years 1 to 9999."""
    low, high = (
        ("0001-01-01", "9999-12-31") if kind == "DATE" else ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
    )
    return f"CASE WHEN {made} < {kind}'{low}' OR {made} > {kind}'{high}' THEN {fails(at, OUTSIDE)} ELSE {made} END"


def _later(**unit: int) -> Callable[..., Value]:
    """The function that adds a number of units to a time."""
    return _bounded(lambda t, n: t + n * timedelta(**unit))


def _later_sql(seconds: int) -> Sql:
    def sql(t: str, n: str, at: str) -> str:
        bound = 400_000_000_000 // seconds
        count = f"CASE WHEN {n} < -{bound}L THEN -{bound}L WHEN {n} > {bound}L THEN {bound}L ELSE {n} END"
        interval = f"make_dt_interval(0, 0, 0, CAST({count} AS DECIMAL(18, 6)) * {seconds})"
        return _bounded_sql(f"({t} + {interval})", "TIMESTAMP_NTZ", at)

    return sql


def _days_later_sql(sign: str) -> Sql:
    return lambda d, n, at: _bounded_sql(f"date_{sign}({d}, {clamped(n, -4_000_000, 4_000_000)})", "DATE", at)


def _months_later(t: Value, n: int) -> Value:
    year, month = divmod(t.year * 12 + t.month - 1 + n, 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise OverflowError
    return t.replace(year=year, month=month + 1, day=min(t.day, calendar.monthrange(year, month + 1)[1]))


def _months_sql(kind: str, months: int) -> Sql:
    def sql(t: str, n: str, at: str) -> str:
        count = f"{clamped(n, -200_000 // months, 200_000 // months)} * {months}"
        made = f"add_months({t}, {count})" if kind == "DATE" else f"({t} + make_ym_interval(0, {count}))"
        return _bounded_sql(made, kind, at)

    return sql


def _truncated(unit: str, t: datetime) -> datetime:
    match unit:
        case "year":
            t = t.replace(month=1, day=1)
        case "quarter":
            t = t.replace(month=(t.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            t = t.replace(day=1)
        case "week":
            t -= timedelta(days=t.weekday())
    if unit in ("hour", "minute", "second"):
        kept = {"hour": ("minute", "second"), "minute": ("second",), "second": ()}[unit]
        return t.replace(microsecond=0, **dict.fromkeys(kept, 0))  # type: ignore[arg-type]
    return datetime.combine(t.date(), time())


def _wrong_unit(args: Sequence[Any]) -> str | None:
    return None if args[0] in UNITS else f'the unit must be one of {", ".join(UNITS)}, not "{args[0]}"'


def _made(kind: Callable[..., Value]) -> Callable[..., Value]:
    def apply(*fields: int) -> Value:
        try:
            return kind(*fields)
        except (ValueError, OverflowError):
            raise EvaluationError(f"there is no such {kind.__name__.replace('datetime', 'time')}") from None

    return apply


def _made_sql(*fields: str) -> str:
    """The date or timestamp with the given fields, or an error; that of Spark's own function has no place."""
    *numbers, at = fields
    year, month, day, *clock = (clamped(n, -1, 10_000) for n in numbers)
    digits = (f"lpad({part}, {width}, '0')" for part, width in ((year, 4), (month, 2), (day, 2)))
    made = f"try_cast(concat_ws('-', {', '.join(digits)}) AS DATE)"
    there = [
        f"{year} BETWEEN 1 AND 9999",
        f"{month} BETWEEN 1 AND 12",
        f"{day} BETWEEN 1 AND 31",
        f"{made} IS NOT NULL",
    ]
    there += [f"{part} BETWEEN 0 AND {most}" for part, most in zip(clock, (23, 59, 59), strict=False)]
    value = made
    if clock:
        hour, minute, second = clock
        seconds = f"({hour} * 3600 + {minute} * 60 + {second})"
        value = f"(CAST({made} AS TIMESTAMP_NTZ) + make_dt_interval(0, 0, 0, CAST({seconds} AS DECIMAL(18, 6))))"
    missing = " OR ".join(f"{number} IS NULL" for number in numbers)
    error = fails(at, f"there is no such {'time' if clock else 'date'}")
    return f"CASE WHEN {missing} THEN NULL WHEN {' AND '.join(there)} THEN {value} ELSE {error} END"


def _read_sql(kind: str) -> Sql:
    def sql(text: str, pattern: str, at: str) -> str:
        read = f"CAST({time_reading.read_sql(text, text_of(pattern))} AS {kind})"
        wrong = fails(at, '"{}" is not written as {}', text, pattern)
        return f"CASE WHEN {text} IS NULL THEN NULL WHEN {read} IS NULL THEN {wrong} ELSE {read} END"

    return sql


def _micros(t: datetime) -> int:
    return (t - _EPOCH) // timedelta(microseconds=1)


def _from_unix_sql(n: str, at: str) -> str:
    count = (
        f"CASE WHEN {n} < -400000000000L THEN -400000000000L WHEN {n} > 400000000000L THEN 400000000000L ELSE {n} END"
    )
    return _bounded_sql(f"CAST(timestamp_seconds({count}) AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ", at)


def _field(name: str, apply: Callable[[datetime], int], meaning: str, example: str, sql: str = "") -> Function:
    catalyst = sql or f"{name}({{0}})"
    call = f'{name}(timestamp("2026-01-31 10:20:30"))'
    return Function(
        name, (version("timestamp -> int", apply, catalyst),), "a date or a timestamp", meaning, ((call, example),)
    )


def _moved(name: str, unit: str, versions: Sequence[tuple[str, Callable[..., Value], Sql]], *examples: tuple[str, str],
           also: tuple[str, ...] = (), takes: str = "a date or a timestamp and an integer") -> Function:  # fmt: skip
    made = tuple(version(f"{kind}, long -> {kind}", apply, sql) for kind, apply, sql in versions)
    return Function(name, made, takes, f"so many {unit}", examples, also)


_MONTHS = _bounded(_months_later)
_YEARS = _bounded(lambda t, n: _months_later(t, 12 * n))

TIMES: tuple[Function, ...] = (
    Function(
        "date",
        (
            version("string -> date", lambda text: parse_atom(text, ty.DATE), parsed_date_sql),
            version("timestamp -> date", lambda t: t.date(), "CAST({0} AS DATE)"),
            version("long, long, long -> date", _made(date), _made_sql),
        ),
        "a string, a timestamp, or year, month and day",
        "the date of a text, of a timestamp, or of these numbers",
        (
            ('date("2026-01-31")', '"2026-01-31" as date'),
            ("date(2026, 1, 31)", 'date("2026-01-31")'),
            ('date(timestamp("2026-01-31 10:20:30"))', 'date("2026-01-31")'),
        ),
    ),
    Function(
        "timestamp",
        (
            version("string -> timestamp", lambda text: parse_atom(text, ty.TIMESTAMP), parsed_timestamp_sql),
            version("timestamp -> timestamp", lambda t: t, "{0}"),
            version("long, long, long, long, long, long -> timestamp", _made(datetime), _made_sql),
        ),
        "a string, a date, or year, month, day, hour, minute and second",
        "the timestamp of a text, at the beginning of a date, or of these numbers",
        (
            ('timestamp("2026-01-31T10:20:30+02:00")', 'timestamp("2026-01-31 08:20:30")'),
            ('timestamp(date("2026-01-31"))', "timestamp(2026, 1, 31, 0, 0, 0)"),
        ),
    ),
    _field("year", lambda t: t.year, "the year", "2026"),
    _field("quarter", lambda t: (t.month - 1) // 3 + 1, "the quarter, 1 to 4", "1"),
    _field("month", lambda t: t.month, "the month, 1 to 12", "1"),
    _field("week", lambda t: t.isocalendar()[1], "the week of ISO 8601, 1 to 53", "5", "weekofyear({0})"),
    _field("day", lambda t: t.day, "the day of the month", "31"),
    _field("day_of_week", lambda t: t.isoweekday(), "the day of the week, 1 for Monday", "6", "(weekday({0}) + 1)"),
    _field("day_of_year", lambda t: t.timetuple().tm_yday, "the day of the year", "31", "dayofyear({0})"),
    _field("hour", lambda t: t.hour, "the hour, 0 to 23", "10"),
    _field("minute", lambda t: t.minute, "the minute", "20"),
    _field("second", lambda t: t.second, "the second, without its fraction", "30"),
    _moved(
        "add_days",
        "days later",
        [
            ("date", _later(days=1), _days_later_sql("add")),
            ("timestamp", _later(days=1), _later_sql(86400)),
        ],
        ('add_days(date("2026-02-28"), 1)', 'date("2026-03-01")'),
        also=("date_add",),
    ),
    _moved(
        "date_sub",
        "days earlier",
        [("date", _bounded(lambda t, n: t - n * timedelta(days=1)), _days_later_sql("sub"))],
        ('date_sub(date("2026-03-01"), 1)', 'date("2026-02-28")'),
        takes="a date and an integer",
    ),
    _moved(
        "add_months",
        "months later, on the month's last day where it has not as many",
        [
            ("date", _MONTHS, _months_sql("DATE", 1)),
            ("timestamp", _MONTHS, _months_sql("TIMESTAMP_NTZ", 1)),
        ],
        ('add_months(date("2026-01-31"), 1)', 'date("2026-02-28")'),
    ),
    _moved(
        "add_years",
        "years later",
        [("date", _YEARS, _months_sql("DATE", 12)), ("timestamp", _YEARS, _months_sql("TIMESTAMP_NTZ", 12))],
        ('add_years(date("2024-02-29"), 1)', 'date("2025-02-28")'),
    ),
    *(
        _moved(
            f"add_{unit}",
            f"{unit} later",
            [("timestamp", _later(**{unit: 1}), _later_sql(seconds))],
            (f'add_{unit}(timestamp("2026-01-31 23:59:59"), 1)', f'timestamp("{after}")'),
        )
        for unit, seconds, after in (
            ("hours", 3600, "2026-02-01 00:59:59"),
            ("minutes", 60, "2026-02-01 00:00:59"),
            ("seconds", 1, "2026-02-01"),
        )
    ),
    Function(
        "date_diff",
        (version("date, date -> int", lambda a, b: (a - b).days, "datediff({0}, {1})"),),
        "two dates",
        "the days from the second to the first",
        (('date_diff(date("2026-03-01"), date("2026-02-01"))', "28"),),
        ("datediff",),
    ),
    Function(
        "seconds_between",
        (
            version(
                "timestamp, timestamp -> double",
                lambda a, b: (_micros(a) - _micros(b)) / 1e6,
                lambda a, b, at: f"((unix_micros({moment_sql(a)}) - unix_micros({moment_sql(b)})) / 1000000D)",
            ),
        ),
        "two timestamps",
        "the seconds from the second to the first",
        (('seconds_between(timestamp("2026-01-01 00:01:00"), timestamp("2026-01-01"))', "60.0"),),
    ),
    Function(
        "date_trunc",
        (
            version(
                "string, date -> date",
                lambda unit, d: _truncated(unit, convert(d, ty.TIMESTAMP)).date(),
                "CAST(date_trunc({0}, CAST({1} AS TIMESTAMP)) AS DATE)",
            ),
            version(
                "string, timestamp -> timestamp",
                _truncated,
                "CAST(date_trunc({0}, CAST({1} AS TIMESTAMP)) AS TIMESTAMP_NTZ)",
            ),
        ),
        "a unit and a date or a timestamp",
        f"the beginning of the unit that it is in: {', '.join(UNITS)}",
        (('date_trunc("month", date("2026-01-31"))', 'date("2026-01-01")'),),
        constant=_wrong_unit,
        constants=(0,),
    ),
    Function(
        "last_day",
        (version("date -> date", lambda d: d.replace(day=calendar.monthrange(d.year, d.month)[1]), "last_day({0})"),),
        "a date",
        "the last day of its month",
        (('last_day(date("2026-02-03"))', 'date("2026-02-28")'),),
    ),
    Function(
        "date_format",
        (
            version(
                "timestamp, string -> string",
                time_writing.written,
                lambda t, pattern, at: time_writing.written_sql(t, text_of(pattern)),
            ),
        ),
        "a date or a timestamp and a pattern",
        "as text, by a pattern",
        (
            ('date_format(date("2026-01-31"), "dd.MM.yyyy")', '"31.01.2026"'),
            ('date_format(timestamp("2026-01-31 15:04:05"), "EEE, d MMM, h:mm a")', '"Sat, 31 Jan, 3:04 PM"'),
        ),
        constant=time_writing.wrong_to_write,
        constants=(1,),
    ),
    Function(
        "parse_date",
        (version("string, string -> date", time_reading.read_date, _read_sql("DATE")),),
        "a string and a pattern",
        "the date of a text that is written by a pattern",
        (('parse_date("31.01.2026", "dd.MM.yyyy")', 'date("2026-01-31")'),),
        constant=time_reading.wrong_to_read,
        constants=(1,),
    ),
    Function(
        "parse_timestamp",
        (version("string, string -> timestamp", time_reading.read, _read_sql("TIMESTAMP_NTZ")),),
        "a string and a pattern",
        "the timestamp of a text that is written by a pattern",
        (('parse_timestamp("2026/01/31 10:20", "yyyy/MM/dd HH:mm")', 'timestamp("2026-01-31 10:20")'),),
        constant=time_reading.wrong_to_read,
        constants=(1,),
    ),
    Function(
        "to_unix",
        (version("timestamp -> long", lambda t: _micros(t) // 10**6, lambda t, at: f"unix_seconds({moment_sql(t)})"),),
        "a timestamp",
        "the whole seconds since 1970-01-01 00:00:00",
        (('to_unix(timestamp("1970-01-02"))', "86400"),),
    ),
    Function(
        "from_unix",
        (version("long -> timestamp", _bounded(lambda n: _EPOCH + timedelta(seconds=n)), _from_unix_sql),),
        "an integer",
        "the timestamp of so many seconds since 1970-01-01 00:00:00",
        (("from_unix(86400)", 'timestamp("1970-01-02")'),),
    ),
)
