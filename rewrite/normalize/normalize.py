"""Normal form: no bag is built only to be taken apart again.

*Equations*, applied until none fires:

    cMap(f, cMap(λx. e, S))     →  cMap(λx. cMap(f, e), S)                  ([MRQL] §6, rule 4)
    cMap(λp. e, {v})            →  let p = v in e
    cMap(λx. {x}, S)            →  S, on bags that cannot be missing, or where S is iterated over
    cMap(λ(x, y). {(x, y)}, S)  →  S, likewise, and where no element is a missing tuple or all are taken apart
    cMap(f, {})                 →  {}
    cMap(f, A ⊎ B)              →  cMap(f, A) ⊎ cMap(f, B)
    cMap(λp. e, groupBy(S))     →  cMap(λ(k, s). e[(k, s)/p], groupBy(S)), likewise λ(k, (xs, ys)) over coGroup
    cMap(f, if c then e else {})        →  if c then cMap(f, e) else {}
    if c then (if d then e else {}) else {}  →  if c and d then e else {}
    if c then {} else e         →  if not c then e else {}, where c cannot be missing
    (c and d) or (c and e)      →  c and (d or e)
    groupBy(e).cMap(λ(k, s). e') →  cMap(λ(k, x). e'[{x}/s], e), where e' is linear in s     ([MRQL] (3), generalised)
    coGroup likewise, where e' is linear in one side and does not use the other
    coGroup(c, d).cMap(λ(k, (xs, _)). cMap(f, xs))  →  groupBy(c).cMap(λ(k, xs). cMap(f, xs))
    cMap(f, coGroup(A ⊎ B, C))  →  cMap(f, coGroup(A, C)) ⊎ cMap(f, coGroup(B, C)), where f joins the elements
    let p = v in e              →  e[v/p], where v is cheap, used once, or names a stream and is no loop
    let x = <A: v, …> in e      →  let a = v in e[<A: a, …>/x], likewise of tuples, where v is not cheap
    reduce(⊕, {reduce(⊕, e) | x ∈ S})  →  reduce(⊕, {z | x ∈ S, z ∈ e})
    not not c                   →  c
    not (c or d)                →  not c and not d, so that an equality in d can be a join key
    A ⊎ B                       →  A as {t} ⊎ B, where t is the type of B's elements, and that of A's is narrower
    e ⊎ {}, reduce(⊎, e)        →  e, where e cannot be missing, and else cMap(λx. {x}, e)
    is_null(a + b)              →  is_null(a) or is_null(b), likewise of differences and products
    (e, …)#i, <A: e>.A, if true, not true, is_null((e, …))

*Result*: [MRQL] Def. 2: a tree of groupBy and coGroup connected by cMaps, under an optional reduce.

*Does not fire* where it would compute something twice: a `let` of an expensive value that is used twice stays.
"""

from __future__ import annotations

