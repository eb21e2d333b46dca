"""Signatures of functions, written as `[t], long -> t`.

A signature has basic types, lists, bags and tuples, and variables, which stand for any type of their kind:

    t, u    any type              n    a number, but no decimal (`decimals.py`)
    o       an ordered type       i    an integer
    a       an atomic type, except documents

Arguments of the same variable are widened to their common type. `string...` at the end stands for any number of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.types import Type


@attrs.frozen
class Variable:
    name: str

    def __str__(self) -> str:
        return self.name


@attrs.frozen
class Built:
    """A list, bag or tuple of patterns; `sign` is its opening bracket."""

    sign: str
    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return f"{self.sign}{', '.join(map(str, self.parts))}{CLOSING[self.sign]}"


Pattern: TypeAlias = ty.Basic | Variable | Built

CLOSING = {"[": "]", "{": "}", "(": ")"}
BASIC: Mapping[str, ty.Basic] = ty.BASIC
ADMITS: Mapping[str, Callable[[Type], bool]] = {
    "t": lambda t: True,
    "u": lambda t: True,
    "n": lambda t: ty.is_numeric(t) and not isinstance(t, ty.DecimalType),
    "i": lambda t: ty.is_integral(t) or t == ty.NOTHING,
    "o": ty.is_ordered,
    "a": lambda t: isinstance(t, ty.Basic | ty.Nothing) and not ty.is_document(t),
}


@attrs.frozen
class Signature:
    """The types of the arguments and the result. With `more`, the last argument may occur any number of times."""

    params: tuple[Pattern, ...]
    result: Pattern
    more: bool = False

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.params))}{'…' if self.more else ''} → {self.result}"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The types to which the arguments are widened, and that of the result; None if the arguments do not fit."""
        params = self.params
        if self.more and len(args) >= len(params) - 1:
            params = (*params[:-1], *([params[-1]] * (len(args) - len(params) + 1)))
        if len(params) != len(args):
            return None
        found: dict[str, Type] = {}
        if not all(_match(param, arg, found) for param, arg in zip(params, args, strict=True)):
            return None
        if not all(ADMITS[name](t) for name, t in found.items()):
            return None
        return tuple(_type(param, found) for param in params), _type(self.result, found)


def signature(text: str) -> Signature:
    """The signature written as a text.

    >>> print(signature("[t], long -> t"))
    [t], long → t
    """
    arguments, _, result = text.partition("->")
    more = arguments.rstrip().endswith("...")
    (made,) = _patterns(result)
    return Signature(_patterns(arguments.replace("...", "")), made, more)


def _patterns(text: str) -> tuple[Pattern, ...]:
    opened: list[tuple[str, list[Pattern]]] = [("", [])]
    for sign in re.findall(r"\w+|[\[\]{}()]", text):
        if sign in CLOSING:
            opened.append((sign, []))
        elif sign in CLOSING.values():
            bracket, parts = opened.pop()
            opened[-1][1].append(Built(bracket, tuple(parts)))
        else:
            opened[-1][1].append(BASIC.get(sign) or Variable(sign))
    return tuple(opened[0][1])


def _match(pattern: Pattern, t: Type, found: dict[str, Type]) -> bool:
    match pattern, t:
        case Variable(name), _:
            joined = ty.join_types(found.get(name, ty.NOTHING), t)
            if joined is None:
                return False
            found[name] = joined
            return True
        case ty.Basic(), _:
            return ty.fits(t, pattern)
        case Built(), ty.Nothing():
            return all(_match(part, t, found) for part in pattern.parts)
        case Built("[", (part,)), ty.ListType(item):
            return _match(part, item, found)
        case Built("{", (part,)), ty.BagType(item):
            return _match(part, item, found)
        case Built("(", parts), ty.TupleType(items) if len(parts) == len(items):
            return all(_match(part, item, found) for part, item in zip(parts, items, strict=True))
        case _:
            return False


def _type(pattern: Pattern, found: Mapping[str, Type]) -> Type:
    match pattern:
        case Variable(name):
            return found[name]
        case Built("[", (part,)):
            return ty.ListType(_type(part, found))
        case Built("{", (part,)):
            return ty.BagType(_type(part, found))
        case Built(_, parts):
            return ty.TupleType(tuple(_type(part, found) for part in parts))
        case _:
            return pattern


@attrs.frozen
class Exact:
    """A signature without variables."""

    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.params))}): {self.result}"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The types to which the arguments are widened, and that of the result; None if the arguments do not fit."""
        if len(args) != len(self.params) or not all(map(ty.fits, args, self.params)):
            return None
        return self.params, self.result
