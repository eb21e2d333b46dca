"""Normal form: no bag is built only to be taken apart again.

*Equations*, applied until none fires:

    cMap(f, cMap(λx. e, S))     →  cMap(λx. cMap(f, e), S)                  ([MRQL] §6, rule 4)
    cMap(λp. e, {v})            →  let p = v in e
    cMap(λx. {x}, S)            →  S, on bags
    cMap(f, {})                 →  {}
    cMap(f, A ⊎ B)              →  cMap(f, A) ⊎ cMap(f, B)
    cMap(f, if c then e else {})        →  if c then cMap(f, e) else {}
    if c then (if d then e else {}) else {}  →  if c and d then e else {}
    if c then {} else e         →  if not c then e else {}, where c cannot be missing
    (c and d) or (c and e)      →  c and (d or e)
    groupBy(e).cMap(λ(k, s). e') →  cMap(λ(k, x). e'[{x}/s], e), where e' is linear in s     ([MRQL] (3), generalised)
    coGroup likewise, where e' is linear in one side and does not use the other
    let p = v in e              →  e[v/p], where v is cheap, used once, or names a stream and is no loop
    reduce(⊕, {reduce(⊕, e) | x ∈ S})  →  reduce(⊕, {z | x ∈ S, z ∈ e})
    not not c                   →  c
    not (c or d)                →  not c and not d, so that an equality in d can be a join key
    (e, …)#i, <A: e>.A, if true, e ⊎ {}, reduce(⊎, e)

*Result*: [MRQL] Def. 2: a tree of groupBy and coGroup connected by cMaps, under an optional reduce.

*Does not fire* where it would compute something twice: a `let` of an expensive value that is used twice stays.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.binders import (
    Names,
    all_names,
    bound_names,
    free_vars,
    match_pattern,
    occurrences,
    rename_apart,
    substitute,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.functions import AND, NOT, OR, TWO_VALUED
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
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Term,
    Tup,
    Union,
    Var,
)
from mrql.algebra.traversal import bottom_up, subterms
from mrql.rewrite.equate import factored
from mrql.rewrite.infer import is_linear

MAX_ROUNDS = 100


def normalize(term: Term) -> Term:
    """The normal form of a term ([MRQL] Def. 2).

    >>> from mrql.algebra.reader import parse
    >>> from mrql.algebra.show import show
    >>> from mrql.algebra.types import BagType, LONG
    >>> print(show(normalize(parse("cMap(λx. {x + 1L}, cMap(λy. {y * 2L}, S))", {"S": BagType(LONG)}))))
    cMap(λy. {y * 2L + 1L}, S)
    """
    for _ in range(MAX_ROUNDS):
        new = bottom_up(term, _simplify)
        if new is term or new == term:
            return new
        term = new
    raise InternalError("normalize", f"no normal form after {MAX_ROUNDS} rounds")


def _simplify(term: Term) -> Term:
    match term:
        case CMap():
            return _cmap(term)
        case If():
            return _if(term)
        case Let():
            return _let(term)
        case Union(left, right):
            if isinstance(left, Empty) and right.type == term.type:
                return right
            return left if isinstance(right, Empty) and left.type == term.type else term
        case Nth(Tup(items), index):
            return items[index]
        case Get(Rec(fields), name):
            return dict(fields)[name]
        case Nth(If(c, a, b), index) if isinstance(a, Tup) and isinstance(b, Tup) and a.type == b.type:
            return _simplify(If(c, a.items[index], b.items[index]))
        case Reduce(monoid, source) if monoid == BAG and isinstance(source.type, ty.BagType):
            return source
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
        case Prim(function, (Prim() as negated,), span=span) if function == NOT:
            return _not(term, negated, span)
        case _:
            return term


# --- cMap ---------------------------------------------------------------------------------------


def _cmap(term: CMap) -> Term:
    function, source = term.function, term.source
    match source:
        case Empty():
            return Empty(term.type)
        case Single(item):
            return _simplify(Let(function.param, item, _as_bag(function.body), span=term.span))
        case CMap(inner, base):
            param, body = rename_apart(inner.param, inner.body, free_vars(function.body) | bound_names(function.param))
            return CMap(Lambda(param, _simplify(CMap(function, body, span=term.span))), base, span=source.span)
        case Union(left, right) if isinstance(source.type, ty.BagType):
            sides = [_simplify(CMap(function, side, span=term.span)) for side in (left, right)]
            return _simplify(Union(sides[0], sides[1], span=source.span))
        case If(condition, then, Empty()):
            return _simplify(If(condition, _simplify(CMap(function, then, span=term.span)), Empty(term.type)))
        case Let(pattern, value, body):
            inner_pattern, inner_body = rename_apart(pattern, body, free_vars(function.body))
            return Let(inner_pattern, value, _simplify(CMap(function, inner_body, span=term.span)))
        case GroupBy() | CoGroup():
            return _ungroup(term)
        case _:
            return _identity(term)


def _identity(term: CMap) -> Term:
    match term.function:
        case Lambda(param, Single(item)) if isinstance(term.source.type, ty.BagType) and _rebuilds(param, item):
            return term.source
        case Lambda(_, Empty()):
            return Empty(term.type)
        case _:
            return term


def _rebuilds(pattern: Pattern, term: Term) -> bool:
    """Whether the term is the very value that the pattern took apart."""
    match pattern, term:
        case PVar(name, _), Var(other, _):
            return name == other
        case PTuple(items), Tup(terms):
            return len(items) == len(terms) and all(map(_rebuilds, items, terms))
        case PAny(t), Tup(()):
            return t == ty.UNIT
        case _:
            return False


def _ungroup(term: CMap) -> Term:
    """A function that is linear in the group sees each element by itself ([MRQL] (3))."""
    match term:
        case CMap(Lambda(PTuple((key, PVar(group, _))), body), GroupBy(source)) if _linear_in(body, group):
            return _over_elements(key, group, body, source)
        case CMap(Lambda(PTuple((key, PTuple((xs, ys)))), body), CoGroup(left, right)):
            for used, other, side in ((xs, ys, left), (ys, xs, right)):
                unused = not (bound_names(other) & free_vars(body))
                if unused and isinstance(used, PVar) and _linear_in(body, used.name):
                    return _over_elements(key, used.name, body, side)
            return term
        case _:
            return term


def _linear_in(body: Term, group: str) -> bool:
    return group in free_vars(body) and is_linear(body, group)


def _over_elements(key: Pattern, group: str, body: Term, source: Term) -> Term:
    item_type = source.type
    assert isinstance(item_type, ty.BagType)
    assert isinstance(item_type.item, ty.TupleType)
    names = Names(set(all_names(body) | bound_names(key)))
    element = PVar(names.fresh("x"), item_type.item.items[1])
    by_element = substitute(body, {group: Single(Var(element.name, element.type))})
    return CMap(Lambda(PTuple((_retype(key, item_type.item.items[0]), element)), by_element), source)


def _retype(pattern: Pattern, t: ty.Type) -> Pattern:
    """The pattern of the source's own key type (the key of a coGroup may be wider than that of one side)."""
    match pattern, t:
        case PVar(name, _), _:
            return PVar(name, t)
        case PAny(_), _:
            return PAny(t)
        case PTuple(items), ty.TupleType(types):
            return PTuple(tuple(map(_retype, items, types)))
        case _:
            return pattern


