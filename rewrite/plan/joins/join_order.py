"""A batch of one input of a join is joined with the others one by one, beginning with those that it has a key for.

*Equation*: joins commute and associate. Of a join `(S ⋈ T) ⋈ P`, the change for a batch of P is

    (S ⋈ T) ⋈ ΔP  =  (ΔP ⋈ T) ⋈ S

so that a few rows are looked up in T, and their matches in S, instead of computing `S ⋈ T` from all stored rows.

*Requires*: a feed with three inputs or more, static tables counted, whose joins are equalities. An equality of tuples
is one of each of their parts, so a side may be joined by some of them. An equality that links no two sides in the new
order, since one of its terms is over several inputs, becomes a condition on the joined rows.

*Source*: [CU] §3 (the delta of a join is a query of its own, and is ordered as such).

*Does not fire* for the inputs that the join begins with anyway, nor where no equality links one with the others, nor
where a key or a condition on joined rows may fail, as those before it may guard it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

import attrs

from mrql.algebra.analysis.variables import Names, all_names, free_vars
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import EQ
from mrql.algebra.terms import CMap, Lambda, Prim, Single, Term, Tup
from mrql.rewrite.analysis.join_predicates import key_parts
from mrql.rewrite.analysis.multilinear import Multilinear
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.joins.join_tree import (
    FeedReader,
    Join,
    JoinedRows,
    Leaf,
    StoredInput,
    Tree,
    Unknown,
    Where,
    Writer,
    columns_of,
    key_and_value,
    parts,
    pattern_of,
    sides,
)
from mrql.rewrite.plan.plan import Feed, Plan, Stage


def order_joins(plan: Plan) -> Plan:
    """The plan with an order of the joins for a batch of each input.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.rewrite.pipeline import plan_query
    >>> types = {name: "{(long, long)}" for name in "STP"}
    >>> inner = "cMap(λ(e, f). if d = e then {(a, f)} else {}:{(long, long)}, P)"
    >>> q = f"cMap(λ(a, b). cMap(λ(c, d). if b = c then {inner} else {{}}:{{(long, long)}}, T), S)"
    >>> (feed,) = plan_query(parse(q, types)).plan.stages[0].feeds
    >>> [label for label, _ in feed.rows.orders]
    ['P·2']
    """
    derived = {each.name: each.term for each in plan.derived}
    return attrs.evolve(plan, stages=tuple(_stage(stage, derived) for stage in plan.stages))


def _stage(stage: Stage, derived: Mapping[str, Term]) -> Stage:
    return attrs.evolve(stage, feeds=tuple(_feed(feed, derived) for feed in stage.feeds))


def _feed(feed: Feed, derived: Mapping[str, Term]) -> Feed:
    if len(feed.rows.inputs) < 2:
        return feed
    try:
        orders = tuple(_Orderer(feed.rows, derived).orders())
    except Unknown:
        return feed
    return attrs.evolve(feed, rows=attrs.evolve(feed.rows, orders=orders))


Equality: TypeAlias = tuple[Term, Term]


class _Orderer:
    def __init__(self, rows: Multilinear, derived: Mapping[str, Term]) -> None:
        self.names = Names(set(all_names(rows.body)))
        self.tree, self.row = FeedReader(self.names, rows.inputs, derived).tree(rows.body)
        self.leaves = [part for part in parts(self.tree) if isinstance(part, Leaf)]
        self.conditions = _conditions(self.tree)
        self.equalities = list(_equalities(self.tree))
        unlinked = any(isinstance(part, Join) and part.keys is None for part in parts(self.tree))
        joined = [part.condition for part in parts(self.tree) if isinstance(part, Where) and _joins(part.tree)]
        if unlinked or any(map(may_fail, (*joined, *chain(*self.equalities)))):
            raise Unknown

    def orders(self) -> Iterator[tuple[str, Term]]:
        """For each input that the join does not begin with, the same join beginning with it."""
        if len(self.leaves) < 3:
            return
        first = _first_join(self.tree)
        for leaf in self.leaves:
            if leaf.label is not None and leaf not in (first.left, first.right):
                tree = self._beginning_with(leaf)
                rows = Writer(self.names, partial(self._stored, tree)).rows(tree)
                yield leaf.label, normalize(rows.over(Single(self.row)))

    def _beginning_with(self, first: Leaf) -> Tree:
        left = [leaf for leaf in self.leaves if leaf != first]
        unused = list(self.equalities)
        waiting = list(self.conditions)
        tree = _where(first, waiting)
        while left:
            leaf, linked = _next(tree, left, unused)
            left.remove(leaf)
            unused = [pair for pair in unused if pair not in linked and pair[::-1] not in linked]
            tree = _where(Join(tree, leaf, _keys(linked)), waiting)
            within = [pair for pair in unused if free_vars(Tup(pair)) <= columns_of(tree)]
            unused = [pair for pair in unused if pair not in within]
            tree = _where(tree, [Prim(EQ, pair) for pair in within])
        return tree

    def _stored(self, tree: Tree, leaf: Leaf) -> JoinedRows:
        param = pattern_of(leaf.element)
        whole = JoinedRows(leaf.columns, lambda body: CMap(Lambda(param, body), leaf.term))
        key, value = _pair(leaf)
        if key is None or value is None or self._used(tree, key):
            return whole
        # Its key is used only for joins by it, so the input can be joined as it is stored.
        own = free_vars(key)
        columns = tuple(column for column in leaf.columns if column.name not in own)
        return attrs.evolve(whole, stored=StoredInput(leaf.term, key, columns))

    def _used(self, tree: Tree, key: Term) -> bool:
        """Whether a key is used elsewhere than in joins by it."""
        own = free_vars(key)
        elsewhere = [self.row, *_conditions(tree)]
        elsewhere += [side for pair in self.equalities for side in pair if side not in key_parts(key)]
        times = sum(side in key_parts(key) for pair in self.equalities for side in pair)
        return times > len(key_parts(key)) or any(free_vars(term) & own for term in elsewhere)


def _pair(leaf: Leaf) -> tuple[Term | None, Term | None]:
    try:
        return key_and_value(leaf.element)
    except Unknown:
        return None, None


def _first_join(tree: Tree) -> Join:
    """The join that is computed first: that of two inputs."""
    for part in parts(tree):
        if isinstance(part, Join) and isinstance(part.left, Leaf) and isinstance(part.right, Leaf):
            return part
    raise Unknown


def _equalities(tree: Tree) -> Iterator[Equality]:
    """The equalities of a tree's joins, part by part."""
    keys = [key for _, key in sides(tree)]
    for a, b in zip(keys[::2], keys[1::2], strict=True):
        if isinstance(a, Tup) and isinstance(b, Tup):
            yield from zip(a.items, b.items, strict=True)
        else:
            yield a, b


