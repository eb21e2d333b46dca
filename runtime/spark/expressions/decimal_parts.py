"""Decimals that no type holds both of, in a form in which Spark compares them to the last digit.

Spark takes two decimals for those of one type of 38 digits before it compares them: it cuts off digits, or has an
error. So each is compared as the integer that is not above it, and what is left of it; all digits of both have room.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.types import Type


def in_parts(left: str, right: str, types: Sequence[Type]) -> tuple[str, str]:
    """Two decimals of some types, as structs of one type that are in their order."""
    decimals = [t for t in types if isinstance(t, ty.DecimalType)]
    if len(decimals) != 2:
        raise InternalError("comparison", f"no common type of {' and '.join(map(str, types))}")
    scale = max(t.scale for t in decimals)
    return _parts(left, scale), _parts(right, scale)


def _parts(value: str, scale: int) -> str:
    whole = f"CAST(floor({value}) AS DECIMAL({ty.MAX_PRECISION}, 0))"
    return f"named_struct('whole', {whole}, 'rest', CAST(pmod({value}, 1BD) AS DECIMAL({scale}, {scale})))"
