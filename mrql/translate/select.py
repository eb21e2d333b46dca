"""Comprehensions: `select … from … where … group by … order by …`.

    select e from p in e1, q in e2 where c                  {e | p ∈ e1, q ∈ e2, c}
    … group by k: e' having h                               {e | (k, s) ∈ groupBy({(e', (p, q)) | …}), h}
    … order by e''                                          orderBy({(e'', e) | …})

After `group by`, each from-variable stands for the bag of its values in the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.distinct import distinct
from mrql.algebra.analysis.traversal import children
from mrql.algebra.analysis.variables import alpha_equal, free_vars, pattern_term, scopes
from mrql.algebra.errors import UserError
from mrql.algebra.terms import (
    CMap,
    GroupBy,
    Lambda,
    OrderBy,
    Pattern,
    PTuple,
    PVar,
    Rec,
    Single,
    Take,
    Term,
    Tup,
    Var,
    one_or_pattern,
    one_or_tuple,
)
from mrql.translate.coercion import coerce
from mrql.translate.generators import From, guard, nest, translate_generators
from mrql.translate.json_values import CAST_HINT
from mrql.translate.lifted import bag_hint
from mrql.translate.patterns import Match, match_pattern
from mrql.translate.scope import GroupedVariables, Scope, UnknownName


def select(expr: syntax.Select, scope: Scope) -> Term:
    """The term of a select: a bag, or a list when it is ordered or limited.

    Raises: UserError at the first part that has no type.
    """
    try:
        return _select(expr, scope)
    except UnknownName as error:
        head = dict(expr.head.fields) if isinstance(expr.head, syntax.RecordExpr) else {}
        meant = head.get(error.name) if error.what == "name" else None
        if meant is None or error.name in syntax.names_in(meant):
            raise
        hint = f"`{error.name}` is a name in the answer; what it stands for is `{meant.span.text}`"
        raise UserError(error.message, error.span, hint) from None


def _select(expr: syntax.Select, scope: Scope) -> Term:
    origin = translate_generators(expr.generators, scope)
    conditions = list(origin.match.conditions)
    if expr.where is not None:
        conditions.append(
            coerce(origin.scope.translate(expr.where), ty.BOOL, expr.where.span, "the condition of `where`")
        )
    if expr.group is None:
        heads = nest(origin.generators, guard(conditions, _head(expr, origin.scope, origin.match.bindings.values())))
    else:
        heads = _grouped(expr, expr.group, origin, conditions, scope)
    return _finish(expr, heads, scope, origin.scope)


# --- head, order, distinct ----------------------------------------------------------------------

OrderKey: TypeAlias = tuple[syntax.Expr, bool]
"""An expression that rows are ordered by, and whether it descends."""


def _head(expr: syntax.Select, scope: Scope, inside: Iterable[Term], groups: Sequence[Term] = ()) -> Term:
    """`{e}`, or `{(order key, e)}` when the select is ordered. The variables of the select are those of the terms
    `inside`; `groups` are the keys of its groups."""
    head = scope.translate(expr.head)
    if expr.order is None:
        return Single(head, span=expr.head.span)
    order = _order_keys(expr.order, scope)
    key = _order_key(order, scope)
    if expr.distinct:
        variables = frozenset[str]().union(*map(free_vars, inside), *map(free_vars, groups))
        _is_of_the_head(order, key, [*_parts(head)], variables, groups)
    return Single(Tup((key, head)), span=expr.head.span)


def _is_of_the_head(
    order: Sequence[OrderKey],
    key: Tup,
    selected: Sequence[Term],
    variables: frozenset[str],
    groups: Sequence[Term],
) -> None:
    """Raises: UserError for a select distinct whose order depends on more than what is selected, so that equal values
    may have several places in it."""
    if groups and all(_is_made_of(group, selected, variables) for group in groups):
        return  # each group occurs once, with one order key
    for part, (written, _) in zip(key.items, order, strict=True):
        if not _is_made_of(part, selected, variables):
            text = written.span.text
            message = f"`{text}` is not selected, and `distinct` keeps one of equal values, for which it may differ"
            hint = f"select it, too; or group by what is selected, and say which counts: `order by min({text})`"
            raise UserError(message, written.span, hint)


def _parts(head: Term) -> Iterator[Term]:
    """A value and its parts, which are selected with it."""
    yield head
    match head:
        case Tup(items):
            yield from chain.from_iterable(map(_parts, items))
        case Rec(fields):
            yield from chain.from_iterable(_parts(value) for _, value in fields)


def _is_made_of(term: Term, selected: Sequence[Term], variables: frozenset[str]) -> bool:
    """Whether the selected terms determine the value of a term."""
    if any(alpha_equal(term, part) for part in selected):
        return True
    if isinstance(term, Var):
        return term.name not in variables
    inner = zip(children(term), scopes(term), strict=True)
    return all(_is_made_of(child, selected, variables - bound) for child, bound in inner)


def _order_key(order: Sequence[OrderKey], scope: Scope) -> Tup:
    parts = list[Term]()
    for key, _ in order:
        if (place := _place(key)) is not None:
            problem = f"`order by {place}` is the same for all rows: a column is written, not counted"
            behind = "; if it is an argument behind a select, put the select in brackets" if parts else ""
            raise UserError(problem, key.span, f"write the expression itself, as in `order by x.name`{behind}")
        term = scope.translate(key)
        if not ty.is_ordered(term.type):
            hint = CAST_HINT if term.type == ty.ANY else bag_hint(key, term, scope)
            raise UserError(f"values of type {term.type} have no order", key.span, hint)
        parts.append(term)
    return Tup(tuple(parts))


def _place(key: syntax.Expr) -> int | None:
    """The number that in SQL would be a position in the head, if the key is one."""
    return key.value if isinstance(key, syntax.IntLit) else None


def _order_keys(order: syntax.OrderBy, scope: Scope) -> list[OrderKey]:
    if any("inv" in defined for defined in scope.globals.callables):
        return [(key.expr, key.descending) for key in order.keys]
    return [part for key in order.keys for part in _uninverted(key.expr, key.descending)]


def _uninverted(key: syntax.Expr, descending: bool) -> Iterator[OrderKey]:
    """`inv(e)` is the dialect's notation for `e desc`; a tuple that contains one orders by each of its parts."""
    match key:
        case syntax.Call("inv", (inner,)):
            yield from _uninverted(inner, not descending)
        case syntax.TupleExpr(items) if any(isinstance(item, syntax.Call) and item.function == "inv" for item in items):
            for item in items:
                yield from _uninverted(item, descending)
        case _:
            yield key, descending


