"""The scalar functions: name, type rule and meaning, in one table.

A type rule takes the types of the arguments and returns the type of the result, or None where the function does not
apply. An implementation sees values that were already widened to a common type where the rule widens; missing
arguments give a missing result unless the function is `null_safe`. The runtime has a Catalyst form for each name.

Integer arithmetic that leaves the range of its type is an error, never a wrong number; so is integer division by zero.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs

from mrql.algebra import documents
from mrql.algebra import types as ty
from mrql.algebra.errors import EvaluationError
from mrql.algebra.numbers import show_atom
from mrql.algebra.types import Type
from mrql.algebra.values import Document, Value, canonical, has_null

TypeRule = Callable[[Sequence[Type]], Type | None]
Implementation = Callable[..., Value]


@attrs.frozen
class Function:
    """A scalar function. Two functions are equal when their names are."""

    name: str
    type_rule: TypeRule = attrs.field(eq=False, repr=False)
    apply: Implementation = attrs.field(eq=False, repr=False)
    null_safe: bool = attrs.field(default=False, eq=False, repr=False)
    """Whether it is called with missing arguments too."""
    signature: str = attrs.field(default="", eq=False, repr=False)
    """What it takes, for error messages: `number, number`."""


INT_RANGES = {ty.INT: (-(2**31), 2**31 - 1), ty.LONG: (-(2**63), 2**63 - 1)}


def to_single(x: float) -> float:
    """The nearest 32-bit float."""
    try:
        return float(struct.unpack("f", struct.pack("f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def check_range(value: int, t: Type) -> int:
    """The value, when the integer type holds it.

    Raises: EvaluationError on overflow.
    """
    low, high = INT_RANGES[t]  # type: ignore[index]
    if not low <= value <= high:
        raise EvaluationError("integer overflow")
    return value


def convert(value: Value, t: Type) -> Value:
    """A value widened or cast to type `t`, part by part; missing values stay missing.

    Raises: EvaluationError when the value has no counterpart in `t`.
    """
    from mrql.algebra.values import Bag, Record

    if value is None:
        return None
    if t in (ty.ANY, ty.XML):
        return value if isinstance(value, Document) else documents.of_value(value)
    if isinstance(value, Document):
        return documents.taken_as(value, t, convert)
    match t:
        case ty.Basic():
            return _convert_basic(value, t)
        case ty.TupleType(items):
            return tuple(convert(v, item) for v, item in zip(value, items, strict=True))
        case ty.RecordType(fields):
            return Record({name: convert(value[name], item) for name, item in fields})
        case ty.BagType(item):
            return Bag(convert(v, item) for v in value)
        case ty.ListType(item):
            return [convert(v, item) for v in value]
        case _:
            return value


def _convert_basic(value: Value, t: ty.Basic) -> Value:
    if t == ty.STRING:
        return show_atom(value)
    if isinstance(value, str):
        return _parse_atom(value, t)
    if t == ty.BOOL:
        return bool(value)
    if ty.is_integral(t):
        return _to_integer(value, t)
    return to_single(float(value)) if t == ty.FLOAT else float(value)


def _to_integer(value: Value, t: ty.Basic) -> int:
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        raise EvaluationError(f"{show_atom(value)} is not a value of type {t}")
    return check_range(int(value), t)


def _parse_atom(text: str, t: ty.Basic) -> Value:
    stripped = text.strip()
    try:
        if "_" in stripped:  # Python reads 1_000 as a number
            raise ValueError(text)
        if t == ty.BOOL:
            return {"true": True, "false": False}[stripped.lower()]
        if ty.is_integral(t):
            return check_range(int(stripped), t)
        return to_single(float(stripped)) if t == ty.FLOAT else float(stripped)
    except (ValueError, KeyError):
        raise EvaluationError(f'"{text}" is not a value of type {t}') from None


# --- type rules ---------------------------------------------------------------------------------


def _widest(args: Sequence[Type]) -> Type | None:
    result: Type = ty.NOTHING
    for arg in args:
        joined = ty.join_types(result, arg)
        if joined is None:
            return None
        result = joined
    return result


def _numbers(args: Sequence[Type]) -> Type | None:
    widest = _widest(args)
    return widest if widest is not None and ty.is_numeric(widest) else None


def _numbers_or_strings(args: Sequence[Type]) -> Type | None:
    widest = _widest(args)
    return widest if widest is not None and (ty.is_numeric(widest) or widest == ty.STRING) else None


def _comparable(args: Sequence[Type]) -> Type | None:
    return None if _widest(args) is None else ty.BOOL


def _ordered(args: Sequence[Type]) -> Type | None:
    widest = _widest(args)
    return None if widest is None or not ty.is_ordered(widest) else ty.BOOL


def _fixed(*expected: Type, result: Type) -> TypeRule:
    def rule(args: Sequence[Type]) -> Type | None:
        fit = len(args) == len(expected) and all(ty.fits(a, e) for a, e in zip(args, expected, strict=True))
        return result if fit else None

    return rule


def _one_number(result: Callable[[Type], Type]) -> TypeRule:
    return lambda args: result(args[0]) if len(args) == 1 and ty.is_numeric(args[0]) else None


def _anything(result: Type) -> TypeRule:
    return lambda args: result if len(args) == 1 else None


def _indexed(count: int, result: Callable[[ty.ListType], Type]) -> TypeRule:
    """A list and so many integers."""

    def rule(args: Sequence[Type]) -> Type | None:
        match args:
            case [ty.ListType() as t, *indices] if len(indices) == count and all(ty.fits(i, ty.LONG) for i in indices):
                return result(t)
            case _:
                return None

    return rule


def _only_type(args: Sequence[Type]) -> Type | None:
    return args[0].item if len(args) == 1 and isinstance(args[0], ty.BagType) else None


def _taking(count: int, rule: TypeRule) -> TypeRule:
    return lambda args: rule(args) if len(args) == count else None


# --- implementations ----------------------------------------------------------------------------


def _divide(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise EvaluationError("division by zero")
        quotient = abs(a) // abs(b)
        return quotient if (a >= 0) == (b >= 0) else -quotient
    return a * math.inf if b == 0 else a / b


def _modulo(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise EvaluationError("remainder of a division by zero")
        return int(math.copysign(1, a)) * (abs(a) % abs(b))
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def _comparison(name: str, rule: TypeRule, test: Callable[[Any, Any], bool], signature: str) -> Function:
    def apply(a: Value, b: Value) -> Value:
        # A comparison with something missing in it is false ([] and {} hold no missing values to speak of).
        return not has_null(a) and not has_null(b) and test(canonical(a), canonical(b))

    return Function(name, _taking(2, rule), apply, null_safe=True, signature=signature)


def _and(a: Value, b: Value) -> Value:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: Value, b: Value) -> Value:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _quotient(total: Value, count: Value) -> Value:
    return None if not count else total / count


def _round(x: Value) -> Value:
    """The nearest integer; halves go up, as in Java."""
    return x if isinstance(x, int) else _to_long(lambda y: math.floor(y + 0.5))(x)


def _to_long(rounding: Callable[[float], int]) -> Implementation:
    def apply(x: Value) -> Value:
        if math.isnan(x) or math.isinf(x):
            raise EvaluationError("not a number that a long can hold")
        return check_range(rounding(x), ty.LONG)

    return apply


def _floating(function: Callable[[float], float]) -> Implementation:
    def apply(x: Value) -> Value:
        try:
            return function(float(x))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def _log(function: Callable[[float], float]) -> Implementation:
    return lambda x: None if x <= 0 else function(float(x))


def _power(x: Value, y: Value) -> Value:
    try:
        return math.pow(x, y)
    except OverflowError:
        negative = x < 0 and float(y).is_integer() and int(y) % 2 == 1
        return -math.inf if negative else math.inf
    except ValueError:
        return math.inf if x == 0 else math.nan


LONGEST = 2**31 - 16
"""How many elements Spark can hold in one array."""


def _range(low: int, high: int) -> list[int]:
    if high - low >= LONGEST:
        raise EvaluationError(f"a range of more than {LONGEST} elements")
    return list(range(low, high + 1))


def _at(items: list[Value], index: int) -> Value:
    if not 0 <= index < len(items):
        raise EvaluationError(f"there is no element {index} in a list of {len(items)}")
    return items[index]


def _slice(items: list[Value], low: int, high: int) -> list[Value]:
    return items[max(low, 0) : max(high + 1, 0)]


def _only(values: Collection[Value]) -> Value:
    if len(values) != 1:
        raise EvaluationError(f"there {f'are {len(values)} values' if values else 'is no value'} under this key")
    (value,) = values
    return value


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _substring(text: str, start: int, end: int) -> str:
    """The characters `[start, end)`, counted from 0; a range that leaves the string is cut to it."""
    start = max(start, 0)
    return text[start : max(end, start)]


PLUS = Function("+", _taking(2, _numbers_or_strings), lambda a, b: a + b, signature="two numbers or two strings")
MINUS = Function("-", _taking(2, _numbers), lambda a, b: a - b, signature="two numbers")
TIMES = Function("*", _taking(2, _numbers), lambda a, b: a * b, signature="two numbers")
DIVIDE = Function("/", _taking(2, _numbers), _divide, signature="two numbers")
MODULO = Function("mod", _taking(2, _numbers), _modulo, signature="two numbers")
NEGATE = Function("neg", _taking(1, _numbers), lambda a: -a, signature="a number")
EQ = _comparison("=", _comparable, operator.eq, "two values of one type")
NE = _comparison("<>", _comparable, operator.ne, "two values of one type")
LT = _comparison("<", _ordered, operator.lt, "two values of one ordered type")
LE = _comparison("<=", _ordered, operator.le, "two values of one ordered type")
GT = _comparison(">", _ordered, operator.gt, "two values of one ordered type")
GE = _comparison(">=", _ordered, operator.ge, "two values of one ordered type")
AND = Function("and", _fixed(ty.BOOL, ty.BOOL, result=ty.BOOL), _and, null_safe=True, signature="two bools")
OR = Function("or", _fixed(ty.BOOL, ty.BOOL, result=ty.BOOL), _or, null_safe=True, signature="two bools")
NOT = Function("not", _fixed(ty.BOOL, result=ty.BOOL), lambda a: not a, signature="a bool")
IS_NULL = Function("is_null", _anything(ty.BOOL), lambda a: a is None, null_safe=True, signature="a value")
HAS_NULL = Function("has_null", _anything(ty.BOOL), has_null, null_safe=True, signature="a value")
QUOTIENT = Function("÷", _fixed(ty.DOUBLE, ty.LONG, result=ty.DOUBLE), _quotient, signature="a sum and a count")

RANGE = Function("range", _fixed(ty.LONG, ty.LONG, result=ty.ListType(ty.LONG)), _range, signature="two integers")
AT = Function("at", _indexed(1, lambda t: t.item), _at, signature="a list and an integer")
SLICE = Function("slice", _indexed(2, lambda t: t), _slice, signature="a list and two integers")
ONLY = Function("only", _only_type, _only, signature="a bag")

_D = ty.DOUBLE
_S = ty.STRING
_floats = _fixed(_D, result=_D)


def _same(t: Type) -> Type:
    return t


_X, _XS = ty.XML, ty.ListType(ty.XML)


def _of_elements(one: Type, many: Type, *more: Type) -> TypeRule:
    """An element or a list of elements, and then what else there is."""

    def rule(args: Sequence[Type]) -> Type | None:
        if len(args) != 1 + len(more) or not all(map(ty.fits, args[1:], more)):
            return None
        return one if ty.fits(args[0], _X) else many if ty.fits(args[0], _XS) else None

    return rule


def _flat(function: Callable[..., list[Value]]) -> Implementation:
    def apply(elements: Value, *more: Value) -> list[Value]:
        found = elements if isinstance(elements, list) else [elements]
        return [value for element in found if element is not None for value in function(element, *more)]

    return apply


def _attribute(elements: Value, name: str) -> Value:
    if isinstance(elements, list):
        values = (documents.attribute(element, name) for element in elements if element is not None)
        return [value for value in values if value is not None]
    return documents.attribute(elements, name)


def _text(elements: Value) -> str:
    if isinstance(elements, list):
        return " ".join(found for element in elements if element is not None and (found := documents.text(element)))
    return documents.text(elements)


MEMBER = Function("member", _fixed(ty.ANY, _S, result=ty.ANY), documents.member, signature="a JSON value and a name")
CHILDREN = Function("children", _of_elements(_XS, _XS, _S), _flat(documents.children), signature="elements and a tag")
ALL_CHILDREN = Function("all_children", _of_elements(_XS, _XS), _flat(documents.all_children), signature="elements")
ATTRIBUTE = Function("attribute", _of_elements(_S, ty.ListType(_S), _S), _attribute, signature="elements and a name")
ATTRIBUTES = Function(
    "attributes",
    _of_elements(ty.ListType(_S), ty.ListType(_S)),
    _flat(documents.attributes),
    signature="elements",
)
TEXT_NODE = Function("text_node", _fixed(_S, result=_X), documents.text_node, signature="a string")
ELEMENT = Function(
    "element",
    _fixed(_S, ty.ListType(_S), ty.ListType(_S), _XS, result=_X),
    documents.element,
    signature="a tag, the names and the values of attributes, and parts",
)
TEXT = Function("text", _of_elements(_S, _S), _text, signature="an XML element, or a list of them")
TAG = Function("tag", _fixed(_X, result=_S), documents.tag, signature="an XML element")

LIBRARY: tuple[Function, ...] = (
    Function("abs", _one_number(_same), abs, signature="a number"),
    Function("round", _one_number(lambda _: ty.LONG), _round, signature="a number"),
    Function("floor", _one_number(lambda _: ty.LONG), _to_long(math.floor), signature="a number"),
    Function("ceil", _one_number(lambda _: ty.LONG), _to_long(math.ceil), signature="a number"),
    Function("sqrt", _floats, _floating(math.sqrt), signature="a number"),
    Function("exp", _floats, _floating(math.exp), signature="a number"),
    Function("log", _floats, _log(math.log), signature="a number"),
    Function("log10", _floats, _log(math.log10), signature="a number"),
    Function("pow", _fixed(_D, _D, result=_D), _power, signature="two numbers"),
    Function("sin", _floats, _floating(math.sin), signature="a number"),
    Function("cos", _floats, _floating(math.cos), signature="a number"),
    Function("tan", _floats, _floating(math.tan), signature="a number"),
    Function("upper", _fixed(_S, result=_S), str.upper, signature="a string"),
    Function("lower", _fixed(_S, result=_S), str.lower, signature="a string"),
    Function("trim", _fixed(_S, result=_S), lambda s: s.strip(" "), signature="a string"),
    Function("length", _fixed(_S, result=ty.INT), len, signature="a string"),
    Function("substring", _fixed(_S, ty.INT, ty.INT, result=_S), _substring, signature="a string, a start and an end"),
    Function("contains", _fixed(_S, _S, result=ty.BOOL), lambda s, part: part in s, signature="two strings"),
    Function("startswith", _fixed(_S, _S, result=ty.BOOL), str.startswith, signature="two strings"),
    Function("endswith", _fixed(_S, _S, result=ty.BOOL), str.endswith, signature="two strings"),
    Function("replace", _fixed(_S, _S, _S, result=_S), _replace, signature="three strings"),
    TEXT,
    TAG,
)

OPERATORS: tuple[Function, ...] = (
    PLUS, MINUS, TIMES, DIVIDE, MODULO, NEGATE, EQ, NE, LT, LE, GT, GE, AND, OR, NOT, IS_NULL, HAS_NULL, QUOTIENT,
    RANGE, AT, SLICE, ONLY,
    MEMBER, CHILDREN, ALL_CHILDREN, ATTRIBUTE, ATTRIBUTES, TEXT_NODE, ELEMENT,
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {f.name: f for f in (*OPERATORS, *LIBRARY)}
TWO_VALUED: tuple[Function, ...] = (EQ, NE, LT, LE, GT, GE, IS_NULL, HAS_NULL)
"""Functions whose value is never missing: a comparison with null is false."""
WIDENING: frozenset[str] = frozenset({"+", "-", "*", "/", "mod", "neg", "=", "<>", "<", "<=", ">", ">=", "abs"})
"""Functions whose arguments are widened to a common type before they are applied."""


def argument_types(function: Function, args: Sequence[Type]) -> tuple[Type, ...]:
    """What the arguments are widened to before `function` is applied to them."""
    if function.name in WIDENING:
        widest = _widest(args)
        return tuple(args) if widest is None else (widest,) * len(args)
    if function in (AND, OR, NOT):
        return (ty.BOOL,) * len(args)
    if function.type_rule is _floats or function.name == "pow":
        return (ty.DOUBLE,) * len(args)
    if function == RANGE:
        return (ty.LONG, ty.LONG)
    if function in (AT, SLICE):
        return (args[0], *(ty.LONG for _ in args[1:]))
    if function == QUOTIENT:
        return (ty.DOUBLE, ty.LONG)
    return tuple(args)


def apply(function: Function, args: Sequence[Value], types: Sequence[Type], result: Type) -> Value:
    """The value of `function` at `args`, whose types are `types`.

    Raises: EvaluationError where the function has no value, as in an integer overflow or a division by zero.
    """
    if not function.null_safe and any(a is None for a in args):
        return None
    widened = [convert(a, t) for a, t in zip(args, argument_types(function, types), strict=True)]
    value = function.apply(*widened)
    if isinstance(value, int) and not isinstance(value, bool) and result in INT_RANGES:
        return check_range(value, result)
    return to_single(value) if result == ty.FLOAT and value is not None else value
