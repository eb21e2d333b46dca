"""The tables that a stage keeps, as `runtime/spark/maintenance/stage_state.py` lays them out.

A keyed stage has a table of its groups: the key, the support that each feed gives it, the components that are numbers,
the batch that touched it last. Each component that is a bag has a table of its own, of (key, element, weight), and so
has each input of a join. Tuples and records are flattened: a column holds a basic value or a collection. The columns
into which a sum of a group is split (`runtime/spark/expressions/sum_columns.py`) are shown as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

import attrs

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import Names
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.readable_names import head, hint, tidy
from mrql.algebra.terms import (
    CMap,
    If,
    Lambda,
    Lit,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Single,
    Stream,
    Term,
    Tup,
    Var,
)
from mrql.algebra.types import Type
from mrql.rewrite.plan.labels import component_names, feed_name, occurrence_names
from mrql.rewrite.plan.plan import Feed, Shape, Stage


class Role(Enum):
    """What a column, or a table, is for."""

    KEY = "key"
    SUPPORT = "support"
    """The number of rows by which a key exists."""
    ROWS = "rows"
    """The number of other rows: those of a total, and of a feed that brings no keys."""
    COMPONENT = "component"
    ELEMENT = "element"
    WEIGHT = "weight"
    TOUCHED = "touched"

    GROUPS = "groups"
    BAG = "bag"
    INPUT = "input"


@attrs.frozen
class StoredColumn:
    """A column of a table; `merge` is the monoid that merges its values where keys are equal."""

    name: str
    role: Role
    type: Type
    merge: str | None = None


@attrs.frozen
class StoredTable:
    """A table of a state: `of` names the component or the input that it holds."""

    name: str
    role: Role
    of: str | None
    columns: tuple[StoredColumn, ...]

    @property
    def keys(self) -> tuple[StoredColumn, ...]:
        """The columns by which the rows are partitioned, and found."""
        return tuple(column for column in self.columns if column.role is Role.KEY)


def stage_tables(stage: Stage) -> tuple[StoredTable, ...]:
    """The tables of a stage: its groups, its bags, the inputs of its joins."""
    return tuple(_tables(stage))


def fed(feed: Feed, components: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the components that a feed computes."""
    return tuple(components[i] for i, _ in feed.units)


# --- the tables ---------------------------------------------------------------------------------


def _tables(stage: Stage) -> Iterator[StoredTable]:
    keys = _columns(_stored_key(stage), stage.key_type, "k", Role.KEY)
    if stage.shape is not Shape.BAG:
        yield StoredTable(stage.name, Role.GROUPS, None, _distinct(keys) + _distinct(tuple(_measures(stage))))
    for i, (component, name) in enumerate(zip(stage.components, component_names(stage), strict=True)):
        if isinstance(component.monoid, BagUnion):
            table = stage.name if stage.shape is Shape.BAG else f"{stage.name}.{name}"
            yield StoredTable(table, Role.BAG, name, _distinct(keys) + _distinct((*_elements(stage, i), _weight())))
    joins = [feed for feed in stage.feeds if len(feed.rows.inputs) > 1]
    for i, feed in enumerate(joins):
        yield from _inputs(f"{stage.name}.{i + 1}" if len(joins) > 1 else stage.name, feed)


def _measures(stage: Stage) -> Iterator[StoredColumn]:
    for feed in stage.feeds:
        name = "n" if len(stage.feeds) == 1 else f"n({feed_name(feed)})"
        supports = feed.supports and stage.shape is Shape.KEYED
        yield StoredColumn(name, Role.SUPPORT if supports else Role.ROWS, ty.LONG, "+")
    for component, name in zip(stage.components, component_names(stage), strict=True):
        if isinstance(component.monoid, Aggregate):
            yield StoredColumn(name, Role.COMPONENT, component.type, str(component.monoid))
    yield StoredColumn("touched", Role.TOUCHED, ty.INT, "max")


def _elements(stage: Stage, component: int) -> tuple[StoredColumn, ...]:
    bag = stage.components[component].type
    assert isinstance(bag, ty.BagType)
    return _columns(_stored_element(stage, component), bag.item, "e", Role.ELEMENT)


def _inputs(name: str, feed: Feed) -> Iterator[StoredTable]:
    """The tables that a join keeps of its inputs; a feed of one input keeps none."""
    shown = occurrence_names(tuple(read.label for read in feed.rows.inputs))
    for read in feed.rows.inputs:
        assert isinstance(read.term.type, ty.BagType)
        columns = _keyed_columns(head(tidy(read.term)), read.term.type.item, read.sums)
        yield StoredTable(f"{name}.{shown[read.label]}", Role.INPUT, shown[read.label], columns)


def _keyed_columns(element: Term | None, item: Type, sums: int) -> tuple[StoredColumn, ...]:
    """The columns of an input: partitioned by the first part of a pair, or by all of another element."""
    keys: tuple[StoredColumn, ...] = ()
    if isinstance(item, ty.TupleType) and len(item.items) == 2:
        parts = element.items if isinstance(element, Tup) else (None, None)
        keys = _columns(parts[0], item.items[0], "k", Role.KEY)
        element, rest = parts[1], item.items[1]
    else:
        rest = item
    if sums:
        return _distinct(keys) + _distinct(tuple(_summed(element, rest, sums)))
    return _distinct(keys) + _distinct((*_columns(element, rest, "e", Role.ELEMENT), _weight()))


