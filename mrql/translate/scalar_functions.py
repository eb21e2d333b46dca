"""Application of scalar functions: those of the library, and those of the operators."""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.functions.decimals import bounded
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, Empty, Lit, Prim, Term
from mrql.translate.coercion import coerce
from mrql.translate.json_values import CAST_HINT
from mrql.translate.time_constants import taken_as_times

ROUND = fn.FUNCTIONS["round"]


def apply(
    function: Function, args: Sequence[Term], span: Span, shown: str | None = None, hint: str | None = None
) -> Term:
    """A scalar function applied to arguments; `shown` and `hint` are its name and the hint in an error.

    Raises: UserError where the arguments do not fit.
    """
    args = taken_as_times(function, args)
    if function.type_rule([arg.type for arg in args]) is None:
        found = " and ".join(str(arg.type) for arg in args) or "nothing"
        hint = CAST_HINT if ty.ANY in [arg.type for arg in args] else hint
        raise UserError(f"`{shown or function.name}` takes {function.takes}, not {found}", span, hint)
    check_constants(function, args, span, shown)
    if function == ROUND and len(args) == 2 and isinstance(args[0].type, ty.DecimalType):
        return _rounded_decimal(args[0], args[1], span)
    fitted = zip(args, fn.argument_types(function, [arg.type for arg in args]), strict=True)
    # Empty collections and missing values are of the type that the function expects.
    typed = tuple(coerce(arg, t, span, "") if isinstance(arg, Empty | Lit) and ty.NOTHING in ty.walk(arg.type) else arg
                  for arg, t in fitted)  # fmt: skip
    return Prim(function, typed, span=span)


def _rounded_decimal(number: Term, digits: Term, span: Span) -> Term:
    """`round(e, 2)` of a decimal: a decimal with that many digits behind the point, or as many as it has if these are
    fewer, and one more digit before it, as in Spark."""
    assert isinstance(number.type, ty.DecimalType)
    assert isinstance(digits, Lit)
    if digits.value < 0:
        hint = "round(e as double, -2), or a cast to a decimal"
        raise UserError("a decimal is rounded to digits behind the point", digits.span or span, hint)
    scale = min(digits.value, number.type.scale)
    rounded = bounded(number.type.whole + 1 + scale, scale)
    return number if rounded == number.type else Cast(number, rounded, span=span)


def check_constants(function: Function, args: Sequence[Term], span: Span, shown: str | None = None) -> None:
    """Checks the arguments that have to be constants: a pattern, a unit, a number of digits.

    Raises: UserError where one is no constant, or not a valid one.
    """
    wanted = [args[i] for i in function.constants if i < len(args)]
    for arg in wanted:
        if not isinstance(arg, Lit) or arg.value is None:
            takes = f"`{shown or function.name}` takes {function.takes}"
            raise UserError(f"{takes}; here a constant is needed", arg.span or span)
    wrong = (
        function.constant([arg.value for arg in wanted if isinstance(arg, Lit)])
        if function.constant and wanted
        else None
    )
    if wrong is not None:
        raise UserError(wrong, wanted[0].span or span)
