"""The joins of a feed as a tree, which is read from nested cMaps and coGroups, changed, and written again.

The columns of each input get names of their own, and all terms over joined rows (the keys of the joins, filters, the
key and element of the feed) are over these. The passes over a join as a whole work on the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import Known, known
from mrql.algebra.analysis.variables import Names, free_vars, match_pattern, substitute, substitute_streams
from mrql.algebra.notation.readable_names import head, hint, tidy
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    If,
    Lambda,
    PAny,
    Pattern,
    PTuple,
    PVar,
    Single,
    Stream,
    Term,
    Tup,
    Var,
    cast_to,
    element_type,
    one_or_tuple,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.analysis.multilinear import Input, occurrences
from mrql.rewrite.normalize.normalize import normalize

# --- the tree -----------------------------------------------------------------------------------


@attrs.frozen
class Leaf:
    """An input of the join, or a part that reads static tables alone; `columns` are the parts of its element, down to
    tuples that may be missing."""

    term: Term
    label: str | None
    element: Term
    columns: tuple[Var, ...]


@attrs.frozen
class Join:
    """A join of two sides by the equality of two keys; a product if `keys` is None."""

    left: Tree
    right: Tree
    keys: tuple[Term, Term] | None


@attrs.frozen
class Where:
    """The rows of a tree for which a condition over their columns holds."""

    tree: Tree
    condition: Term


Tree: TypeAlias = Leaf | Join | Where


class Unknown(Exception):
    """The body of a feed is not of a form that the passes over joins know."""


@attrs.frozen
class _GroupedSide:
    """What a variable for a group of a coGroup stands for: the rows of one side, without their key."""

    element: Term


def parts(tree: Tree) -> Iterator[Tree]:
    """The tree and all trees in it."""
    yield tree
    match tree:
        case Join(left, right):
            yield from parts(left)
            yield from parts(right)
        case Where(inner):
            yield from parts(inner)


def sides(tree: Tree) -> Iterator[tuple[Tree, Term]]:
    """The sides of joins by keys, with their keys."""
    for part in parts(tree):
        if isinstance(part, Join) and part.keys is not None:
            yield from zip((part.left, part.right), part.keys, strict=True)


def is_stored(tree: Tree) -> bool:
    """Whether the tree is just an input, which can then be stored by the join's key."""
    return isinstance(tree, Leaf) and tree.label is not None


# --- reading ------------------------------------------------------------------------------------


class FeedReader:
    """Reads the body of a feed: nested cMaps over coGroups of inputs, some of which are of derived streams."""

    def __init__(self, names: Names, inputs: Iterable[Input], derived: Mapping[str, Term]) -> None:
        self.names = names
        self.inputs = {read.label: read.term for read in inputs}
        self.derived = {read.label: derived[read.stream] for read in inputs if read.stream in derived}

    def tree(self, term: Term) -> tuple[Tree, Term]:
        """The joins of a term, and its head: a term over the columns of the leaves."""
        match term:
            case Stream(name, _, static) if not static:
                leaf = self._leaf(term, name)
                return leaf, leaf.element
            case CMap(Lambda(PTuple((key, PTuple((PVar(xs), PVar(ys))))), body), CoGroup(left, right)):
                (one, row), (other, other_row) = self.tree(left), self.tree(right)
                (k, x), (other_k, y) = key_and_value(row), key_and_value(other_row)
                # The key of a coGroup may be of a wider type than that of one side.
                body = substitute(body, match_pattern(key, cast_to(k, key.type)))
                return self._body(body, Join(one, other, (k, other_k)), {xs: _GroupedSide(x), ys: _GroupedSide(y)})
            case CMap(Lambda(param, body), source) if not isinstance(source, CoGroup):
                inner, row = self.tree(source)
                return self._body(_bound(body, param, row), inner, {})
            case _ if not occurrences(term) and not free_vars(term) and isinstance(term.type, ty.BagType):
                leaf = self._leaf(term, None)
                return leaf, leaf.element
            case _:
                raise Unknown

    def _body(self, body: Term, tree: Tree, groups: Mapping[str, _GroupedSide]) -> tuple[Tree, Term]:
        """Reads what follows the generators of a tree: more generators, filters, and the head."""
        match body:
            case CMap(Lambda(param, inner), Var(name)) if name in groups:
                left = {other: group for other, group in groups.items() if other != name}
                return self._body(_bound(inner, param, groups[name].element), tree, left)
            case CMap(Lambda(param, inner), source) if not groups and not free_vars(source):
                other, row = self.tree(source)
                return self._body(_bound(inner, param, row), Join(tree, other, None), {})
            case If(condition, then, Empty()) if free_vars(condition) <= columns_of(tree):
                return self._body(then, Where(tree, condition), groups)
            case Single(row) if not groups:
                return tree, row
            case _:
                raise Unknown

    def _leaf(self, term: Term, label: str | None) -> Leaf:
        columns: list[Var] = []

        def named(t: Type, of: Term | None, value: Known) -> Term:
            if isinstance(t, ty.TupleType) and not value.missing:
                shown = of.items if isinstance(of, Tup) else [None] * len(t.items)
                items = enumerate(zip(t.items, shown, strict=True))
                return Tup(tuple(named(*item, value.part(i)) for i, item in items))
            columns.append(Var(self.names.fresh(hint(of) or "c"), t))
            return columns[-1]

        read = self.inputs[label] if label else term
        # A side of a join takes its elements apart anyway, but not what is in them.
        value = attrs.evolve(known(substitute_streams(read, self.derived)).element, missing=False)
        element = named(element_type(term), head(tidy(read)), value)
        return Leaf(term, label, element, tuple(columns))


