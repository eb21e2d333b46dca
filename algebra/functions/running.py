"""Running aggregates over ordered rows: sums, averages and extremes up to each row.

Missing values do not count, as in the aggregations: the sum of nothing is 0, and any other aggregate of nothing is
missing. Their form on Spark is in `runtime/spark/expressions/running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any

import attrs

from mrql.algebra import types as ty
from mrql.algebra.functions.decimals import COUNT, Rule, average_of_many, quotient_of_two, sum_of_many
from mrql.algebra.functions.function import Function, Version, version
from mrql.algebra.functions.nulls import greatest, least
from mrql.algebra.types import ListType, TupleType, Type
from mrql.algebra.values.atom_conversion import check_range
from mrql.algebra.values.decimals import added, of_type, quotient
from mrql.algebra.values.exact_sums import Total
from mrql.algebra.values.values import Value, parts_of_pair

Running = Callable[[tuple[Type, ...], list[Value]], list[Value]]


def _running(values: Callable[[list[Any], Type], Iterator[Value]]) -> Running:
    """A running aggregate of pairs; `values` computes it from the numbers and their type."""

    def value(types: tuple[Type, ...], pairs: list[Value]) -> list[Value]:
        rows = [parts_of_pair(pair) for pair in pairs]
        made = values([x for _, x in rows], beside(types[0]))
        return [(row, x) for (row, _), x in zip(rows, made, strict=True)]

    return value


def beside(pairs: Type) -> Type:
    """The type of the second parts of a list of pairs."""
    assert isinstance(pairs, ListType)
    assert isinstance(pairs.item, TupleType)
    return pairs.item.items[1]


def _integers(numbers: list[Any], t: Type) -> Iterator[Value]:
    return (check_range(total, ty.LONG) for total in accumulate(x or 0 for x in numbers))


def _doubles(numbers: list[Any], t: Type) -> Iterator[Value]:
    return (total.value for total in _totals(numbers))


def _decimals(numbers: list[Any], t: Type) -> Iterator[Value]:
    assert isinstance(t, ty.DecimalType)
    return (of_type(total, sum_of_many(t)) for total in accumulate((x or 0 for x in numbers), added))


def _averages(numbers: list[Any], t: Type) -> Iterator[Value]:
    return (total.value / n if n else None for total, n in zip(_totals(numbers), _present(numbers), strict=True))


def _decimal_averages(numbers: list[Any], t: Type) -> Iterator[Value]:
    """Running averages, rounded as `avg` is: first to the digits of a quotient."""
    assert isinstance(t, ty.DecimalType)
    digits = quotient_of_two(sum_of_many(t), COUNT)
    for total, n in zip(_decimals(numbers, t), _present(numbers), strict=True):
        yield of_type(of_type(quotient(total, Decimal(n)), digits), average_of_many(t)) if n else None


def _present(numbers: list[Any]) -> Iterator[int]:
    """The running count of the numbers that are not missing."""
    return accumulate(int(x is not None) for x in numbers)


def _totals(numbers: list[Any]) -> Iterator[Total]:
    total = Total()
    for number in numbers:
        total = total if number is None else total.added(number)
        yield total


def _extremes(better: Callable[..., Value]) -> Callable[[list[Any], Type], Iterator[Value]]:
    return lambda values, t: accumulate(values, better)


# --- the table --------------------------------------------------------------------------------------------------------


@attrs.frozen
class KeyedDecimals:
    """The signature of a function of pairs of a row and a decimal."""

    rule: Rule

    def __str__(self) -> str:
        return "[(t, decimal)] → [(t, decimal)]"

    def fitted(self, args: Sequence[Type]) -> tuple[tuple[Type, ...], Type] | None:
        """The types to which the arguments are widened, and that of the result; None if the arguments do not fit."""
        match args:
            case (ListType(TupleType((row, ty.DecimalType() as number))),):
                return tuple(args), ListType(TupleType((row, self.rule(number))))
            case _:
                return None


def _typed(signature: str, apply: Running) -> Version:
    return attrs.evolve(version(signature, apply, None), of_types=True)


def _of_decimals(rule: Rule, apply: Running) -> Version:
    return Version(KeyedDecimals(rule), apply, None, of_types=True)


_NUMBERED = "a list of pairs of a row and its number"
_VALUED = "a list of pairs of a row and its value"

RUNNING_SUM = Function(
    "running_sum",
    (
        _typed("[(t, i)] -> [(t, long)]", _running(_integers)),
        _of_decimals(sum_of_many, _running(_decimals)),
        _typed("[(t, double)] -> [(t, double)]", _running(_doubles)),
    ),
    _NUMBERED,
    "each row beside the sum of the numbers up to its own",
    (('running_sum([("a", 2), ("b", 3)])', '[("a", 2), ("b", 5)]'),),
)
RUNNING_AVG = Function(
    "running_avg",
    (
        _of_decimals(average_of_many, _running(_decimal_averages)),
        _typed("[(t, double)] -> [(t, double)]", _running(_averages)),
    ),
    _NUMBERED,
    "each row beside the average of the numbers up to its own",
    (('running_avg([("a", 2), ("b", 3)])', '[("a", 2.0), ("b", 2.5)]'),),
)
RUNNING_MIN = Function(
    "running_min",
    (_typed("[(t, o)] -> [(t, o)]", _running(_extremes(least))),),
    _VALUED,
    "each row beside the least of the values up to its own",
    (('running_min([("a", 2), ("b", 3)])', '[("a", 2), ("b", 2)]'),),
)
RUNNING_MAX = Function(
    "running_max",
    (_typed("[(t, o)] -> [(t, o)]", _running(_extremes(greatest))),),
    _VALUED,
    "each row beside the greatest of the values up to its own",
    (('running_max([("a", 2), ("b", 3)])', '[("a", 2), ("b", 3)]'),),
)
RUNNING: tuple[Function, ...] = (RUNNING_SUM, RUNNING_AVG, RUNNING_MIN, RUNNING_MAX)
