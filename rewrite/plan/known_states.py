"""What is known of the values in the states of a plan: which tuples and records in them may be missing as a whole.

A missing tuple is another value than one of missing parts. So an engine that keeps a tuple in columns, one for each
part, can do so only if the tuple is never missing, and keeps any other in one column. Which ones are missing must be
known from the terms, before there are rows: the columns of a state are those of its first batch, and the next batch may
have the first missing tuple.

What a stage stores depends on the streams that it reads, which may be made from stages, and in a loop from that stage
itself. So all facts of the form "may be missing" are found together, as their least fixpoint: at first nothing is
missing, then what the terms make of that, until nothing new is found.

`docs/decisions/0045-the-columns-of-a-state-are-known-before-its-rows.md` has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import PRESENT, UNKNOWN, Known, MissingScope, bind, known
from mrql.algebra.catalog import item_type
from mrql.algebra.monoids import BagUnion
from mrql.algebra.stack import deep
from mrql.algebra.terms import Term, element_type
from mrql.algebra.types import Type
from mrql.rewrite.analysis.join_predicates import drops_null_keys
from mrql.rewrite.analysis.multilinear import Input
from mrql.rewrite.plan.plan import Feed, Plan, Shape, Stage


@attrs.frozen
class KnownStage:
    """What is known of the values that a stage stores."""

    key: Known
    bags: Mapping[int, Known]
    """The elements of each component that is a bag, by its number."""
    inputs: Mapping[tuple[int, str], Known]
    """The elements of each input of a join, by the number of the feed and the label of the input."""

    def has_whole_tuples(self, stage: Stage) -> bool:
        """Whether a tuple or a record that the stage stores may be missing."""
        bags, inputs = _bag_elements(stage), _input_elements(stage)
        return (
            _may_be_whole(self.key, stage.key_type)
            or any(_may_be_whole(known, bags[i]) for i, known in self.bags.items())
            or any(_may_be_whole(known, inputs[place]) for place, known in self.inputs.items())
        )

    def value(self, stage: Stage) -> Known:
        """What is known of the stage's variable."""
        bags = {i: Known(False, elements=element) for i, element in self.bags.items()}
        parts = [bags.get(i, UNKNOWN) for i in range(len(stage.components))]
        value = parts[0] if len(parts) == 1 else Known(False, dict(enumerate(parts)))
        if stage.shape is Shape.KEYED:
            return Known(False, elements=Known(False, {0: self.key, 1: value}))
        return value


@attrs.frozen
class KnownStates:
    """What is known of the values in the states of a plan."""

    stages: Mapping[str, KnownStage]
    streams: Mapping[str, Known]
    """The elements of each stream: those of the query, derived ones, and those that loops feed back."""


@deep
def known_states(plan: Plan) -> KnownStates:
    """What is known of all values in the states of a plan."""
    found = _first(plan)
    while (more := _further(plan, found)) != found:
        found = more
    return found


def _first(plan: Plan) -> KnownStates:
    """Nothing is missing."""
    stages = {}
    for stage in plan.stages:
        bags = {i: _all_present(t) for i, t in _bag_elements(stage).items()}
        inputs = {place: _all_present(t) for place, t in _input_elements(stage).items()}
        stages[stage.name] = KnownStage(_all_present(stage.key_type), bags, inputs)
    made = {derived.name: item_type(derived.term.type) for derived in plan.derived}
    made |= {part.fed.name: item_type(part.fed.type) for loop in plan.feedbacks for part in loop.parts}
    return KnownStates(stages, {name: _all_present(t) for name, t in made.items()})