def _as_bag(body: Term) -> Term:
    """The result of a cMap is a bag, also where its function gives a list."""
    if isinstance(body.type, ty.BagType):
        return body
    assert isinstance(body.type, ty.ListType)
    item = PVar("x", body.type.item)
    return CMap(Lambda(item, Single(Var("x", item.type))), body)


# --- conditions, if and let ---------------------------------------------------------------------------------


def _not(term: Prim, negated: Prim, span: Span | None) -> Term:
    """De Morgan's law holds for missing conditions too, and a guard on the left still guards what is on the right."""
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
        case If(c, Empty(), otherwise) if _never_missing(c):
            negated = c.args[0] if isinstance(c, Prim) and c.function == NOT else Prim(NOT, (c,), span=c.span)
            return _if(If(negated, otherwise, Empty(term.type), span=term.span))
        case If(c, If(d, then, Empty()), Empty()):
            return If(Prim(AND, (c, d), span=c.span), then, Empty(term.type), span=term.span)
        case _:
            return term


def _never_missing(condition: Term) -> bool:
    """Whether a condition is true or false, and so has a negation that is true or false."""
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
    """Substitutes the parts of the value that are cheap, used once, or bulk; keeps the others."""
    bindings = match_pattern(term.pattern, term.value)
    if not bindings:
        return term.body
    if isinstance(term.pattern, PTuple) and not (isinstance(term.value, Tup) or _cheap(term.value)):
        return term  # taking the value apart would compute it once for each part
    inlined = {name: e for name, e in bindings.items() if _inlines(name, e, term.body)}
    kept = {name: e for name, e in bindings.items() if name not in inlined}
    if not inlined and len(kept) == 1 and isinstance(term.pattern, PVar):
        return term
    clash = frozenset().union(*map(free_vars, inlined.values())) & frozenset(kept)
    if clash:
        return term
    body = bottom_up(substitute(term.body, inlined), _simplify)
    for name, e in kept.items():
        body = Let(PVar(name, e.type), e, body, span=term.span)
    return body


def _inlines(name: str, value: Term, body: Term) -> bool:
    if _cheap(value) or occurrences(body, name) <= 1:
        return True
    parts = tuple(subterms(value))
    return any(isinstance(t, Stream) for t in parts) and not any(isinstance(t, Repeat) for t in parts)


def _cheap(term: Term) -> bool:
    """Whether computing the term twice costs no more than reading it twice."""
    match term:
        case Var() | Lit() | Empty():
            return True
        case Nth(inner, _) | Get(inner, _):
            return _cheap(inner)
        case Tup(items):
            return all(map(_cheap, items))
        case Rec(fields):
            return all(_cheap(item) for _, item in fields)
        case Single(item):
            return _cheap(item)
        case _:
            return False


def _without_reduce(monoid: Monoid, body: Term) -> Term | None:
    """A comprehension whose results are reductions, over what they reduce; None when they are not."""
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