def _summed(element: Term | None, t: Type, sums: int) -> Iterator[StoredColumn]:
    """The columns of an input of which sums are kept: the number of its rows, and the sums of the others."""
    terms: Sequence[Term | None] = element.items if isinstance(element, Tup) else (element,)
    types = t.items if isinstance(t, ty.TupleType) else (t,)
    for i, (term, part) in enumerate(zip(terms, types, strict=True)):
        if i < len(types) - sums:
            yield from _columns(term, part, "e", Role.ELEMENT)
        elif i == len(types) - sums:
            yield StoredColumn("n", Role.SUPPORT, ty.LONG, "+")
        else:
            yield StoredColumn(_sum_name(term), Role.COMPONENT, part, "+")


PARTS = {**dict(zip(fn.LIMBS, ("rest", "2⁶⁴", "2³²", "1", "2⁻³²"), strict=True)), fn.HUGE_MANTISSA: "huge"}
"""The part of a double that each of its sums adds up."""


def _sum_name(term: Term | None) -> str:
    """What a kept sum adds up: a number that is 0 where it is missing, or where a condition does not hold."""
    match term:
        case None:
            return "Σ"
        case If(Prim(fn.IS_NULL, (counted,)) | Prim(fn.NOT, (Prim(fn.IS_NULL, (counted,)),)), Lit(), Lit()):
            return f"count {show(counted)}"
        case If(_, Lit(), inner) | If(_, inner, Lit()):
            return _sum_name(inner)
        case Prim(function, (number,)) if function in PARTS:
            return f"Σ {show(number)} ({PARTS[function]})"
        case _:
            return f"Σ {show(term)}"


def _weight() -> StoredColumn:
    return StoredColumn("weight", Role.WEIGHT, ty.LONG, "+")


# --- names for columns --------------------------------------------------------------------------


def _columns(term: Term | None, t: Type, default: str, role: Role) -> tuple[StoredColumn, ...]:
    return tuple(StoredColumn(name, role, part) for name, part in _flat(term, t, default))


def _flat(term: Term | None, t: Type, default: str) -> Iterator[tuple[str, Type]]:
    """The basic values and collections of which a value consists, named by the term for it."""
    match t:
        case ty.TupleType(items):
            parts = term.items if isinstance(term, Tup) else (None,) * len(items)
            for part, item in zip(parts, items, strict=True):
                yield from _flat(part, item, default)
        case ty.RecordType(fields):
            known = dict(term.fields) if isinstance(term, Rec) else {}
            for name, item in fields:
                yield from _flat(known.get(name), item, name)
        case _:
            yield hint(term) or default, t


def _distinct(columns: tuple[StoredColumn, ...]) -> tuple[StoredColumn, ...]:
    names = Names()
    return tuple(attrs.evolve(column, name=names.fresh(column.name)) for column in columns)


def _stored_key(stage: Stage) -> Term | None:
    """The term for a stage's key, where the rows of a feed show it."""
    for feed in stage.feeds:
        row = _row(feed)
        if row is not None:
            return row.items[0]
    return None


def _stored_element(stage: Stage, component: int) -> Term | None:
    """The term for an element of a bag-valued component."""
    for feed in stage.feeds:
        unit = dict(feed.units).get(component)
        if unit is not None:
            row = _row(feed)
            return _resolved(head(unit), feed.element, row.items[1] if row is not None else None)
    return None


def _row(feed: Feed) -> Tup | None:
    """The term for a row `(key, element)` of a feed, where it can be read off."""
    inputs = {read.label: read.term for read in feed.rows.inputs}

    def expanded(term: Term) -> Term:
        if isinstance(term, Stream):
            return inputs.get(term.name, term)
        return map_children(term, expanded)

    row = head(tidy(expanded(feed.rows.body)))
    return row if isinstance(row, Tup) else None


def _resolved(element: Term | None, pattern: Pattern, row: Term | None) -> Term | None:
    """The element of a share as a term over the rows: a variable of the row's pattern stands for its part."""
    bindings = dict(_bindings(pattern, row))
    return bindings.get(element.name) if isinstance(element, Var) else element


def _bindings(pattern: Pattern, row: Term | None) -> Iterator[tuple[str, Term | None]]:
    match pattern, row:
        case PVar(name, _), _:
            yield name, row
        case PTuple(items), Tup(terms) if len(items) == len(terms):
            for item, term in zip(items, terms, strict=True):
                yield from _bindings(item, term)
        case _:
            return


# --- rows for display ---------------------------------------------------------------------------


def renamed(term: Term, names: Mapping[str, str]) -> Term:
    """The term with its streams, which are labelled occurrences, under the names that are shown."""
    if isinstance(term, Stream):
        return attrs.evolve(term, name=names.get(term.name, term.name))
    return map_children(term, lambda child: renamed(child, names))


def shown_units(feed: Feed, keep: frozenset[str]) -> tuple[Pattern, tuple[Term, ...]]:
    """The pattern of a feed's rows and its shares, in the order of `units`, under tidy names."""
    row = PTuple((feed.key, feed.element))
    shares = Single(Tup(tuple(unit for _, unit in feed.units)))
    tidied = tidy(CMap(Lambda(row, shares), Stream("rows", ty.BagType(row.type))), keep)
    assert isinstance(tidied, CMap)
    assert isinstance(tidied.function.body, Single)
    assert isinstance(tidied.function.body.item, Tup)
    return tidied.function.param, tidied.function.body.item.items
