"""What a scalar function is: a row of the table, in as many versions as it has kinds of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from mrql.algebra.functions.signatures import signature
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value

Implementation = Callable[..., Value]
Sql = Callable[..., str]
"""From the arguments in SQL, and a comment with the place for what can fail, to SQL."""


class Types(Protocol):
    """What a function takes and gives."""

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """What the arguments are widened to, and the type of the result; None where they do not fit."""


@attrs.frozen
class Version:
    """A function for one kind of arguments: what it takes and gives, its value, and its Catalyst form as SQL text."""

    signature: Types
    apply: Implementation
    sql: Sql | None
    """None where the compiler of expressions has a form of its own, since it looks into tuples and bags."""
    of_types: bool = False
    """Whether the implementation is given the types of the arguments, before these."""


@attrs.frozen
class Function:
    """A scalar function. Two functions are equal when their names are.

    An implementation sees values that were already widened to the types of its signature; a missing argument gives a
    missing result unless the function is `null_safe`.
    """

    name: str
    versions: tuple[Version, ...] = attrs.field(eq=False, repr=False)
    takes: str = attrs.field(eq=False, repr=False)
    """What it takes, for error messages: `a string, a start and an end`."""
    meaning: str = attrs.field(default="", eq=False, repr=False)
    examples: tuple[tuple[str, str], ...] = attrs.field(default=(), eq=False, repr=False)
    """Calls with their values, both as the language writes them."""
    also: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)
    """Other names of it."""
    null_safe: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether it is called with missing arguments too."""
    constant: Callable[[Sequence[Any]], str | None] | None = attrs.field(default=None, eq=False, repr=False)
    """What is wrong with the constant arguments, if anything is: those at the places in `constants`."""
    constants: tuple[int, ...] = attrs.field(default=(), eq=False, repr=False)
    """The places of the arguments that must be constants."""

    cache: dict[tuple[Type, ...], tuple[Version, tuple[Type, ...], Type] | None] = attrs.field(
        init=False, factory=dict, eq=False, repr=False
    )
    """The versions that were found before."""

    def __reduce__(self) -> Any:
        # Terms are sent to Spark's Python workers, which have the same table of functions.
        if FUNCTIONS.get(self.name) is self:
            return _named, (self.name,)
        # Its cache of versions is found again where it is sent to.
        return _made, (type(self), {f.name: getattr(self, f.name) for f in attrs.fields(type(self)) if f.init})

    def type_rule(self, args: Sequence[Type]) -> Type | None:
        """The type of the result, or None where the function does not apply."""
        found = resolved(self, tuple(args))
        return None if found is None else found[2]


FUNCTIONS: dict[str, Function] = {}
"""All functions of the table by their names: the package fills it from the files of each kind."""


def _made(kind: type[Function], fields: dict[str, Any]) -> Function:
    return kind(**fields)


def _named(name: str) -> Function:
    return FUNCTIONS[name]


def resolved(function: Function, args: tuple[Type, ...]) -> tuple[Version, tuple[Type, ...], Type] | None:
    """The version of a function for arguments of these types, what they are widened to, and the type of the result."""
    if args not in function.cache:
        fitted = ((version, version.signature.fitted(args)) for version in function.versions)
        function.cache[args] = next(((version, *types) for version, types in fitted if types is not None), None)
    return function.cache[args]


def version(text: str, apply: Implementation, sql: str | Sql | None) -> Version:
    """A version of a function; `sql` may be a format: `concat({0}, {1})`, with `{at}` for the place and `{all}` for all
    arguments."""
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
    """An integer brought between two bounds, as an `INT`; what is missing stays so."""
    return (
        f"CAST(CASE WHEN {number} < {low}L THEN {low}L WHEN {number} > {high}L THEN {high}L ELSE {number} END AS INT)"
    )
