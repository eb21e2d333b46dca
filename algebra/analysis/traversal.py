"""The one place that knows the children of each term.

`map_children` rebuilds a node from its children, in the order in which `children` lists them, and returns the same
object when no child changed: a rule that does nothing costs no allocation, and a fixpoint is seen by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any, assert_never

import attrs

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
    ListOf,
    Lit,
    Nth,
    OrderBy,
    Prim,
    Rec,
    Reduce,
    Repeat,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
)

Rule = Callable[[Term], Term]


_CHILDREN: Mapping[type[Term], Callable[[Any], tuple[Term, ...]]] = {
    **dict.fromkeys((Var, Lit, Empty, Stream), lambda _: ()),
    **dict.fromkeys((Tup, ListOf), lambda t: t.items),
    Rec: lambda t: tuple(item for _, item in t.fields),
    **dict.fromkeys((Nth, Get, Cast), lambda t: (t.term,)),
    Single: lambda t: (t.item,),
    **dict.fromkeys((GroupBy, Reduce, OrderBy), lambda t: (t.source,)),
    Prim: lambda t: t.args,
    If: lambda t: (t.condition, t.then, t.otherwise),
    Let: lambda t: (t.value, t.body),
    **dict.fromkeys((Union, CoGroup), lambda t: (t.left, t.right)),
    CMap: lambda t: (t.function.body, t.source),
    Take: lambda t: (t.count, t.source),
    Repeat: lambda t: (t.function.body, *(part for part in (t.condition, t.limit) if part is not None), t.source),
}
"""By class, and not by a `match`, since `children` is the most frequently called function."""


def children(term: Term) -> tuple[Term, ...]:
    """The direct subterms, bodies of functions included."""
    return _CHILDREN[type(term)](term)


def map_children(term: Term, f: Rule) -> Term:
    """The term with `f` applied to each direct subterm."""
    old = children(term)
    if not old:
        return term
    return with_children(term, tuple(map(f, old)))


def with_children(term: Term, new: tuple[Term, ...]) -> Term:
    """The same kind of node over other children; the same object if they are its own."""
    if all(map(is_, children(term), new)):
        return term
    match term:
        case Var() | Lit() | Empty() | Stream():
            return term
        case Tup() | ListOf():
            return type(term)(new, span=term.span)
        case Rec(fields):
            return Rec(tuple((name, e) for (name, _), e in zip(fields, new, strict=True)), span=term.span)
        case Nth(_, index):
            return Nth(new[0], index, span=term.span)
        case Get(_, name):
            return Get(new[0], name, span=term.span)
        case Cast(_, t):
            return Cast(new[0], t, span=term.span)
        case Single():
            return Single(new[0], span=term.span)
        case GroupBy():
            return GroupBy(new[0], span=term.span)
        case Reduce(monoid, _):
            return Reduce(monoid, new[0], span=term.span)
        case OrderBy(_, descending):
            return OrderBy(new[0], descending, span=term.span)
        case Prim(function, _):
            return Prim(function, new, span=term.span)
        case If():
            return If(new[0], new[1], new[2], span=term.span)
        case Let(pattern, _, _):
            return Let(pattern, new[0], new[1], span=term.span)
        case Union() | CoGroup():
            return type(term)(new[0], new[1], span=term.span)
        case CMap(Lambda(param, _), _):
            return CMap(Lambda(param, new[0]), new[1], span=term.span)
        case Take():
            return Take(new[0], new[1], span=term.span)
        case Repeat(Lambda(param, _), _, limit, condition):
            body, *optional, source = new
            parts = iter(optional)
            return attrs.evolve(
                term,
                function=Lambda(param, body),
                condition=None if condition is None else next(parts),
                limit=None if limit is None else next(parts),
                source=source,
            )
        case _:
            assert_never(term)


def bottom_up(term: Term, rule: Rule) -> Term:
    """Applies `rule` once to every node, children first."""
    return rule(map_children(term, lambda child: bottom_up(child, rule)))


def top_down(term: Term, rule: Rule) -> Term:
    """Applies `rule` once to every node, the node before its (new) children."""
    return map_children(rule(term), lambda child: top_down(child, rule))


def subterms(term: Term) -> Iterator[Term]:
    """The term and all its subterms, outermost first."""
    waiting = [term]
    while waiting:
        term = waiting.pop()
        yield term
        waiting.extend(reversed(children(term)))


def size(term: Term) -> int:
    """The number of nodes."""
    return 1 + sum(map(size, children(term)))


def height(term: Term) -> int:
    """The number of edges on the longest path from the term to a leaf."""
    return max((1 + height(child) for child in children(term)), default=0)
