"""Scalar functions: rows of the table, each with a version for each kind of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from mrql.algebra.functions.signatures import signature
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value

Implementation = Callable[..., Value]
Sql = Callable[..., str]
"""From the arguments in SQL, and a comment with the place for expressions that can fail, to SQL."""


class Types(Protocol):
    """A signature: the types that a function takes and returns."""

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The types to which the arguments are widened, and that of the result; None if the arguments do not fit."""


@attrs.frozen
class Version:
    """A function for one kind of arguments: its signature, its implementation, and its Catalyst form as SQL text."""

    signature: Types
    apply: Implementation
    sql: Sql | None
    """None if the compiler of expressions has a form of its own, because the function inspects tuples and bags."""
    of_types: bool = False
    """Whether the implementation takes the types of the arguments as its first argument."""


@attrs.frozen
class Function:
    """A scalar function. Functions are compared by name.

    An implementation gets values already widened to the types of its signature; with a missing argument the result is
    missing, unless the function is `null_safe`.
    """

    name: str
    versions: tuple[Version, ...] = attrs.field(eq=False, repr=False)
    takes: str = attrs.field(eq=False, repr=False)
    """Its arguments in words, for error messages: `a string, a start and an end`."""
    meaning: str = attrs.field(default="", eq=False, repr=False)
    examples: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=False, repr=False)
    """Calls with their values, both as the language writes them."""
    also: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)
    """Alternative names in the language."""
    null_safe: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether it is called with missing arguments too."""
    constant: Callable[[Sequence[Any]], str | None] | None = attrs.field(default=None, eq=False, repr=False)
    """The error message for the constant arguments, those at the places in `constants`; None if they are valid."""
    constants: tuple[int, ...] = attrs.field(default=(), eq=False, repr=False)
    """The places of the arguments that must be constants."""

    cache: dict[tuple[Type, ...], tuple[Version, tuple[Type, ...], Type] | None] = attrs.field(
        init=False, factory=dict, eq=False, repr=False
    )
    """The results of `resolved`, by the types of the arguments."""

    def __reduce__(self) -> Any:
        # Terms are sent to Spark's Python workers, which have the same table of functions.
        if FUNCTIONS.get(self.name) is self:
            return _named, (self.name,)
        # The cache of versions is not sent; it is filled again at the destination.
        return _made, (type(self), {f.name: getattr(self, f.name) for f in attrs.fields(type(self)) if f.init})

    def type_rule(self, args: Sequence[Type]) -> Type | None:
        """The type of the result, or None where the function does not apply."""
        found = resolved(self, tuple(args))
        return None if found is None else found[2]


FUNCTIONS: dict[str, Function] = {}
"""All functions of the table by name; the package fills it from the file of each kind."""


def _made(kind: type[Function], fields: dict[str, Any]) -> Function:
    return kind(**fields)


def _named(name: str) -> Function:
    return FUNCTIONS[name]


def resolved(function: Function, args: tuple[Type, ...]) -> tuple[Version, tuple[Type, ...], Type] | None:
    """The version of a function for arguments of these types, the types to which they are widened, and the result type;
    None if the function does not apply."""
    if args not in function.cache:
        fitted = ((version, version.signature.fitted(args)) for version in function.versions)
        function.cache[args] = next(((version, *types) for version, types in fitted if types is not None), None)
    return function.cache[args]


def version(text: str, apply: Implementation, sql: str | Sql | None) -> Version:
    """A version of a function. `sql` may be a format such as `concat({0}, {1})`, with `{at}` for the place and `{all}`
    for all arguments."""
    return Version(signature(text), apply, _formatted(sql) if isinstance(sql, str) else sql)


def _formatted(text: str) -> Sql:
    return lambda *args: text.format(*args[:-1], at=args[-1], all=", ".join(args[:-1]))


def fails(at: str, message: str, *arguments: str) -> str:
    """SQL that raises an error; each `{}` in the message stands for an argument in SQL."""
    pieces = [f"'{piece}'" for piece in message.split("{}")]
    parts = [pieces[0], *(part for pair in zip(arguments, pieces[1:], strict=True) for part in pair)]
    parts[0] = f"'{at}{parts[0][1:]}"
    return f"raise_error({parts[0]})" if len(parts) == 1 else f"raise_error(concat({', '.join(parts)}))"


def clamped(number: str, low: int, high: int) -> str:
    """An integer limited to a range, as an `INT`; a missing one stays missing."""
    return (
        f"CAST(CASE WHEN {number} < {low}L THEN {low}L WHEN {number} > {high}L THEN {high}L ELSE {number} END AS INT)"
    )