def columns_of(tree: Tree) -> frozenset[str]:
    """The names of all columns of a tree."""
    return frozenset(column.name for part in parts(tree) if isinstance(part, Leaf) for column in part.columns)


def _bound(body: Term, param: Pattern, value: Term) -> Term:
    return normalize(substitute(body, match_pattern(param, value)))


def key_and_value(pair: Term) -> tuple[Term, Term]:
    """The key and the value of a pair.

    Raises: Unknown where the term is no pair.
    """
    if not isinstance(pair, Tup) or len(pair.items) != 2:
        raise Unknown
    return pair.items[0], pair.items[1]


# --- writing ------------------------------------------------------------------------------------


@attrs.frozen
class StoredInput:
    """An input as it is stored: pairs of the key that it is stored by, and a value of some columns."""

    term: Term
    key: Term
    columns: tuple[Var, ...]


@attrs.frozen
class JoinedRows:
    """The rows of a tree, with the columns that they have: `over(e)` is the union of `e` over all of them."""

    columns: tuple[Var, ...]
    over: Callable[[Term], Term]
    stored: StoredInput | None = None
    """The input, where the tree is just that, and can be joined by its key as it is stored."""


class Writer:
    """Writes a tree as a term; `stored` gives the rows of an input."""

    def __init__(self, names: Names, stored: Callable[[Leaf], JoinedRows]) -> None:
        self.names = names
        self.stored = stored

    def rows(self, tree: Tree) -> JoinedRows:
        match tree:
            case Leaf(term, None, element, columns):
                return JoinedRows(columns, lambda body: CMap(Lambda(pattern_of(element), body), term))
            case Leaf():
                return self.stored(tree)
            case Where(inner, condition):
                rows = self.rows(inner)
                return JoinedRows(rows.columns, lambda body: rows.over(If(condition, body, Empty(body.type))))
            case Join(left, right, keys):
                return self._joined(self.rows(left), self.rows(right), keys)

    def _joined(self, left: JoinedRows, right: JoinedRows, keys: tuple[Term, Term] | None) -> JoinedRows:
        if keys is None:
            return JoinedRows((*left.columns, *right.columns), lambda body: left.over(right.over(body)))
        (one, own), (other, others) = _side(left, keys[0]), _side(right, keys[1])
        pairs = CoGroup(one, other)
        key_type, groups = pair_type(pairs)
        assert isinstance(groups, ty.TupleType)
        xs, ys = (PVar(self.names.fresh("s"), t) for t in groups.items)

        def over(body: Term) -> Term:
            inner = CMap(Lambda(pattern_of(one_or_tuple(others)), body), Var(ys.name, ys.type))
            outer = CMap(Lambda(pattern_of(one_or_tuple(own)), inner), Var(xs.name, xs.type))
            return CMap(Lambda(PTuple((PAny(key_type), PTuple((xs, ys)))), outer), pairs)

        return JoinedRows((*own, *others), over)


def _side(side: JoinedRows, key: Term) -> tuple[Term, tuple[Var, ...]]:
    """A side of a join as pairs of the join's key and the columns of the side."""
    if side.stored is not None and side.stored.key == key:
        return side.stored.term, side.stored.columns
    return side.over(Single(Tup((key, one_or_tuple(side.columns))))), side.columns


def pattern_of(term: Term) -> Pattern:
    """The pattern that takes a tuple of variables apart."""
    if isinstance(term, Tup):
        return PTuple(tuple(pattern_of(item) for item in term.items))
    assert isinstance(term, Var)
    return PVar(term.name, term.type)
