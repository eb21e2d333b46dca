"""The scalar functions, in one table: name, arguments and result, meaning, Catalyst form, reference implementation.

Each is a `Function`, with a version for each kind of arguments. `FUNCTIONS` has them all by name, `LIBRARY` those that
a query calls by name, in the order and under the headings of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.attempts import ATTEMPTS, NONE_MISSING
from mrql.algebra.functions.binary import BINARY
from mrql.algebra.functions.conversion import convert, convert_from, widened
from mrql.algebra.functions.function import FUNCTIONS, Function, Version, resolved
from mrql.algebra.functions.lists import AT, LISTS, RANGE, SIZE, SLICE
from mrql.algebra.functions.nulls import COALESCE, IS_NULL, NULLS
from mrql.algebra.functions.numbers import NUMBERS
from mrql.algebra.functions.operators import (
    AND,
    DIVIDE,
    EQ,
    GE,
    GT,
    HAS_NULL,
    LE,
    LT,
    MINUS,
    MODULO,
    NE,
    NEGATE,
    NOT,
    ONLY,
    OPERATORS,
    OR,
    PLUS,
    QUOTIENT,
    TIMES,
    TRACE,
)
from mrql.algebra.functions.running import RUNNING
from mrql.algebra.functions.side_sums import (
    DIGITS,
    FIRST_DIGITS,
    HIGH,
    HUGE_MAGNITUDE,
    HUGE_MANTISSA,
    LAST_DIGITS,
    LIMBS,
    LOW,
    MAGNITUDE,
    MAGNITUDES,
    MANTISSA,
    SIDES,
    TIMES_HIGH,
    TIMES_LOW,
)
from mrql.algebra.functions.statistics import (
    CORR,
    COVAR,
    COVAR_POP,
    MODE,
    PERCENTILE,
    STATISTICS,
    STDDEV,
    STDDEV_POP,
    VARIANCE,
    VARIANCE_POP,
)
from mrql.algebra.functions.strings import STRINGS
from mrql.algebra.functions.times import TIMES as TIME_FUNCTIONS
from mrql.algebra.functions.window_functions import WINDOW_FUNCTIONS
from mrql.algebra.functions.xml import (
    ALL_CHILDREN,
    ATTRIBUTE,
    ATTRIBUTES,
    CHILDREN,
    DOCUMENTS,
    ELEMENT,
    ELEMENTS,
    MEMBER,
    TAG,
    TEXT,
    TEXT_NODE,
)
from mrql.algebra.types import Type
from mrql.algebra.values.atom_conversion import INT_RANGES, check_range
from mrql.algebra.values.atom_text import show_atom, single_from_text, to_single
from mrql.algebra.values.decimals import of_type
from mrql.algebra.values.values import Value

__all__ = [
    "ALL_CHILDREN",
    "AND",
    "AT",
    "ATTEMPTS",
    "ATTRIBUTE",
    "ATTRIBUTES",
    "CHILDREN",
    "COALESCE",
    "CORR",
    "COVAR",
    "COVAR_POP",
    "DIGITS",
    "DIVIDE",
    "ELEMENT",
    "EQ",
    "FIRST_DIGITS",
    "FUNCTIONS",
    "GE",
    "GT",
    "HAS_NULL",
    "HIGH",
    "HUGE_MAGNITUDE",
    "HUGE_MANTISSA",
    "INT_RANGES",
    "IS_NULL",
    "LAST_DIGITS",
    "LE",
    "LIBRARY",
    "LIMBS",
    "LOW",
    "LT",
    "MAGNITUDE",
    "MAGNITUDES",
    "MANTISSA",
    "MEMBER",
    "MINUS",
    "MODE",
    "MODULO",
    "NE",
    "NEGATE",
    "NONE_MISSING",
    "NOT",
    "ONLY",
    "OPERATORS",
    "OR",
    "PERCENTILE",
    "PLUS",
    "QUOTIENT",
    "RANGE",
    "RUNNING",
    "SIZE",
    "SLICE",
    "STATISTICS",
    "STDDEV",
    "STDDEV_POP",
    "TAG",
    "TEXT",
    "TEXT_NODE",
    "TIMES",
    "TIMES_HIGH",
    "TIMES_LOW",
    "TRACE",
    "TWO_VALUED",
    "VARIANCE",
    "VARIANCE_POP",
    "EvaluationError",
    "Function",
    "Version",
    "apply",
    "argument_types",
    "check_range",
    "convert",
    "convert_from",
    "show_atom",
    "single_from_text",
    "to_single",
    "widened",
]  # fmt: skip

LIBRARY: Mapping[str, tuple[Function, ...]] = {
    "Numbers": NUMBERS,
    "Strings": STRINGS,
    "Bytes": BINARY,
    "Dates and timestamps": TIME_FUNCTIONS,
    "Lists": LISTS,
    "Window functions": WINDOW_FUNCTIONS,
    "Missing values": NULLS,
    "XML elements": ELEMENTS,
}
for _group in (
    OPERATORS,
    (AT, SIZE, SLICE),
    DOCUMENTS,
    SIDES,
    (*ATTEMPTS.values(), NONE_MISSING),
    STATISTICS,
    *LIBRARY.values(),
):
    FUNCTIONS.update({f.name: f for f in _group})  # alternative names exist only in the language
TWO_VALUED: tuple[Function, ...] = (EQ, NE, LT, LE, GT, GE, IS_NULL, HAS_NULL)
"""Functions whose value is never missing: a comparison with null is false."""


def argument_types(function: Function, args: Sequence[Type]) -> tuple[Type, ...]:
    """The types to which the arguments are widened before `function` is applied to them."""
    found = resolved(function, tuple(args))
    return tuple(args) if found is None else found[1]


def apply(function: Function, args: Sequence[Value], types: Sequence[Type], result: Type) -> Value:
    """The value of `function` at `args`, whose types are `types`.

    Raises: EvaluationError if the function has no value, as for an integer overflow or a division by zero.
    """
    if not function.null_safe and any(a is None for a in args):
        return None
    found = resolved(function, tuple(types))
    assert found is not None, f"{function.name} does not apply"
    version, taken, _ = found
    given = list(map(widened, args, types, taken))
    value = version.apply(taken, *given) if version.of_types else version.apply(*given)
    if isinstance(result, ty.DecimalType) and isinstance(value, Decimal):
        return of_type(value, result)
    if isinstance(value, int) and not isinstance(value, bool) and result in INT_RANGES:
        return check_range(value, result)
    return to_single(value) if result == ty.FLOAT and value is not None else value