def _further(plan: Plan, found: KnownStates) -> KnownStates:
    """What the terms make of what is known."""
    tables = {name: _given(t) for name, t in plan.tables.items()}
    for name, loop in plan.loops:
        tables[name] = known(loop, MissingScope.given({}, tables))
    states = MissingScope.given({s.name: found.stages[s.name].value(s) for s in plan.stages}, tables)
    streams = {name: _given(t).element for name, t in plan.streams.items()}
    streams |= {derived.name: known(derived.term, states).element for derived in plan.derived}
    for part in (part for loop in plan.feedbacks for part in loop.parts):
        streams[part.fed.name] = known(part.value, states).element | known(part.start, states).element
    stages = {stage.name: _of_stage(stage, streams, tables) for stage in plan.stages}
    return KnownStates(stages, streams)


def _given(bag: Type) -> Known:
    """What is known of the rows of a source: a row of columns is there, though any column may have nothing."""
    row = item_type(bag)
    return Known(False, elements=PRESENT if isinstance(row, ty.TupleType | ty.RecordType) else UNKNOWN)


def _of_stage(stage: Stage, streams: Mapping[str, Known], tables: Mapping[str, Known]) -> KnownStage:
    keys: list[Known] = []
    bags: dict[int, Known] = {}
    inputs: dict[tuple[int, str], Known] = {}
    for number, feed in enumerate(stage.feeds):
        read = {i.label: _of_input(i, streams, tables) for i in feed.rows.inputs}
        inputs |= {(number, label): element for label, element in read.items()}
        given = {**tables, **{label: Known(False, elements=element) for label, element in read.items()}}
        pair = known(feed.rows.body, MissingScope.given({}, given)).element
        keys.append(pair.part(0))
        scope = MissingScope.given({**bind(feed.key, pair.part(0)), **bind(feed.element, pair.part(1))}, tables)
        for i, unit in _bags(stage, feed):
            element = known(unit, scope).element
            bags[i] = bags[i] | element if i in bags else element
    return KnownStage(reduce(or_, keys), bags, inputs)


def _of_input(read: Input, streams: Mapping[str, Known], tables: Mapping[str, Known]) -> Known:
    """What is known of the elements of an input; no part of a key is missing that is joined only if it is there."""
    given = {**tables, read.label: Known(False, elements=streams[read.stream])}
    element = known(read.term, MissingScope.given({}, given)).element
    item = element_type(read.term)
    if isinstance(item, ty.TupleType) and len(item.items) == 2 and drops_null_keys(read.term):
        return Known(False, {0: _all_present(item.items[0]), 1: element.part(1)})
    return element


def _may_be_whole(known: Known, t: Type) -> bool:
    match t:
        case ty.TupleType(items):
            return known.missing or any(_may_be_whole(known.part(i), item) for i, item in enumerate(items))
        case ty.RecordType(fields):
            return known.missing or any(_may_be_whole(known.part(name), item) for name, item in fields)
        case _:
            return False


def _bag_elements(stage: Stage) -> dict[int, Type]:
    """The types of the elements of each component that is a bag."""
    return {i: item_type(c.type) for i, c in enumerate(stage.components) if isinstance(c.monoid, BagUnion)}


def _input_elements(stage: Stage) -> dict[tuple[int, str], Type]:
    """The types of the elements of each input of a join."""
    inputs = ((n, read) for n, feed in enumerate(stage.feeds) for read in feed.rows.inputs)
    return {(n, read.label): element_type(read.term) for n, read in inputs}


def _bags(stage: Stage, feed: Feed) -> list[tuple[int, Term]]:
    """What a feed adds to each component that is a bag."""
    return [(i, unit) for i, unit in feed.units if isinstance(stage.components[i].monoid, BagUnion)]


def _all_present(t: Type) -> Known:
    """Nothing of a value of this type is missing."""
    match t:
        case ty.TupleType(items):
            return Known(False, {i: _all_present(item) for i, item in enumerate(items)})
        case ty.RecordType(fields):
            return Known(False, {name: _all_present(item) for name, item in fields})
        case ty.BagType(item) | ty.ListType(item):
            return Known(False, elements=_all_present(item))
        case _:
            return PRESENT
