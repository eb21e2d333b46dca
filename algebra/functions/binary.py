"""Functions of bytes, and conversions between bytes and text."""

from __future__ import annotations

import re
from base64 import b64encode

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, fails, version
from mrql.algebra.values.atom_conversion import NOT_A_TEXT, from_base64

_NOT_HEXADECIMAL = '"{}" has no two hexadecimal digits for each byte'
_NOT_BASE64 = '"{}" is no base64'


def _unhex(text: str) -> bytes:
    if not re.fullmatch("(?:[0-9A-Fa-f]{2})*", text):
        raise EvaluationError(_NOT_HEXADECIMAL.format(text))
    return bytes.fromhex(text)


def _unhex_sql(text: str, at: str) -> str:
    is_one = f"{text} RLIKE '^[0-9A-Fa-f]*\\\\z' AND char_length({text}) % 2 = 0"
    return f"CASE WHEN {text} IS NULL OR ({is_one}) THEN unhex({text}) ELSE {fails(at, _NOT_HEXADECIMAL, text)} END"


def _unbase64(text: str) -> bytes:
    found = from_base64(text)
    if found is None:
        raise EvaluationError(_NOT_BASE64.format(text))
    return found


def _unbase64_sql(text: str, at: str) -> str:
    return f"CASE WHEN {text} IS NULL THEN NULL ELSE coalesce({base64_sql(text)}, {fails(at, _NOT_BASE64, text)}) END"


def base64_sql(text: str) -> str:
    """The bytes of a text in canonical, padded base64; missing if it is not."""
    is_one = f"{text} RLIKE '^[A-Za-z0-9+/]*=?=?\\\\z' AND char_length({text}) % 4 = 0"
    bytes_ = f"if({is_one}, unbase64({text}), NULL)"
    return f"if({to_base64_sql(bytes_)} = {text}, {bytes_}, NULL)"  # the unused bits at the end must be 0


def to_base64_sql(value: str) -> str:
    """Bytes as base64 in one line, whatever the settings of the session."""
    return rf"replace(base64({value}), '\r\n', '')"


def text_of_bytes_sql(value: str, at: str) -> str:
    """The string whose UTF-8 the bytes are; an error if they are not UTF-8."""
    text = f"CAST({value} AS STRING)"
    return f"CASE WHEN {value} IS NULL OR is_valid_utf8({text}) THEN {text} ELSE {fails(at, NOT_A_TEXT)} END"


BINARY: tuple[Function, ...] = (
    Function(
        "hex",
        (version("binary -> string", lambda b: b.hex().upper(), "hex({0})"),),
        "bytes",
        "two hexadecimal digits for each byte",
        (('hex("añ" as binary)', '"61C3B1"'),),
    ),
    Function(
        "unhex",
        (version("string -> binary", _unhex, _unhex_sql),),
        "a string",
        "the bytes of which it has the hexadecimal digits",
        (('unhex("61c3B1") as string', '"añ"'), ('length(unhex(""))', "0")),
    ),
    Function(
        "base64",
        (version("binary -> string", lambda b: b64encode(b).decode(), lambda b, at: to_base64_sql(b)),),
        "bytes",
        "as base64",
        (('base64(unhex("00FF"))', '"AP8="'),),
    ),
    Function(
        "unbase64",
        (version("string -> binary", _unbase64, _unbase64_sql),),
        "a string",
        "the bytes of which it is the base64, with padding",
        (('hex(unbase64("AP8="))', '"00FF"'),),
    ),
)
