"""Decimals of two types that no common type can hold, in a form in which Spark compares them exactly.

Spark casts two decimals to one type of 38 digits before it compares them: it truncates digits, or raises an error. So
each is compared by its floor and by the remainder, which have room for all digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.types import Type


def in_parts(left: str, right: str, types: Sequence[Type]) -> tuple[str, str]:
    """Two decimals as structs of one type that have the same order."""
    decimals = [t for t in types if isinstance(t, ty.DecimalType)]
    if len(decimals) != 2:
        raise InternalError("comparison", f"no common type of {' and '.join(map(str, types))}")
    scale = max(t.scale for t in decimals)
    return _parts(left, scale), _parts(right, scale)


def _parts(value: str, scale: int) -> str:
    whole = f"CAST(floor({value}) AS DECIMAL({ty.MAX_PRECISION}, 0))"
    return f"named_struct('whole', {whole}, 'rest', CAST(pmod({value}, 1BD) AS DECIMAL({scale}, {scale})))"
