"""The Catalyst form of each scalar function, as SQL text.

A comment `/*@line:column*/` after an operator carries the place in the query to Spark's own run-time errors, which
quote the text around the fault (see `failures`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mrql.algebra import types as ty
from mrql.algebra.functions import FUNCTIONS, LONGEST, Function
from mrql.algebra.types import Type
from mrql.runtime import variants

Template = Callable[..., str]


def _infix(operator: str) -> Template:
    return lambda a, b, at: f"({a} {operator} {at}{b})"


def _call(name: str) -> Template:
    return lambda *args: f"{name}({', '.join(args[:-1])})"


def _rounded(rounding: str) -> Template:
    def template(a: str, at: str) -> str:
        fits = f"(abs({a}) < 9.223372036854775E18D)"
        message = f"raise_error('{at}not a number that a long can hold')"
        return f"CASE WHEN {a} IS NULL THEN NULL WHEN {fits} THEN {rounding.format(a)} ELSE {message} END"

    return template


def _substring(text: str, start: str, end: str, at: str) -> str:
    first = f"greatest({start}, 0)"
    return f"substring({text}, {first} + 1, greatest({end} - {first}, 0))"


def _range(low: str, high: str, at: str) -> str:
    # A difference of longs may leave their range; of doubles it does not, and so exact it need not be.
    long = f"CAST({high} AS DOUBLE) - CAST({low} AS DOUBLE) >= {LONGEST}"
    error = f"raise_error('{at}a range of more than {LONGEST} elements')"
    empty = "CAST(array() AS ARRAY<BIGINT>)"
    return f"CASE WHEN {high} < {low} THEN {empty} WHEN {long} THEN {error} ELSE sequence({low}, {high}) END"


def _at(items: str, index: str, at: str) -> str:
    there = f"{index} >= 0 AND {index} < size({items})"
    error = f"raise_error(concat('{at}there is no element ', {index}, ' in a list of ', size({items})))"
    return f"CASE WHEN {items} IS NULL OR {index} IS NULL THEN NULL WHEN {there} THEN {items}[{index}] ELSE {error} END"


def _slice(items: str, low: str, high: str, at: str) -> str:
    first = f"least(greatest({low}, 0L), size({items}))"
    last = f"least({high}, size({items}) - 1L)"
    return f"slice({items}, CAST({first} + 1 AS INT), CAST(greatest({last} - {first} + 1, 0L) AS INT))"


def _only(values: str, at: str) -> str:
    none = f"raise_error('{at}there is no value under this key')"
    many = f"raise_error(concat('{at}there are ', size({values}), ' values under this key'))"
    return f"CASE size({values}) WHEN 1 THEN {values}[0] WHEN 0 THEN {none} ELSE {many} END"


TEMPLATES: dict[str, Template] = {
    "-": _infix("-"),
    "*": _infix("*"),
    "neg": lambda a, at: f"(- {at}{a})",
    "and": _infix("AND"),
    "or": _infix("OR"),
    "not": lambda a, at: f"(NOT {a})",
    "is_null": lambda a, at: f"({a} IS NULL)",
    "÷": lambda s, c, at: f"({s} / nullif({c}, 0L))",
    "abs": lambda a, at: f"abs({at}{a})",
    "round": _rounded("CAST(floor({0} + 0.5D) AS BIGINT)"),
    "floor": _rounded("CAST(floor({0}) AS BIGINT)"),
    "ceil": _rounded("CAST(ceil({0}) AS BIGINT)"),
    "log": _call("ln"),
    "pow": _call("power"),
    "length": _call("char_length"),
    "substring": _substring,
    "range": _range,
    "at": _at,
    "slice": _slice,
    "only": _only,
}
SAME_NAME = (
    "sqrt",
    "exp",
    "log10",
    "sin",
    "cos",
    "tan",
    "upper",
    "lower",
    "trim",
    "contains",
    "startswith",
    "endswith",
    "replace",
)
TEMPLATES |= {name: _call(name) for name in SAME_NAME}


def function_sql(function: Function, args: Sequence[str], argument: Type, at: str) -> str:
    """A function over SQL arguments that have been widened to `argument`, the type of the first one."""
    match function.name:
        case "+":
            return f"concat({args[0]}, {args[1]})" if argument == ty.STRING else f"({args[0]} + {at}{args[1]})"
        case "/":
            return _divide(args[0], args[1], argument, at)
        case "mod":
            return _modulo(args[0], args[1], argument, at)
        case "round" | "floor" | "ceil" if ty.is_integral(argument):
            return f"CAST({args[0]} AS BIGINT)"
        case name:
            return TEMPLATES[name](*args, at)


def _divide(a: str, b: str, t: Type, at: str) -> str:
    if ty.is_integral(t):
        quotient = f"({a} div {at}{b})"
        return f"CAST({at}{quotient} AS INT)" if t == ty.INT else quotient
    # Spark's ANSI mode refuses x / 0.0; the language has infinities.
    quotient = f"if({b} = 0, {a} * DOUBLE('Infinity'), {a} / {b})"
    return f"CAST({quotient} AS FLOAT)" if t == ty.FLOAT else quotient


def _modulo(a: str, b: str, t: Type, at: str) -> str:
    if ty.is_integral(t):
        return f"({a} % {at}{b})"
    remainder = f"if({b} = 0, DOUBLE('NaN'), {a} % {b})"
    return f"CAST({remainder} AS FLOAT)" if t == ty.FLOAT else remainder


COMPARISONS = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Compiled by the expression compiler itself, since they look into tuples and bags."""

HANDLED = {*TEMPLATES, *COMPARISONS, *variants.FUNCTIONS, "+", "/", "mod", "has_null", "member"}


def missing_templates() -> set[str]:
    """The functions of the language that have no Catalyst form: none, as a test makes sure."""
    return set(FUNCTIONS) - HANDLED