def _limit(limit: syntax.Expr, scope: Scope, within: Scope) -> Term:
    """The number of elements to keep.

    Raises: UserError where it names a variable of the select, and there is nothing else of that name.
    """
    try:
        return scope.translate(limit)
    except UnknownName as error:
        if error.what == "name" and error.name in within.variables:
            raise UserError(f"a limit is one number: it cannot depend on `{error.name}`", limit.span) from None
        if error.what == "name" and error.name.lower() == "all":
            raise UserError(error.message, limit.span, "without a `limit` there are all rows") from None
        raise


def _finish(expr: syntax.Select, heads: Term, scope: Scope, within: Scope) -> Term:
    rows = distinct(heads, scope.globals.names) if expr.distinct else heads
    if expr.order is None:
        return rows
    ordered: Term = OrderBy(rows, tuple(down for _, down in _order_keys(expr.order, scope)), span=expr.span)
    if expr.order.limit is None:
        return ordered
    limit = _limit(expr.order.limit, scope, within)
    if not ty.is_integral(limit.type):
        raise UserError(f"`limit` takes a number of rows, not {limit.type}", expr.order.limit.span)
    return Take(limit, ordered, span=expr.span)


# --- group by -----------------------------------------------------------------------------------


def _is_meant_as_key(key: syntax.GroupKey) -> None:
    """Raises: UserError for a key that is a select without a name and brackets, as in a tuple of selects, where the one
    behind `group by x,` is read as a second key; and for a number, which is no position in the head."""
    if key.pattern is None and (place := _place(key.expr)) is not None:
        problem = f"`group by {place}` is one group of all rows: a column is written, not counted"
        raise UserError(problem, key.span, "write the expression itself; one group of all rows is `group by k: 1`")
    if isinstance(key.expr, syntax.Select) and key.pattern is None and key.expr.span.text.startswith("select"):
        hint = "put the select before it in brackets, or this one if it is a key"
        raise UserError("this select is read as one more key of the `group by` before it", key.span, hint)


