"""Whether the branches of a `case` are exhaustive.

Patterns are the rows of a matrix, which is checked column by column: for each constructor, the rows that match it, with
its parts as new columns, must match all of its values; if some constructors are not in the column, the rows that match
anything there must match the values of these.

*Source*: L. Maranget, Warnings for pattern matching, JFP 17 (2007), §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.types import Type
from mrql.translate.data_types import is_constant
from mrql.translate.scope import Globals

ANYTHING = "*"
OTHERS = "…"


@attrs.frozen
class PatternShape:
    """The form of a pattern (a constructor, a constant, or a tuple, record or list of some length), with its parts."""

    name: str
    parts: tuple[PatternShape | None, ...] = ()


Row: TypeAlias = tuple[PatternShape | None, ...]
"""A row of the matrix; None matches anything."""


def left_out(patterns: Sequence[syntax.Pattern], t: Type, known: Globals) -> str | None:
    """A value of a type that no pattern matches, in words; None if the patterns match all values."""
    found = _missing([(_shape(pattern, t, known),) for pattern in patterns if not _equates(pattern)], (t,), known)
    if found is None:
        return None
    return "other values" if found[0] in (OTHERS, ANYTHING) else f"`{found[0]}`"


def _equates(pattern: syntax.Pattern) -> bool:
    """Whether a name occurs twice in a pattern: it matches only values with equal parts, and covers none for sure."""
    names = [variable.name for variable in syntax.variables(pattern)]
    return len(names) > len(set(names))


def _shape(pattern: syntax.Pattern, t: Type, known: Globals) -> PatternShape | None:
    match pattern, t:
        case syntax.TypedPattern(inner), _:
            return _shape(inner, t, known)
        case syntax.VarPattern(name), _ if is_constant(name, t, known):
            return PatternShape(name)
        case syntax.ConstPattern(syntax.BoolLit(value)), _:
            return PatternShape(str(value).lower())
        case syntax.ConstPattern(value), _:
            return PatternShape(repr(value))
        case syntax.ConstructorPattern(name, args), _:
            own = known.constructors[name].args
            return PatternShape(name, tuple(_shape(arg, part, known) for arg, part in zip(args, own, strict=True)))
        case syntax.TuplePattern(items), ty.TupleType(types):
            return PatternShape("", tuple(_shape(item, part, known) for item, part in zip(items, types, strict=True)))
        case syntax.RecordPattern(fields), ty.RecordType(named):
            given = dict(fields)
            return PatternShape("", tuple(_shape(given[n], part, known) if n in given else None for n, part in named))
        case syntax.ListPattern(items), ty.ListType(item):
            return PatternShape(f"[{len(items)}]", tuple(_shape(part, item, known) for part in items))
        case _:
            return None


def _shapes(t: Type, known: Globals) -> dict[str, tuple[Type, ...]]:
    """All shapes of the values of a type, with the types of their parts; empty where they cannot be enumerated."""
    if t in known.unions:
        return {name: known.constructors[name].args for name in known.unions[t]}
    match t:
        case ty.BOOL:
            return {"true": (), "false": ()}
        case ty.TupleType(items):
            return {"": items}
        case ty.RecordType(fields):
            return {"": tuple(part for _, part in fields)}
        case _:
            return {}


def _missing(rows: Sequence[Row], types: tuple[Type, ...], known: Globals) -> list[str] | None:
    """Values of the columns that no row matches, in words; None if there are none."""
    if not types:
        return None if rows else []
    first, *rest = types
    there = {row[0].name: len(row[0].parts) for row in rows if row[0] is not None}
    shapes = _shapes(first, known)
    if not shapes or not shapes.keys() <= there.keys():
        found = _missing([row[1:] for row in rows if row[0] is None], tuple(rest), known)
        if found is None:
            return None
        absent = [name for name in shapes if name not in there]
        if not there:
            return [ANYTHING, *found]
        return [_written(absent[0], [ANYTHING] * len(shapes[absent[0]])) if absent else OTHERS, *found]
    for name, parts in shapes.items():
        inner = [(*_parts(row[0], len(parts)), *row[1:]) for row in rows if row[0] is None or row[0].name == name]
        found = _missing(inner, (*parts, *rest), known)
        if found is not None:
            return [_written(name, found[: len(parts)]), *found[len(parts) :]]
    return None


def _parts(shape: PatternShape | None, number: int) -> Row:
    return (None,) * number if shape is None else shape.parts


def _written(name: str, parts: Sequence[str]) -> str:
    if all(part == ANYTHING for part in parts):
        return name or ANYTHING
    return f"{name}({', '.join(parts)})"
