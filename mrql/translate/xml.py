"""XML: children, attributes, texts and literals.

    e.a       children(e, "a")      the children with the tag a, in their order
    e.*       all_children(e)       all children
    e.@a      attribute(e, "a")     missing where there is none; for a list, those that there are
    e.@*      attributes(e)         the values of all attributes

For a list, the results of its elements are concatenated; for a bag, the result is a bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, zip_longest

from mrql import syntax
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Cast, CMap, Empty, If, Lambda, ListOf, Lit, Prim, PVar, Term, Union, Var
from mrql.algebra.types import Type
from mrql.translate.scope import Scope

LIST = ty.ListType(ty.XML)
BAG = ty.BagType(ty.XML)

WHOLE = "a record as a whole is its name: `select x from x in X`, or `x, y` of two"


def is_xml(t: Type) -> bool:
    """Whether a value is an element, or a collection of elements."""
    return t in (ty.XML, LIST, BAG)


def children(term: Term, tag: str | None, names: Names, span: Span) -> Term:
    """`e.tag`, or `e.*` for no tag.

    Raises: UserError where there are no elements.
    """
    shown = f"`.{tag or '*'}`"
    if tag is None:
        return _each(term, lambda e: Prim(fn.ALL_CHILDREN, (e,), span=span), names, shown, span)
    return _each(term, lambda e: Prim(fn.CHILDREN, (e, Lit(tag, ty.STRING)), span=span), names, shown, span)


def attribute(term: Term, name: str, names: Names, span: Span) -> Term:
    """`e.@name`, or `e.@*`.

    Raises: UserError where there are no elements.
    """
    if name == "*":
        return _each(term, lambda e: Prim(fn.ATTRIBUTES, (e,), span=span), names, "`.@*`", span)

    def one(element: Term) -> Term:
        # Of an element in a bag, only an attribute that is there is an element of the result.
        found = [element] if term.type != BAG else [ListOf((element,))]
        return Prim(fn.ATTRIBUTE, (*found, Lit(name, ty.STRING)), span=span)

    return _each(term, one, names, f"`.@{name}`", span)


def _each(term: Term, of: Callable[[Term], Term], names: Names, shown: str, span: Span) -> Term:
    if not is_xml(term.type):
        hint = WHOLE if shown == "`.*`" and isinstance(term.type, ty.RecordType) else None
        raise UserError(f"{shown} takes an XML element, not {term.type}", span, hint)
    if term.type != BAG:
        return of(term)
    v = PVar(names.fresh("x"), ty.XML)
    return CMap(Lambda(v, of(Var(v.name, ty.XML))), term)


# --- literals -----------------------------------------------------------------------------------


def element(expr: syntax.XmlElement, scope: Scope) -> Term:
    """`[xml| <a x="1">text{{e}}</a> |]`: a hole holds an element, a list of elements, or an atomic value as a text.

    Raises: UserError where a hole holds something else, or an attribute is there twice.
    """
    names = [name for name, _ in expr.attributes]
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"the attribute `{name}` is there twice", expr.span)
        seen.add(name)
    values = [_string(value, scope) for _, value in expr.attributes]
    given = _list([Lit(name, ty.STRING) for name in names], ty.STRING)
    args = (Lit(expr.tag, ty.STRING), given, _list(values, ty.STRING), _together(_parts(expr.children, scope)))
    return Prim(fn.ELEMENT, args, span=expr.span)


def _list(items: Sequence[Term], t: Type) -> Term:
    return ListOf(tuple(items)) if items else Empty(ty.ListType(t))


def _parts(children: Sequence[syntax.Expr], scope: Scope) -> list[Term]:
    """The parts of an element as lists; adjacent texts are joined to one."""
    parts: list[Term] = []
    texts: list[Term] = []

    def end_text() -> None:
        if texts:
            whole = texts[0]
            for text in texts[1:]:
                whole = Prim(fn.PLUS, (whole, text))
            parts.append(ListOf((Prim(fn.TEXT_NODE, (whole,)),)))
            texts.clear()

    for child in children:
        term = scope.translate(child)
        if term.type == ty.XML:
            end_text()
            parts.append(ListOf((term,)))
        elif term.type == LIST:
            end_text()
            parts.append(term)
        else:
            texts.append(_present(_as_string(term, child)))
    end_text()
    return parts


def _together(parts: Sequence[Term]) -> Term:
    """The concatenation of some lists. Adjacent lists that are written out become one, and the others are joined in
    pairs, so that many parts do not make a deep term."""
    groups = groupby(parts, lambda part: isinstance(part, ListOf))
    lists = [part for single, some in groups for part in ([_list([*_items(some)], ty.XML)] if single else some)]
    while len(lists) > 1:
        pairs = zip_longest(lists[::2], lists[1::2])
        lists = [first if second is None else Union(first, second) for first, second in pairs]
    return lists[0] if lists else Empty(LIST)


def _items(lists: Iterable[Term]) -> Iterator[Term]:
    for part in lists:
        assert isinstance(part, ListOf)
        yield from part.items


def _string(value: syntax.Expr, scope: Scope) -> Term:
    return _as_string(scope.translate(value), value)


def _as_string(term: Term, written: syntax.Expr) -> Term:
    if term.type == ty.STRING:
        return term
    if not isinstance(term.type, ty.Basic | ty.Nothing) or term.type == ty.XML:
        hint = "a bag has no order: `order by` makes a list of it" if term.type == BAG else None
        raise UserError(f"XML holds elements, lists of elements and texts, not {term.type}", written.span, hint)
    return Cast(term, ty.STRING, span=written.span)


def _present(text: Term) -> Term:
    """A text, or the empty text where it is missing."""
    if isinstance(text, Lit):
        return text
    return If(Prim(fn.IS_NULL, (text,)), Lit("", ty.STRING), text)
