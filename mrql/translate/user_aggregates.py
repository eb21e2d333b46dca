"""Aggregations that a program defines: `aggregation name(combine, zero, unit, inverse): t`.

    name(e) = reduce(⊕, {unit(x) | x ∈ e, x is there}),   x ⊕ y = combine(x, y), with `zero` as its identity

Without a `unit` the elements are combined as they are. As with the built-in aggregations, missing elements are skipped.
The value of an empty collection is `zero`. A collection is aggregated in any order and in any groups: `combine` must be
associative and commutative, and `zero` its identity. With an `inverse`, `combine(x, inverse(x))` must be `zero`, which
is tested at some values; if `combine` adds numbers part by part, such an aggregation is kept as sums
(`sums_by_part.py`). For any other, the elements of the groups are kept, and combined anew.

*Source*: [MRQL] §5 (monoids); the `aggregation` of Apache MRQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import var_of
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation import merge
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.recursive_functions import calls_python
from mrql.algebra.functions import IS_NULL, NOT, convert
from mrql.algebra.monoids import Fold
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    CMap,
    Empty,
    If,
    Lambda,
    Nth,
    Prim,
    PTuple,
    PVar,
    Reduce,
    Single,
    Stream,
    Term,
    element_type,
)
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Record, Value, close
from mrql.translate.coercion import coerce, resolve
from mrql.translate.inlining import apply, closure_of
from mrql.translate.scope import Aggregation, Closure, Scope
from mrql.translate.sums_by_part import are_sums, summed


def define(statement: syntax.AggregationDef, scope: Scope) -> Aggregation:
    """The aggregation that a statement defines.

    Raises: UserError where the parts are no functions, do not fit the type, or read data.
    """
    name, t = statement.name, resolve(statement.type, scope.globals)
    zero = coerce(scope.translate(statement.zero), t, statement.zero.span, f"the zero of `{name}`")
    x, y = (PVar(scope.globals.names.fresh(variable), t) for variable in "xy")
    span = statement.combine.span
    combine = closure_of(statement.combine, scope, f"`{name}` combines two values with a function")
    combined = coerce(apply(combine, [var_of(x), var_of(y)], span), t, span, f"what `{name}` combines to")
    for part, written in ((zero, statement.zero), (combined, statement.combine)):
        if any(isinstance(term, Stream) for term in subterms(part)):
            raise UserError(f"`{name}` cannot read data: it is the same for all of them", written.span)
    unit = None
    if statement.unit is not None:
        unit = closure_of(statement.unit, scope, f"the unit of `{name}` is a function of an element")
    fold = Fold(name, Lambda(PTuple((x, y)), combined), zero, t)
    sums = False
    if statement.inverse is not None:
        negated = _inverse(statement.inverse, x, name, scope)
        _check_inverse(fold, Lambda(x, negated), statement.inverse.span)
        sums = are_sums(x, y, combined, zero, negated)
    return Aggregation(fold, unit, sums)


def _inverse(written: syntax.Expr, x: PVar, name: str, scope: Scope) -> Term:
    """The term of the inverse of the value `x`.

    Raises: UserError where it is no function of a value, or reads data.
    """
    closure = closure_of(written, scope, f"the inverse of `{name}` is a function of a value")
    negated = coerce(_of(closure, var_of(x), written.span), x.type, written.span, f"the inverse of `{name}`")
    if any(isinstance(term, Stream) for term in subterms(negated)):
        raise UserError(f"`{name}` cannot read data: it is the same for all of them", written.span)
    return negated


def _of(function: Closure, value: Term, span: Span) -> Term:
    """A function applied to a value; one with several parameters takes the parts of a tuple."""
    count = len(function.params)
    if count > 1 and isinstance(value.type, ty.TupleType) and len(value.type.items) == count:
        return apply(function, [Nth(value, i) for i in range(count)], span)
    return apply(function, [value], span)


def _check_inverse(fold: Fold, inverse: Lambda, span: Span) -> None:
    """Tests `x ⊕ -x = zero` at some values, except where these fail. Nothing is tested if Python code would be called.

    Raises: UserError at a value for which it does not hold.
    """
    assert isinstance(inverse.param, PVar)
    if any(map(calls_python, (fold.combine.body, fold.zero, inverse.body))):
        return
    for value in sample_values(fold.type):
        try:
            back = evaluate(inverse.body, {}, {inverse.param.name: value})
            combined, zero = merge.combine(fold, value, back), merge.zero(fold)
        except UserError:
            continue
        if not close(combined, zero):
            x, y, z, found = map(show_value, (value, back, zero, combined))
            message = f"the inverse of `{fold.name}` takes nothing back: {x} combined with {y} is {found}, not {z}"
            raise UserError(message, span)


SAMPLES: dict[ty.Type, tuple[Value, ...]] = {
    ty.BOOL: (True, False),
    ty.INT: (1, -3, 12),
    ty.LONG: (1, -3, 12),
    ty.FLOAT: (1.0, -0.5, 8.0),
    ty.DOUBLE: (1.0, -0.5, 8.0),
    ty.STRING: ("a", "b", "ab"),
    ty.BYTES: (b"a", b"b", b"ab"),
}


def sample_values(t: ty.Type) -> Iterator[Value]:
    """Some values of a type of atoms, tuples and records; none of any other type."""
    match t:
        case ty.DecimalType():
            yield from (convert(x, t) for x in (Decimal("0.1"), Decimal("-0.3"), 0))
        case ty.TupleType(items):
            yield from zip(*(sample_values(item) for item in items), strict=False)
        case ty.RecordType(fields):
            for values in zip(*(sample_values(item) for _, item in fields), strict=False):
                yield Record(dict(zip((name for name, _ in fields), values, strict=True)))
        case _:
            yield from SAMPLES.get(t, ())


def aggregated(aggregation: Aggregation, collection: Term, scope: Scope, span: Span) -> Term:
    """The aggregation of a collection.

    Raises: UserError where its elements do not fit.
    """
    fold, unit = aggregation.fold, aggregation.unit
    v = PVar(scope.globals.names.fresh("v"), element_type(collection))
    element: Term = var_of(v)
    if unit is not None:
        of_one = f"the unit of `{fold.name}`"
        element = coerce(_of(unit, element, span), fold.type, span, of_one)
    elif not ty.fits(v.type, fold.type):
        hint = f"a third part makes one of an element: `aggregation {fold.name}(…, …, \\x. …): {fold.type}`"
        raise UserError(f"`{fold.name}` takes a collection of {fold.type}, not of {v.type}", span, hint)
    whole = coerce(element, fold.type, span, f"an element of `{fold.name}`")
    if aggregation.sums:
        return summed(collection, v, whole, span)
    present = Prim(NOT, (Prim(IS_NULL, (var_of(v),)),))
    one = Single(whole)
    return Reduce(fold, CMap(Lambda(v, If(present, one, Empty(one.type))), collection), span=span)
