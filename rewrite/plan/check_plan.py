"""Checks that a plan is well formed: the invariants that passes over plans may rely on, and must keep.

- Names are unique: of stages, streams and tables of the query, derived and fed-back streams, and tables made of loops.
- A stage has the merge, the key and the components of its shape; each component is in the carrier of its monoid.
- The rows of a feed are linear in each of its inputs, and pairs that its two patterns match; an input is over one
  stream, with that stream's type. The same holds for the rows with their joins in another order.
- The share of a row in a component is over the variables of the two patterns, and of the component's type: for a sum in
  `totals`, it is a long, two halves of one, the parts of doubles, or the first and last digits of a decimal. A feed has
  a weight if and only if its inputs are sums.
- The derivation of a stage is well typed: `h` has the type of the state, the answer that of the query.
- A derived stream, and a bag that a loop carries, is over stages and static tables. A stage reads derived streams that
  are made of stages before it; one that is made of itself only if the stream stands for a loop.
- The answer is over stages and static tables, and has the type of the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars, pattern_vars, source_names
from mrql.algebra.errors import InternalError
from mrql.algebra.functions.decimals import first_digits, last_digits
from mrql.algebra.monoids import BAG, SUM, Aggregate, BagUnion, Monoid
from mrql.algebra.notation.typecheck import first_fault, flows_into, in_carrier, shorten
from mrql.algebra.terms import Stream, Term
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import infer_multilinear
from mrql.rewrite.analysis.multilinear import Input, occurrences, stream_of
from mrql.rewrite.plan.plan import Component, DerivedStream, Feed, Feedbacks, Plan, Shape, Stage, by_key, product

NO_NAMES: Mapping[str, Type] = {}


def check_plan(name: str, plan: Plan) -> None:
    """Checks that the plan that the pass of this name has returned is well formed.

    Raises: InternalError, naming the pass, with the fault and its place.

    >>> from mrql.algebra.notation.parser import parse
    >>> import attrs
    >>> from mrql.rewrite.pipeline import plan_query
    >>> plan = plan_query(parse("reduce(+, S)", {"S": "{long}"})).plan
    >>> check_plan("derive", plan)
    >>> check_plan("derive", attrs.evolve(plan, stages=()))
    Traceback (most recent call last):
    ...
    mrql.algebra.errors.InternalError: internal error in derive: the answer: X1 is no stage that it may read
    """
    fault = next(_PlanChecker(plan).faults(), None)
    if fault is not None:
        raise InternalError(name, fault)


class _PlanChecker:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.states: Mapping[str, Type] = {stage.name: stage.var.type for stage in plan.stages}
        fed = {part.fed.name: part.fed.type for loop in plan.feedbacks for part in loop.parts}
        self.streams = {**plan.streams, **{d.name: d.term.type for d in plan.derived}, **fed}
        self.tables = {**plan.tables, **{name: loop.type for name, loop in plan.loops}}

    def faults(self) -> Iterator[str]:
        """The faults of the plan, each with its place."""
        yield from _placed("the plan", self.names())
        for name, loop in self.plan.loops:
            yield from _placed(f"the table {name}", self.term(loop, {}))
        for n, stage in enumerate(self.plan.stages):
            yield from _placed(f"stage {stage.name}", self.stage(stage, self.plan.stages[:n]))
        for derived in self.plan.derived:
            yield from _placed(f"the stream {derived.name}", self.derived(derived))
        for feedbacks in self.plan.feedbacks:
            yield from self.feedbacks(feedbacks)
        yield from _placed("the answer", self.answer())

    def derived(self, derived: DerivedStream) -> Iterator[str]:
        yield from self.over_states(derived.term, self.states)
        if not any(derived.name in stage.streams for stage in self.plan.stages):
            yield "no stage reads it"

    def names(self) -> Iterator[str]:
        plan = self.plan
        fed = (part.fed.name for loop in plan.feedbacks for part in loop.parts)
        derived, made = (d.name for d in plan.derived), (name for name, _ in plan.loops)
        stages = (stage.name for stage in plan.stages)
        counted = Counter([*stages, *derived, *fed, *made, *plan.streams, *plan.tables])
        yield from (f"{name} is the name of {times} things" for name, times in counted.items() if times > 1)
        unknown = plan.shrinking - plan.streams.keys()
        yield from (f"{name} may shrink, and is no stream of the query" for name in sorted(unknown))
        grows = plan.trusted - plan.shrinking
        yield from (f"the deletions of {name} are trusted, and it has none" for name in sorted(grows))
        wrong = plan.keyed.keys() - (plan.shrinking - plan.trusted)
        yield from (f"rows of {name} replace others, and it only grows, or is trusted" for name in sorted(wrong))

    # --- stages -------------------------------------------------------------------------------

    def stage(self, stage: Stage, before: Iterable[Stage]) -> Iterator[str]:
        yield from _shape(stage)
        for component in stage.components:
            yield from _component(component)
        for n, feed in enumerate(stage.feeds):
            yield from _placed(f"feed {n}", self.feed(feed, stage))
        yield from self.reads(stage, {other.name for other in before})
        yield from _placed("its derivation", self.derivation(stage, before))

    def reads(self, stage: Stage, before: Collection[str]) -> Iterator[str]:
        """Checks that a stage comes after those that its derived streams are made from, except itself in a
        recursion."""
        for derived in self.plan.derived:
            if derived.name in stage.streams:
                own = {stage.name} if derived.loop is not None else set()
                for name in sorted(derived.reads - {*before, *own}):
                    yield f"it reads {derived.name}, which is made of {name}: that does not stand before it"

    def derivation(self, stage: Stage, before: Iterable[Stage]) -> Iterator[str]:
        d = stage.derivation
        for what, term in (("query", d.query), ("lineage", d.lineage), ("annotated", d.annotated), ("h", d.h)):
            yield from _placed(what, self.term(term))
        yield from _flows("h", d.h.type, stage.var.type)
        known = {other.name: other.var.type for other in before} | {stage.name: stage.var.type}
        yield from _placed("answer", self.over_states(d.answer, known))
        yield from _flows("the answer", d.answer.type, d.query.type)

    # --- feeds --------------------------------------------------------------------------------

    def feed(self, feed: Feed, stage: Stage) -> Iterator[str]:
        yield from _flows("the key", feed.key.type, stage.key_type)
        yield from _sums(feed)
        labels = [read.label for read in feed.rows.inputs]
        if len({*labels}) < len(labels):
            yield "two inputs have one label"
        for read in feed.rows.inputs:
            yield from _placed(f"input {read.label}", self.input(read))
        types = {read.label: read.term.type for read in feed.rows.inputs}
        for what, rows in (("rows", feed.rows.body), *((f"order for {label}", o) for label, o in feed.rows.orders)):
            yield from _placed(what, self.rows(rows, types, ty.TupleType((feed.key.type, feed.element.type))))
        yield from (f"{label} has an order, and is no input" for label, _ in feed.rows.orders if label not in types)
        yield from self.units(feed, stage)

    def input(self, read: Input) -> Iterator[str]:
        if occurrences(read.term) != (read.label,):
            yield f"it reads {', '.join(occurrences(read.term)) or 'no stream'}"
        if read.stream != stream_of(read.label):
            yield f"it is said to read {read.stream}"
        yield from self.term(read.term, {read.label: self.streams.get(read.stream)})

    def rows(self, rows: Term, types: Mapping[str, Type], row: Type) -> Iterator[str]:
        read = occurrences(rows)
        if sorted(read) != sorted(types):
            yield f"they read {', '.join(read) or 'no input'}, and not each input once"
        yield from self.term(rows, types)
        if read and infer_multilinear(rows) != BAG:
            yield "they are not linear in each input"
        yield from _flows("they are", rows.type, ty.BagType(row))

    def units(self, feed: Feed, stage: Stage) -> Iterator[str]:
        variables = {v.name: v.type for pattern in (feed.key, feed.element) for v in pattern_vars(pattern)}
        fed = [index for index, _ in feed.units]
        if len({*fed}) < len(fed):
            yield "it has two shares in one component"
        for index, unit in feed.units:
            where = f"its share in component {index}"
            if not 0 <= index < len(stage.components):
                yield f"{where}: there is none"
                continue
            component = stage.components[index]
            yield from _placed(where, self.unbound(unit, variables))
            yield from _placed(where, self.term(unit, {}, variables))
            if index in feed.totals:
                yield from _total(where, unit, component)
            else:
                yield from _flows(where, unit.type, component.type)
        yield from (f"component {index} is a total without a share" for index in feed.totals if index not in fed)
        if feed.weight is not None:
            yield from _placed("its weight", self.unbound(feed.weight, variables))
            yield from _placed("its weight", self.term(feed.weight, {}, variables))
            yield from _flows("its weight", feed.weight.type, ty.LONG)

    # --- terms over states --------------------------------------------------------------------

    def feedbacks(self, loop: Feedbacks) -> Iterator[str]:
        for part in loop.parts:
            for what, term in (("value", part.value), ("start", part.start)):
                where = f"the {what} of the stream {part.fed.name}"
                yield from _placed(where, self.over_states(term, self.states))
                yield from _placed(where, _flows("it is", term.type, part.fed.type))

    def answer(self) -> Iterator[str]:
        yield from self.over_states(self.plan.answer, self.states)
        yield from _flows("it is", self.plan.answer.type, self.plan.query.type)

    def over_states(self, term: Term, states: Mapping[str, Type]) -> Iterator[str]:
        """Checks that a term reads only these stages and static tables."""
        for name in sorted(free_vars(term) - states.keys()):
            yield f"{name} is no stage that it may read"
        yield from self.term(term, {}, states)

    def unbound(self, term: Term, variables: Mapping[str, Type]) -> Iterator[str]:
        for name in sorted(free_vars(term) - variables.keys()):
            yield f"{name} is no variable of a row"

    def term(
        self, term: Term, streams: Mapping[str, Type | None] | None = None, variables: Mapping[str, Type] = NO_NAMES
    ) -> Iterator[str]:
        """Checks that a term is well typed, and reads variables, streams and static tables with the types that they
        have."""
        fault = first_fault(term, variables)
        if fault is not None:
            yield f"{fault.message}, in: {shorten(fault.term)}"
        if not source_names(term):
            return
        known: Mapping[str, Type | None] = self.streams if streams is None else streams
        for source in subterms(term):
            if isinstance(source, Stream):
                found = (self.tables if source.static else known).get(source.name)
                what = "table" if source.static else "stream"
                if found is None:
                    yield f"{source.name} is no {what} that it may read"
                elif found != source.type:
                    yield f"the {what} {source.name} is {found}, and read as {source.type}"


# --- what needs no plan around it ---------------------------------------------------------------


def _placed(where: str, faults: Iterable[str]) -> Iterator[str]:
    return (f"{where}: {fault}" for fault in faults)


def _flows(what: str, value: Type, place: Type) -> Iterator[str]:
    if not flows_into(value, place):
        yield f"{what} {value}, and not {place}"


def _shape(stage: Stage) -> Iterator[str]:
    """Checks that the merge of a stage is that of its components, and its key that of its shape."""
    monoids: tuple[Monoid, ...] = tuple(component.monoid for component in stage.components)
    names = [component.name for component in stage.components]
    if len({*names}) < len(names):
        yield "two of its components have one name"
    match stage.shape:
        case Shape.KEYED:
            merge = by_key(monoids)
        case Shape.TOTAL | Shape.BAG:
            if stage.key_type != ty.UNIT:
                yield f"it is one {stage.shape.value}, and its key {stage.key_type}"
            if not monoids or (stage.shape is Shape.BAG and monoids != (BAG,)):
                yield f"a {stage.shape.value} has not the components {', '.join(map(str, monoids)) or 'none'}"
                return
            merge = product(monoids)
    if stage.merge != merge:
        yield f"it merges with {stage.merge}, its components with {merge}"


def _component(component: Component) -> Iterator[str]:
    where = f"its component {component.name}"
    if not isinstance(component.monoid, Aggregate | BagUnion) or not in_carrier(component.type, component.monoid):
        yield f"{where} is {component.type}, which {component.monoid} does not merge"
    may_be_narrow = component.type == ty.LONG or isinstance(component.type, ty.DecimalType)
    if component.narrow and (component.monoid != SUM or not may_be_narrow):
        yield f"{where} is narrow, and no sum of longs or decimals"


def _sums(feed: Feed) -> Iterator[str]:
    """Checks that a feed has a weight if its inputs are stored as sums, and a weight or totals only then."""
    kept = [read.label for read in feed.rows.inputs if read.sums]
    if feed.weight is None:
        yield from (f"input {label} is kept as sums, and the feed has no weight" for label in kept)
        yield from (f"component {index} is a total, and the feed has no weight" for index in feed.totals)
    elif len(kept) < len(feed.rows.inputs):
        yield "it has a weight, and an input is not kept as sums"
    for read in feed.rows.inputs:
        values = read.term.type.item if isinstance(read.term.type, ty.BagType) else None
        value = values.items[1] if isinstance(values, ty.TupleType) and len(values.items) == 2 else None
        there = len(value.items) if isinstance(value, ty.TupleType) else 1
        if read.sums > there:
            yield f"input {read.label} has {there} values, of which {read.sums} are sums"


HALVES = ty.TupleType((ty.LONG, ty.LONG))
"""The halves of a sum of longs that may be wider than a long. A sum of decimals has its first and its last digits."""
PARTS = ty.TupleType((ty.LONG, ty.DOUBLE, ty.LONG))
"""The parts of a sum of products of doubles: the magnitude, the mantissas and their number."""
LIMBED = ty.TupleType((*PARTS.items, ty.LONG, ty.DOUBLE, ty.LONG, ty.LONG, ty.LONG, ty.LONG))
"""The parts of a sum of doubles: the same of huge ones, how often all are added, and the limbs of the others."""


def _total(where: str, unit: Term, component: Component) -> Iterator[str]:
    """Checks that the share of many rows in a sum has one of the types for sums of its type."""
    if component.monoid != SUM:
        yield f"{where} is that of several rows, and its monoid {component.monoid}"
        return
    match component.type:
        case ty.LONG:
            known: tuple[Type, ...] = (ty.LONG,) if component.narrow else (HALVES,)
        case ty.DecimalType() as t:
            known = (ty.TupleType((first_digits(t), last_digits(t))),)
        case _:
            known = (HALVES, PARTS, LIMBED)
    if unit.type not in known:
        yield f"{where} is {unit.type}, which is no total of {component.type}"
