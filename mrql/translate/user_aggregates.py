"""Aggregations that a program defines: `aggregation name(combine, zero, unit): t`.

    name(e) = reduce(⊕, {unit(x) | x ∈ e, x is there}),   x ⊕ y = combine(x, y), with `zero` as its identity

Without a `unit` the elements are combined as they are. As with the built-in aggregations, what is missing is skipped,
and the value of nothing is `zero`. A collection is aggregated in any order and in any groups: `combine` must be
associative and commute, and `zero` must change nothing.

*Source*: [MRQL] §5 (monoids); the `aggregation` of Apache MRQL.
"""

from __future__ import annotations

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import var_of
from mrql.algebra.errors import UserError
from mrql.algebra.functions import IS_NULL, NOT
from mrql.algebra.monoids import Fold
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Empty, If, Lambda, Prim, PTuple, PVar, Reduce, Single, Stream, Term, element_type
from mrql.translate.coercion import coerce, resolve
from mrql.translate.inlining import apply, closure_of
from mrql.translate.scope import Aggregation, Scope


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
    return Aggregation(Fold(name, Lambda(PTuple((x, y)), combined), zero, t), unit)


def aggregated(aggregation: Aggregation, collection: Term, scope: Scope, span: Span) -> Term:
    """The aggregation of a collection.

    Raises: UserError where its elements do not fit.
    """
    fold, unit = aggregation.fold, aggregation.unit
    v = PVar(scope.globals.names.fresh("v"), element_type(collection))
    element: Term = var_of(v)
    if unit is not None:
        of_one = f"the unit of `{fold.name}`"
        element = coerce(apply(unit, [element], span), fold.type, span, of_one)
    elif not ty.fits(v.type, fold.type):
        raise UserError(f"`{fold.name}` takes a collection of {fold.type}, not of {v.type}", span)
    one = Single(coerce(element, fold.type, span, f"an element of `{fold.name}`"))
    present = Prim(NOT, (Prim(IS_NULL, (var_of(v),)),))
    return Reduce(fold, CMap(Lambda(v, If(present, one, Empty(one.type))), collection), span=span)
