"""Spark's run-time errors as errors of the query or its data, with the place.

An expression that can fail carries its place as a comment in its SQL text. Spark quotes the text around a fault, so
the comment comes back with the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from mrql.algebra.errors import OF_INTS, EngineError, MrqlError, TooFewDigits, UserError
from mrql.algebra.span import Source, Span
from mrql.algebra.types import DecimalType
from mrql.algebra.values.decimals import TOO_MANY_DIGITS, out_of_range
from mrql.runtime.files.durable import DiskFull
from mrql.runtime.spark.expressions.arrow import received
from mrql.runtime.spark.expressions.sum_columns import TOO_FEW_DIGITS
from mrql.runtime.spark.session.jvm_exit import ended, text_of

PLACE = re.compile(r"/\*@(\d+):(\d+)(?:@([^*;]*))?(;int)?\*/")
OVERFLOW = "integer overflow"
MESSAGES: dict[str, str] = {
    "ARITHMETIC_OVERFLOW": OVERFLOW,
    "BINARY_ARITHMETIC_OVERFLOW": OVERFLOW,
    "CAST_OVERFLOW": OVERFLOW,
    # Products of sums of longs are computed as decimals, and cast.
    "NUMERIC_VALUE_OUT_OF_RANGE": OVERFLOW,
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "remainder of a division by zero",
}
DIVISION_IMPOSSIBLE = "Division impossible"
"""Java's message for a remainder whose quotient has more digits than Spark allows; it has no place."""
WRAPPERS = (
    "java.util.concurrent.ExecutionException:",
    "java.util.concurrent.CompletionException:",
    "java.lang.reflect.InvocationTargetException",
    "java.lang.reflect.UndeclaredThrowableException",
    "org.apache.spark.SparkException: Exception thrown in awaitResult",
)
"""The exceptions that Java and Spark put around an error, whose cause says what is wrong."""
PYTHON_TRACEBACK = "Traceback (most recent call last):"
_CAUSE = "Caused by: "
READING = ("FAILED_READ_FILE", "MALFORMED_RECORD", "CANNOT_READ_FILE", "MALFORMED_CSV_RECORD", "MALFORMED_ROW")


@contextmanager
def translated(source: Source | None, find_malformed: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turns Spark's errors in the block into mrql's. `find_malformed` reads the data again and raises at a malformed
    row."""
    try:
        yield
    except MrqlError:
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        # Errors inside a task reach us wrapped by Spark, and then PySpark may not know them.
        text = text_of(error)
        if (fatal := ended(text)) is not None:
            raise fatal from None
        raise _translate(text, source, find_malformed) from error


def _translate(text: str, source: Source | None, find_malformed: Callable[[], None]) -> MrqlError:
    if "No space left on device" in text:
        return DiskFull("no space is left on the disk")
    if any(condition in text for condition in READING):
        try:
            find_malformed()
        except UserError as found:
            return found
        return UserError(f"the data could not be read: {_said(text)}")
    told = received(text, lambda file: source if file is None else _included(file))
    if told is not None:
        return told
    message = _message(text)
    if message is None:
        return EngineError(f"Spark failed: {_said(text)}")
    # The first comment in the quoted text is that of the outermost operator, which has failed.
    place = None if source is None else PLACE.search(text)
    span, of_ints = (None, False) if source is None or place is None else (_span(place, source), bool(place[4]))
    if message == TOO_FEW_DIGITS:
        return TooFewDigits(span)
    return UserError(message, span, OF_INTS if of_ints and message == OVERFLOW else None)


def _span(place: re.Match[str], source: Source) -> Span:
    start, end, file, _ = place.groups()
    return Span(_included(unquote(file)) if file else source, int(start), int(end))


def _message(text: str) -> str | None:
    if told := re.search(r"\[NUMERIC_VALUE_OUT_OF_RANGE\S* .* cannot be represented as Decimal\((\d+), (\d+)\)", text):
        return out_of_range(DecimalType(int(told[1]), int(told[2])))
    if DIVISION_IMPOSSIBLE in text:
        return TOO_MANY_DIGITS
    for condition, message in MESSAGES.items():
        if f"[{condition}" in text:
            return message
    invalid = re.search(
        r"\[CAST_INVALID_INPUT\] The value '(.*)' of the type \"STRING\" cannot be cast to \"(\w+)\"", text
    )
    if invalid:
        names = {"INT": "int", "BIGINT": "long", "DOUBLE": "double", "FLOAT": "float", "BOOLEAN": "bool"}
        return f'"{invalid[1]}" is not a value of type {names.get(invalid[2], invalid[2].lower())}'
    raised = re.search(r"\[USER_RAISED_EXCEPTION\] (?:/\*@[^*]*\*/ )?(.*?)(?: SQLSTATE.*)?$", text, re.MULTILINE)
    return raised[1] if raised else None


def _included(name: str) -> Source:
    return Source(name, Path(name).read_text(encoding="utf-8"), included=True)


def _said(text: str) -> str:
    """The most informative line: the exception of Python code that Spark has called, with its place; else the outermost
    exception that is more than a wrapper, without the line of py4j that names the call."""
    if PYTHON_TRACEBACK in text:
        return _of_python(text.partition(PYTHON_TRACEBACK)[2])
    lines = [line.strip(" :") for line in text.splitlines() if line.strip(" :")]
    telling = [line for line in lines if not line.startswith("An error occurred while calling")] or lines
    causes = [line.removeprefix(_CAUSE) for line in telling if line.startswith(_CAUSE)]
    heads = [*telling[:1], *causes]
    return next((head for head in heads if not head.startswith(WRAPPERS)), [*heads, "no message"][0])


def _of_python(traceback: str) -> str:
    """The first exception below a traceback, with its place; any others have come from it."""
    place = ""
    for line in traceback.splitlines():
        if line.startswith("  File "):
            place = line.strip()
        elif line.strip() and not line.startswith(" "):
            return f"{line} ({place})" if place else line
    return "code in Python has failed"