def _next(tree: Tree, left: Sequence[Leaf], equalities: Sequence[Equality]) -> tuple[Leaf, list[Equality]]:
    """An input that equalities link with the tree, and those equalities, with the tree's side first."""
    for leaf in left:
        linked = [pair for pair in _oriented(tree, equalities) if free_vars(pair[1]) <= columns_of(leaf)]
        if linked:
            return leaf, linked
    raise Unknown


def _oriented(tree: Tree, equalities: Sequence[Equality]) -> Iterator[Equality]:
    """The equalities of which just one side is over a tree, that side first."""
    for a, b in equalities:
        for ours, theirs in ((a, b), (b, a)):
            if free_vars(ours) <= columns_of(tree) and not free_vars(theirs) & columns_of(tree):
                yield ours, theirs


def _keys(linked: Sequence[Equality]) -> Equality:
    """The two keys of a join by these equalities."""
    ours, theirs = (tuple(pair[i] for pair in linked) for i in (0, 1))
    return (ours[0], theirs[0]) if len(linked) == 1 else (Tup(ours), Tup(theirs))


def _conditions(tree: Tree) -> list[Term]:
    """The conditions of a tree, in the order in which they are evaluated: one may guard the next."""
    return [part.condition for part in parts(tree) if isinstance(part, Where)][::-1]


def _joins(tree: Tree) -> bool:
    return any(isinstance(part, Join) for part in parts(tree))


def _where(tree: Tree, waiting: list[Term]) -> Tree:
    """The tree under the waiting conditions that are over its columns, which are removed from `waiting`."""
    for condition in list(waiting):
        if free_vars(condition) <= columns_of(tree):
            waiting.remove(condition)
            tree = Where(tree, condition)
    return tree
