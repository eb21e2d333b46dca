"""The base class of the builders of all kinds of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from lark import Token

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
# Python refuses to read integers with thousands of digits; no value of the language has this many.
_NUMBER_MAX_DIGITS = 400


class Builder:
    """Makes nodes for a part of a source that begins at `offset`.

    The methods of its subclasses are named after the rules of the grammar. Each takes the span that the rule matched,
    and then the rule's parts. `parse_part` parses the expression between two offsets of the source.
    """

    def __init__(self, source: Source, offset: int, parse_part: Callable[[int, int], syntax.Expr]) -> None:
        self._source = source
        self._offset = offset
        self._parse_part = parse_part

    def _span(self, token: Token) -> Span:
        return Span(self._source, self._offset + (token.start_pos or 0), self._offset + (token.end_pos or 0))

    def _string(self, token: Token) -> str:
        def escape(match: re.Match[str]) -> str:
            code, char = match.groups()
            # An unknown escape is two characters, as in Apache MRQL, so that "\d+" is a regular expression.
            return chr(int(code, 16)) if code else _ESCAPES.get(char, "\\" + char)

        text = _ESCAPE.sub(escape, token[1:-1])
        if any("\ud800" <= c <= "\udfff" for c in text):
            try:
                text = text.encode("utf-16", "surrogatepass").decode("utf-16")
            except UnicodeDecodeError:
                raise UserError("the string holds half a surrogate pair", self._span(token)) from None
        return text

    def _integer(self, token: Token) -> int:
        if len(token) > _NUMBER_MAX_DIGITS:
            raise UserError("the number is too large", self._span(token))
        return int(token)

    def _decimal(self, token: Token) -> Decimal:
        if len(token) > _NUMBER_MAX_DIGITS:
            raise UserError("the number is too large", self._span(token))
        return Decimal(token[:-1])

    def _float(self, token: Token) -> float:
        value = float(token)
        if value == float("inf"):
            raise UserError("the number is too large for a double", self._span(token))
        return value
