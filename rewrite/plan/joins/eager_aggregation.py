"""A join that feeds sums stores sums of its sides, not their rows.

*Equation*: over a join, a sum of products is a sum, by the join's key, of products of sums:

    Σ { f(x) · g(y) | x ∈ X, y ∈ Y, k(x) = k(y) }  =  Σ { F · G | (k, F) ∈ Σf by k, (k, G) ∈ Σg by k }

So of an input the join needs only, by its join key and the columns that are *kept* (those of filters, of other join
keys, of the group-by key and of what is not a sum), the number of its rows and the sums `Σf`. A missing value makes a
product missing, and sums skip it.

*Requires*: a feed with several inputs, of which one has a column that only sums use; and an addend that the query has
as a product of factors over different inputs. A sum or a difference over several inputs is no factor: it may be small,
or in range, where its parts are not. No factor may fail for a row without a partner. Longs are summed as two halves,
which together are wider than a long, and factors that might overflow are computed from halves too. Doubles are no ring:
a number of one input is summed by its limbs, exactly (`algebra/functions/side_sums.py`). A product of two doubles is
rounded, so that a deletion might not cancel its insertion: it is taken apart only where no input has deletions. The
sums of its factors are then stored by magnitude, which says whether a product is infinite or NaN; products of three,
which may be infinite or zero in between, are not taken apart. Decimals are summed as their first and their last digits,
each with room for 10¹⁷ addends; a sum over one input is multiplied by the number of rows that it is joined with, and so
has never more addends than the query's sum. A product of two such sums has no such bound, and is not taken apart; nor
is a decimal that is computed in 38 digits, which may have no value for a row without a partner.

*Source*: [CU] (the maps of its delta rules, `sum(price × rate)`); the design's small states.

*Does not fire* where every column is kept: the rows are then stored, each once with its weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.integer_ranges import is_narrow
from mrql.algebra.analysis.variables import Names, all_names, free_vars, match_pattern, substitute
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.monoids import SUM
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    If,
    Lambda,
    Lit,
    PAny,
    PTuple,
    Reduce,
    Single,
    Stream,
    Term,
    Tup,
    Var,
    cast_to,
    one_or_tuple,
)
from mrql.rewrite.analysis.multilinear import Input, Multilinear
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.joins.join_tree import (
    FeedReader,
    JoinedRows,
    Leaf,
    StoredInput,
    Unknown,
    Where,
    Writer,
    columns_of,
    is_stored,
    key_and_value,
    parts,
    pattern_of,
    sides,
)
from mrql.rewrite.plan.joins.products import PRODUCT_MAX_FACTORS, Times, as_product, product_of
from mrql.rewrite.plan.kept_sums import KeptSums, SumTerm
from mrql.rewrite.plan.plan import Component, Feed, Plan, Stage


def aggregate_eagerly(plan: Plan) -> Plan:
    """The plan in which the inputs of joins are stored as sums instead of rows, where that is possible.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.rewrite.pipeline import plan_query
    >>> types = {"O": "{(long, double)}", "L": "{(long, double)}"}
    >>> q = "reduce(+, cMap(λ(a, r). cMap(λ(b, p). if a = b then {p * r} else {}:{double}, L), O))"
    >>> (feed,) = plan_query(parse(q, types)).plan.stages[0].feeds
    >>> [read.sums for read in feed.rows.inputs], show(feed.units[0][1])
    ([2, 2], '(magnitudes(m, m1), s * s3, n * n1)')
    """
    derived = {each.name: each.term for each in plan.derived}
    return attrs.evolve(plan, stages=tuple(_stage(stage, derived, plan) for stage in plan.stages))


def _stage(stage: Stage, derived: Mapping[str, Term], plan: Plan) -> Stage:
    components = tuple(_narrow(i, component, stage.feeds) for i, component in enumerate(stage.components))
    feeds = tuple(_feed(feed, components, derived, loses_rows(feed, plan)) for feed in stage.feeds)
    return attrs.evolve(stage, components=components, feeds=feeds)


def _narrow(index: int, component: Component, feeds: tuple[Feed, ...]) -> Component:
    """The component, marked as narrow if its addends are so small that no number of them overflows the sum."""
    units = [unit for feed in feeds for i, unit in feed.units if i == index]
    may_be = component.type == ty.LONG or isinstance(component.type, ty.DecimalType)
    narrow = component.monoid == SUM and may_be and all(map(is_narrow, units))
    return attrs.evolve(component, narrow=narrow)


# --- the pass -----------------------------------------------------------------------------------


def loses_rows(feed: Feed, plan: Plan) -> bool:
    """Whether the rows of a join may be deleted, since those of an input may."""
    return any(plan.may_lose(read.stream) for read in feed.rows.inputs)


def _feed(feed: Feed, components: tuple[Component, ...], derived: Mapping[str, Term], loses: bool) -> Feed:
    if len(feed.rows.inputs) < 2:
        return feed
    try:
        return _Rewriter(feed, components, derived, loses).feed()
    except Unknown:
        return feed


class _Rewriter:
    """Rewrites the feed of a join to read sums of its inputs."""

    def __init__(self, feed: Feed, components: tuple[Component, ...], derived: Mapping[str, Term], loses: bool) -> None:
        self.original = feed
        self.loses = loses
        self.names = Names(set(all_names(feed.rows.body)).union(*(all_names(u) for _, u in feed.units)))
        self.tree, row = FeedReader(self.names, feed.rows.inputs, derived).tree(feed.rows.body)
        self.key, element = key_and_value(row)
        self.leaves = [part for part in parts(self.tree) if isinstance(part, Leaf) and part.label is not None]
        self.keyed = frozenset(leaf.label for leaf, _ in sides(self.tree) if isinstance(leaf, Leaf) and leaf.label)
        self.owner = {column.name: i for i, leaf in enumerate(self.leaves) for column in leaf.columns}
        bound = match_pattern(feed.key, self.key) | match_pattern(feed.element, element)
        units = [(i, normalize(substitute(unit, bound))) for i, unit in feed.units]
        if not free_vars(Tup((self.key, *(unit for _, unit in units)))) <= columns_of(self.tree):
            raise Unknown
        found = [(i, unit, self._share(i, components[i], unit)) for i, unit in units]
        self.shares = [share for _, _, share in found if share is not None]
        self.others = [(i, unit) for i, unit, share in found if share is None]
        self.sums = KeptSums(self.names, self.owner, [{} for _ in self.leaves], [{} for _ in self.leaves])

    def feed(self) -> Feed:
        counts = [self.sums.measure(i, Lit(1, ty.LONG), "n") for i, _ in enumerate(self.leaves)]
        weight = product_of(counts)
        sums = [(share.component, self.sums.of(share)) for share in self.shares]
        kept = self._kept([*(unit for _, unit in self.others), *(unit for _, unit in sums)])
        if not any(self._dropped(leaf, kept) for leaf in self.leaves):
            return self.original
        columns = {str(leaf.label): self._columns(i, kept) for i, leaf in enumerate(self.leaves)}
        rows = Writer(self.names, lambda leaf: self._stored(leaf, columns[str(leaf.label)])).rows(self.tree)
        used = free_vars(weight).union(*(free_vars(unit) for _, unit in [*self.others, *sums]))
        element = one_or_tuple(tuple(column for column in rows.columns if column.name in used))
        body = normalize(rows.over(Single(Tup((self.key, element)))))
        inputs = {read.label: read for read in self.original.rows.inputs}
        return attrs.evolve(
            self.original,
            rows=Multilinear(body, tuple(self._input(i, inputs, kept) for i, _ in enumerate(self.leaves))),
            key=PAny(self.key.type),
            element=pattern_of(element),
            units=tuple(sorted([*self.others, *sums], key=lambda unit: unit[0])),
            weight=weight,
            totals=tuple(share.component for share in self.shares),
        )

    def _share(self, index: int, component: Component, unit: Term) -> SumTerm | None:
        """The share of a row in a sum, as a product; None if it is none, or may fail, and so is computed only for
        joined rows."""
        carrier = component.type
        is_taken_apart = carrier in PRODUCT_MAX_FACTORS or isinstance(carrier, ty.DecimalType)
        if component.monoid != SUM or not is_taken_apart or not isinstance(unit, Reduce):
            return None
        assert isinstance(carrier, ty.Basic)
        conditions: list[Term] = []
        bag = unit.source
        while isinstance(bag, If) and isinstance(bag.otherwise, Empty):
            conditions.append(bag.condition)
            bag = bag.then
        if not isinstance(bag, Single) or may_fail(unit):
            return None
        item: Term | None = bag.item
        while item is not None:
            try:
                product = as_product(item, carrier, self.owner)
                if carrier == ty.DOUBLE and isinstance(product, Times) and self.loses:
                    return None
                return SumTerm(index, carrier, tuple(conditions), product, component.narrow)
            except Unknown:
                item = _added_if(item, conditions)
        return None

    # --- columns ------------------------------------------------------------------------------

    def _stored(self, leaf: Leaf, columns: tuple[Var, ...]) -> JoinedRows:
        key = self._key(leaf)
        row = one_or_tuple(columns)
        stream = Stream(str(leaf.label), ty.BagType(ty.TupleType((key.type, row.type))))
        param = PTuple((PAny(key.type), pattern_of(row)))
        return JoinedRows(columns, lambda body: CMap(Lambda(param, body), stream), StoredInput(stream, key, columns))

    def _key(self, leaf: Leaf) -> Term:
        """The key that an input is stored by: its join key, where the input itself is a side of a join, else `()`."""
        return key_and_value(leaf.element)[0] if leaf.label in self.keyed else Tup(())

    def _kept(self, units: Iterable[Term]) -> frozenset[str]:
        """The columns whose values are needed, and not only sums of them."""
        conditions = [part.condition for part in parts(self.tree) if isinstance(part, Where)]
        keys = [key for side, key in sides(self.tree) if not is_stored(side)]
        return free_vars(self.key).union(*map(free_vars, [*units, *conditions, *keys]))

    def _dropped(self, leaf: Leaf, kept: frozenset[str]) -> bool:
        own = free_vars(self._key(leaf))
        return any(column.name not in kept | own for column in leaf.columns)

    def _columns(self, index: int, kept: frozenset[str]) -> tuple[Var, ...]:
        columns = tuple(column for column in self.leaves[index].columns if column.name in kept)
        return (*columns, *self.sums.magnitudes[index].values(), *self.sums.measures[index].values())

    def _input(self, index: int, inputs: Mapping[str, Input], kept: frozenset[str]) -> Input:
        leaf = self.leaves[index]
        assert leaf.label is not None
        read = inputs[leaf.label]
        key = self._key(leaf)
        columns = [column for column in leaf.columns if column.name in kept]
        values = (*columns, *self.sums.magnitudes[index], *self.sums.measures[index])
        row = Single(Tup((key, one_or_tuple(values))))
        term = normalize(CMap(Lambda(pattern_of(leaf.element), row), read.term))
        return attrs.evolve(read, term=term, sums=len(self.sums.measures[index]))


def _added_if(number: Term, conditions: list[Term]) -> Term | None:
    """The number n of `if c then n else 0`, maybe under casts, with c added to the conditions; None for any other
    number."""
    match number:
        case Cast(inner, t) if (chosen := _added_if(inner, conditions)) is not None:
            return cast_to(chosen, t)
        case If(condition, then, otherwise) if _is_zero(otherwise):
            conditions.append(condition)
            return then
        case _:
            return None


def _is_zero(number: Term) -> bool:
    match number:
        case Cast(inner, _):
            return _is_zero(inner)
        case Lit(value):
            return isinstance(value, int | float | Decimal) and value == 0
        case _:
            return False