def _grouped(expr: syntax.Select, group: syntax.GroupBy, origin: From, conditions: list[Term], scope: Scope) -> Term:
    variables = dict(origin.match.bindings)
    keys = [origin.scope.translate(key.expr) for key in group.keys]
    for key in group.keys:
        _is_meant_as_key(key)
    key_value = one_or_tuple(keys)
    element = one_or_tuple([*variables.values()])
    pairs = nest(origin.generators, guard(conditions, Single(Tup((key_value, element)))))
    match = Match()
    patterns = [_key_pattern(key, term, scope, match) for key, term in zip(group.keys, keys, strict=True)]
    key_pattern = one_or_pattern([p for p, _ in patterns])
    s = PVar(scope.globals.names.fresh("s"), ty.BagType(element.type))
    inner = _group_scope(scope, variables, match, s)
    # A key's expression stands for the key, unless a name in it now means the key itself: `group by a: a + 1`.
    named = tuple(
        (key.expr, value)
        for key, (_, value) in zip(group.keys, patterns, strict=True)
        if not syntax.names_in(key.expr) & set(match.bindings)
    )
    inner = attrs.evolve(inner, keys=(*named, *inner.keys))
    filters = list(match.conditions)
    if group.having is not None:
        filters.append(_having(group.having, inner))
    body = guard(filters, _head(expr, inner, [Var(s.name, s.type)], [value for _, value in patterns]))
    return CMap(Lambda(PTuple((key_pattern, s)), body), GroupBy(pairs, span=group.span))


def _having(condition: syntax.Expr, scope: Scope) -> Term:
    """Raises: UserError where the condition is no bool."""
    term = scope.translate(condition)
    hint = bag_hint(condition, term, scope, lambda element: element == ty.BOOL)
    return coerce(term, ty.BOOL, condition.span, "the condition of `having`", hint=hint)


def _key_pattern(key: syntax.GroupKey, term: Term, scope: Scope, match: Match) -> tuple[Pattern, Term]:
    """The pattern for a key, and the term that the key's own expression stands for after the group-by."""
    if key.pattern is None:
        k = PVar(scope.globals.names.fresh("k"), term.type)
        return k, Var(k.name, k.type)
    pattern = match_pattern(key.pattern, term.type, scope.globals, match)
    return pattern_term(pattern, scope.globals.names)


def _group_scope(scope: Scope, variables: Mapping[str, Term], match: Match, s: PVar) -> Scope:
    """The scope of head, having and order: key names, lifted from-variables, `partition`."""
    assert isinstance(s.type, ty.BagType)
    names = scope.globals.names

    def over(body: Callable[[Mapping[str, Term]], Term]) -> Term:
        parts = tuple(PVar(names.fresh(name), value.type) for name, value in variables.items())
        element = {name: Var(part.name, part.type) for name, part in zip(variables, parts, strict=True)}
        pattern = one_or_pattern(parts)
        return CMap(Lambda(pattern, body(element)), Var(s.name, s.type))

    def lifted(name: str) -> Term:
        return over(lambda element: Single(element[name]))

    def by_element(place: Scope, body: Callable[[Scope], Term]) -> Term:
        visible = place.group.names if place.group else frozenset()
        return over(
            lambda element: body(attrs.evolve(place.bind({name: element[name] for name in visible}), group=None))
        )

    bags = {name: lifted(name) for name in variables if name not in match.bindings}
    records = over(lambda element: Single(Rec(tuple(element.items()))))
    group = GroupedVariables(frozenset(variables) - frozenset(match.bindings), by_element, frozenset(match.bindings))
    inner = scope.bind({**bags, "partition": records, **match.bindings})
    return attrs.evolve(inner, group=group)