from functools import reduce

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import NOWHERE, MissingScope, may_be_missing, there
from mrql.algebra.analysis.traversal import children, map_children
from mrql.algebra.analysis.variables import (
    Names,
    Remembered,
    all_names,
    bound_names,
    free_vars,
    match_pattern,
    rename_apart,
    substitute,
    var_of,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import AND, IS_NULL, MINUS, NEGATE, NOT, OR, PLUS, TIMES, TWO_VALUED
from mrql.algebra.monoids import BAG, Aggregate, Monoid
from mrql.algebra.span import Span
from mrql.algebra.terms import (
    Cast,
    CMap,
    CoGroup,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    Lit,
    Nth,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Single,
    Term,
    Tup,
    Union,
    Var,
    element_type,
)
from mrql.rewrite.analysis.join_predicates import factored
from mrql.rewrite.normalize.copies import is_identity, without_copies
from mrql.rewrite.normalize.group_functions import paired
from mrql.rewrite.normalize.growth import cheap, inlines, may_be_copied
from mrql.rewrite.normalize.linear_groups import over_elements, over_summands

FIXPOINT_MAX_ROUNDS = 100


def normalize(term: Term, scope: MissingScope = NOWHERE) -> Term:
    """The normal form of a term ([MRQL] Def. 2); `scope` is what is known of its free variables.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.algebra.types import BagType, LONG
    >>> print(show(normalize(parse("cMap(λx. {x + 1L}, cMap(λy. {y * 2L}, S))", {"S": BagType(LONG)}))))
    cMap(λy. {y * 2L + 1L}, S)
    """
    for _ in range(FIXPOINT_MAX_ROUNDS):
        new = without_copies(_simplified(term), scope)
        if new is term or new == term:
            return new
        term = new
    raise InternalError("normalize", f"no normal form after {FIXPOINT_MAX_ROUNDS} rounds")


_SIMPLE = Remembered[bool]()
"""The terms that no rule changes; each pass normalizes its result, most of which is in normal form already."""


def _simplified(term: Term) -> Term:
    """The term with the rules applied once to every node, children first."""
    if not children(term) or _SIMPLE.get(term):
        return term
    new = _simplify(map_children(term, _simplified))
    if new is term:
        _SIMPLE.put(term, True)
    return new


def _simplify(term: Term) -> Term:
    match term:
        case CMap():
            return _cmap(term)
        case If():
            return _if(term)
        case Let():
            return _let(term)
        case Union():
            return _union(term)
        case Nth(Tup(items), index):
            return items[index]
        case Get(Rec(fields), name):
            return dict(fields)[name]
        case Nth(If(c, a, b), index) if isinstance(a, Tup) and isinstance(b, Tup) and a.type == b.type:
            return _simplify(If(c, a.items[index], b.items[index]))
        case Reduce(monoid, source) if monoid == BAG and isinstance(source.type, ty.BagType):
            return _as_there(source)
        case Reduce(Aggregate() as monoid, CMap() as source):
            fused = _without_reduce(monoid, source)
            return term if fused is None else Reduce(monoid, fused, span=term.span)
        case Cast(inner, t) if inner.type == t:
            return inner
        case Prim(function, (Lit(True, _), other)) | Prim(function, (other, Lit(True, _))) if function == AND:
            return other
        case Prim(function, (left, right)) if function == OR:
            shared = factored(left, right)
            return term if shared is None else shared
        case Prim(function, (Tup() | Rec() as made,)) if function == IS_NULL and not may_fail(made):
            return Lit(False, ty.BOOL)
        case Prim(function, (Prim(of),)) if function == IS_NULL and of in (PLUS, MINUS, TIMES, NEGATE):
            return _is_an_operand_missing(term)
        case Prim(function, (Lit(bool() as value, _),)) if function == NOT:
            return Lit(not value, ty.BOOL)
        case Prim(function, (Prim() as negated,), span=span) if function == NOT:
            return _not(term, negated, span)
        case _:
            return term


def _is_an_operand_missing(term: Prim) -> Term:
    """`is_null(a + b)` without the sum, which may leave its range."""
    (number,) = term.args
    assert isinstance(number, Prim)
    operands = (operand for operand in number.args if not isinstance(operand, Lit) or operand.value is None)
    asked = [_simplify(Prim(IS_NULL, (operand,), span=term.span)) for operand in operands]
    return reduce(lambda a, b: Prim(OR, (a, b), span=term.span), asked) if asked else Lit(False, ty.BOOL)


# --- cMap ---------------------------------------------------------------------------------------


def _cmap(term: CMap) -> Term:
    function, source = term.function, term.source
    match source:
        case Empty():
            return Empty(term.type)
        case Single(item):
            return _simplify(Let(function.param, item, _as_there(function.body), span=term.span))
        case CMap(inner, base):
            param, body = rename_apart(inner.param, inner.body, free_vars(function.body) | bound_names(function.param))
            return CMap(Lambda(param, _simplify(CMap(function, body, span=term.span))), base, span=source.span)
        case Union(left, right) if isinstance(source.type, ty.BagType) and may_be_copied(function.body, source):
            sides = [_simplify(CMap(function, side, span=term.span)) for side in (left, right)]
            return _simplify(Union(sides[0], sides[1], span=source.span))
        case If(condition, then, Empty()):
            return _simplify(If(condition, _simplify(CMap(function, then, span=term.span)), Empty(term.type)))
        case Let(pattern, value, body):
            inner_pattern, inner_body = rename_apart(pattern, body, free_vars(function.body))
            return Let(inner_pattern, value, _simplify(CMap(function, inner_body, span=term.span)))
        case GroupBy() | CoGroup():
            return _over_groups(term)
        case _:
            return _identity(term)


def _over_groups(term: CMap) -> Term:
    """Applies a function of groups to the elements, or to the parts of unions, where it can be; the rules for that are
    for `λ(k, s)` and `λ(k, (xs, ys))`."""
    new = over_elements(paired(term))
    unions = [side for side in children(new.source) if isinstance(side, Union)]
    parts = over_summands(new) if unions else (new,)
    if parts == (new,) or not all(may_be_copied(new.function.body, union) for union in unions):
        return new
    return reduce(lambda a, b: Union(a, b, span=term.span), map(_simplify, parts)) if parts else Empty(term.type)


def _identity(term: CMap) -> Term:
    if isinstance(term.function.body, Empty):
        return Empty(term.type)
    return term.source if is_identity(term) and not may_be_missing(term.source) else term


def _union(term: Union) -> Term:
    """`e ⊎ {}` as e, if e has the type of the union; a part of a narrower type is taken to it, since what is above it
    is of that type."""
    match term:
        case Union(Empty(), other) | Union(other, Empty()) if other.type == term.type:
            if not may_be_missing(other):
                return other
            return there(other) if isinstance(term.type, ty.BagType) else term
        case Union(left, right) if left.type != right.type:
            sides = [side if side.type == term.type else _widened(side, term.type) for side in (left, right)]
            return _simplify(Union(sides[0], sides[1], span=term.span))
        case _:
            return term


def _widened(side: Term, t: ty.Type) -> Term:
    return Empty(t) if isinstance(side, Empty) else Cast(side, t, span=side.span)


def _as_there(term: Term) -> Term:
    """The bag of a collection's elements; the empty bag where the collection is missing."""
    if isinstance(term.type, ty.BagType):
        return there(term)
    x = PVar("x", element_type(term))
    return CMap(Lambda(x, Single(var_of(x))), term)


# --- conditions, if and let ---------------------------------------------------------------------


def _not(term: Prim, negated: Prim, span: Span | None) -> Term:
    """De Morgan's law holds for missing conditions too, and the left operand still guards the right one."""
    match negated:
        case Prim(function, (inner,)) if function == NOT and inner.type == ty.BOOL:
            return inner
        case Prim(function, (a, b)) if function == OR:
            sides = [_simplify(Prim(NOT, (side,), span=span)) for side in (a, b)]
            return Prim(AND, (sides[0], sides[1]), span=span)
        case _:
            return term


def _if(term: If) -> Term:
    match term:
        case If(Lit(True, _), then, _) if then.type == term.type:
            return then
        case If(Lit(value, _), _, otherwise) if not value and otherwise.type == term.type:
            return otherwise
        case If(_, Empty(), Empty()):
            return term.then
        case If(_, then, otherwise) if then == otherwise and then.type == otherwise.type == term.type:
            return then  # the condition need not be evaluated
        case If(c, Empty(), otherwise) if _never_missing(c):
            negated = c.args[0] if isinstance(c, Prim) and c.function == NOT else Prim(NOT, (c,), span=c.span)
            return _if(If(negated, otherwise, Empty(term.type), span=term.span))
        case If(c, If(d, then, Empty()), Empty()):
            return If(Prim(AND, (c, d), span=c.span), then, Empty(term.type), span=term.span)
        case _:
            return term


def _never_missing(condition: Term) -> bool:
    """Whether a condition is always true or false, and so is its negation."""
    match condition:
        case Prim(function, args) if function in (AND, OR, NOT):
            return all(map(_never_missing, args))
        case Prim(function, _):
            return function in TWO_VALUED
        case Lit(value, _):
            return value is not None
        case _:
            return False


def _let(term: Let) -> Term:
    """Substitutes the parts of the value that are cheap, used once, or read a stream (`inlines`); keeps the others."""
    if bound_names(term.pattern) & free_vars(term.value):
        # What is kept becomes a let of its own around the others, which would bind these names in the value.
        pattern, body = rename_apart(term.pattern, term.body, free_vars(term.value))
        term = Let(pattern, term.value, body, span=term.span)
    bindings = match_pattern(term.pattern, term.value)
    if not bindings:
        return term.body
    if isinstance(term.pattern, PTuple) and not (isinstance(term.value, Tup) or cheap(term.value)):
        return term  # taking the value apart would compute it once for each part
    inlined = {name: e for name, e in bindings.items() if inlines(name, e, term.body)}
    kept = {name: e for name, e in bindings.items() if name not in inlined}
    if any(isinstance(e, Rec | Tup) for e in kept.values()):
        return _let_of_parts(term, bindings)
    if not inlined and len(kept) == 1 and isinstance(term.pattern, PVar):
        return term
    body = _simplified(substitute(term.body, inlined))
    for name, e in kept.items():
        body = Let(PVar(name, e.type), e, body, span=term.span)
    return body


def _let_of_parts(term: Let, bindings: dict[str, Term]) -> Term:
    """A let of tuples and records as lets of their parts, so that the uses of each part are considered by
    themselves."""
    names = Names(set(all_names(term)))
    parts: dict[str, Term] = {}
    values = {name: _from_parts(e, parts, names) for name, e in bindings.items()}
    body = _simplified(substitute(term.body, values))
    for name, e in reversed(parts.items()):
        body = _let(Let(PVar(name, e.type), e, body, span=term.span))
    return body


def _from_parts(value: Term, parts: dict[str, Term], names: Names, base: str = "v") -> Term:
    """A cheap term for a value, over variables for those of its parts that are not cheap, which are added to
    `parts`."""
    match value:
        case _ if cheap(value):
            return value
        case Tup(items):
            return Tup(tuple(_from_parts(item, parts, names) for item in items), span=value.span)
        case Rec(fields):
            made = tuple((field, _from_parts(item, parts, names, field)) for field, item in fields)
            return Rec(made, span=value.span)
        case _:
            name = names.fresh(base if base.isidentifier() else "v")
            parts[name] = value
            return Var(name, value.type)


def _without_reduce(monoid: Monoid, body: Term) -> Term | None:
    """A comprehension whose results are reductions, as one over the reduced elements; None for any other."""
    match body:
        case Single(Reduce(inner, source)) if inner == monoid:
            return source
        case CMap(Lambda(param, inner_body), source):
            fused = _without_reduce(monoid, inner_body)
            return None if fused is None else CMap(Lambda(param, fused), source, span=body.span)
        case If(condition, then, Empty()):
            fused = _without_reduce(monoid, then)
            return None if fused is None else If(condition, fused, Empty(fused.type), span=body.span)
        case _:
            return None
