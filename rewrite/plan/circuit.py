"""The circuit of a plan: its operators, each with its delta rule ([DBSP] §3, [RZ] 2.6).

A plan says *what* is kept: stages, derived streams, the answer (`plan.py`). The circuit says *how* a batch goes through
it: the engines, `explain`, its picture, `--strict` and the metrics read the same one. Its operators are

    source ──► filter-map ──► index ──► join ──► aggregate ──► differentiate ──► … ──► answer
               linear, Thm 3.3   ∫      bilinear, Thm 3.4   ⊗      D ∘ term ∘ I

and a loop whose values are carried over is closed by a `delay` ([DBSP] §5). An operator that has a state keeps the
integral of its input (`I`), to look rows up in it; all others keep nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from weakref import WeakValueDictionary

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import source_names
from mrql.algebra.catalog import item_type
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.terms import Stream, Term
from mrql.algebra.types import Type
from mrql.rewrite.analysis.multilinear import DeltaForm
from mrql.rewrite.plan.cost import (
    Cost,
    Work,
    bag_work,
    change_work,
    groups_work,
    join_work,
    most,
    table_join_work,
)
from mrql.rewrite.plan.delta_rules import DeltaRules, Rule, delta_rules, first_elements
from mrql.rewrite.plan.joins.failing_pairs import may_fail_for_pairs
from mrql.rewrite.plan.joins.other_keys import other_keys
from mrql.rewrite.plan.labels import component_names, feed_name, input_names, joined_tables, listed, sign
from mrql.rewrite.plan.operators import Access, Linearity, Operator, OperatorKind, Stored
from mrql.rewrite.plan.plan import Feed, Plan, Shape, Stage


@attrs.frozen(eq=False, slots=False)
class Circuit:
    """The operators of a plan, each after those that it reads, except in cycles."""

    plan: Plan
    operators: tuple[Operator, ...]
    answer: DeltaRules
    """The delta rules of the answer."""
    derived: Mapping[str, DeltaRules]
    """The delta rules of the derived streams, by their names."""
    starts: Mapping[str, DeltaRules]
    """The delta rules of the terms that loops begin with, by the names of the streams of the bags that they carry."""
    values: Mapping[str, DeltaRules]
    """The delta rules of the values of those bags after a step, by the same names."""
    access: Mapping[str, Access]
    """How batches read and change each stage, by its name."""

    @cached_property
    def by_id(self) -> dict[str, Operator]:
        return {operator.id: operator for operator in self.operators}

    @cached_property
    def _of_stages(self) -> dict[str, tuple[Operator, ...]]:
        names = [stage.name for stage in self.plan.stages]
        return {name: tuple(operator for operator in self.operators if operator.stage == name) for name in names}

    def of_stage(self, name: str) -> tuple[Operator, ...]:
        """The operators of a stage."""
        return self._of_stages[name]

    def of_feed(self, stage: str, feed: int) -> Operator:
        """The operator that outputs the rows of a feed, which is given by its number in the stage."""
        return next(o for o in self.of_stage(stage) if o.feed == feed and o.kind is not OperatorKind.INDEX)

    def index(self, stage: str, feed: int, label: str) -> Operator:
        """The operator that stores an input of a join."""
        return next(o for o in self.of_stage(stage) if o.feed == feed and o.input == label)

    def groups(self, stage: str) -> Operator:
        """The operator that stores the groups, or the totals, of a stage."""
        kinds = OperatorKind.AGGREGATE, OperatorKind.DISTINCT
        return next(o for o in self.of_stage(stage) if o.kind in kinds)

    def bag(self, stage: str, component: int) -> Operator:
        """The operator that stores a component that is a bag."""
        return next(o for o in self.of_stage(stage) if o.component == component)

    def works(self, stage: str) -> tuple[Work, ...]:
        """The work of a batch for a stage, if it has rows of one of the stage's streams; otherwise there is none."""
        return tuple(work for operator in self.of_stage(stage) for work in operator.works)

    def cost(self, stage: str) -> tuple[Cost, str | None]:
        """The most that a batch reads of a stage, and the reason for that cost."""
        return most(self.works(stage))

    def change(self, name: str) -> Work:
        """The work of computing how a batch has changed the `answer`, or a derived stream."""
        return self.by_id[name].works[0]


_KNOWN = WeakValueDictionary[int, Circuit]()
"""The circuits of plans in use, by the identity of the plan: a circuit holds its plan, so no other plan gets that."""


def circuit_of(plan: Plan) -> Circuit:
    """The circuit of a plan, which is made once for as long as it is in use."""
    known = _KNOWN.get(id(plan))
    if known is None:
        known = _KNOWN[id(plan)] = _circuit_of(plan)
    return known


def _circuit_of(plan: Plan) -> Circuit:
    stages = plan.stages
    parts = [part for loop in plan.feedbacks for part in loop.parts]
    answer = attrs.evolve(delta_rules(plan.answer, stages), first=first_elements(plan.answer, stages))
    derived = {each.name: delta_rules(each.term, stages) for each in plan.derived}
    starts = {part.fed.name: delta_rules(part.start, stages) for part in parts}
    values = {part.fed.name: delta_rules(part.value, stages) for part in parts}
    carried = frozenset[str]().union(*map(plan.inside, plan.feedbacks))
    readers = [answer, *derived.values()]
    access = {stage.name: _access(stage, plan, carried, readers) for stage in stages}
    operators = tuple(_operators(plan, answer, derived, values, access))
    return Circuit(plan, operators, answer, derived, starts, values, access)


def _access(stage: Stage, plan: Plan, carried: frozenset[str], readers: Sequence[DeltaRules]) -> Access:
    """How batches read and change a stage; `carried` names the stages in loops that are carried over."""
    in_steps = plan.recursion_of(stage) is not None or stage.name in carried
    access = Access.STEPS if in_steps else Access.LOOKED_UP if _is_looked_up(stage, readers) else Access.ONCE
    return access | Access.SPARSE if plan.has_residual else access


def _is_looked_up(stage: Stage, readers: Sequence[DeltaRules]) -> bool:
    """Whether batches read only the groups that they have touched."""
    rules = [reader.of((stage.name,)) for reader in readers if stage.name in reader.reads]
    return stage.shape is Shape.KEYED and all(rule.rule is Rule.KEYS and rule.stage is stage for rule in rules)


# --- operators ----------------------------------------------------------------------------------


def _operators(
    plan: Plan,
    answer: DeltaRules,
    derived: Mapping[str, DeltaRules],
    values: Mapping[str, DeltaRules],
    access: Mapping[str, Access],
) -> Iterator[Operator]:
    for name, t in sorted(plan.streams.items()):
        yield _source(name, t, plan)
    for name in sorted(plan.tables):
        yield Operator(name, OperatorKind.TABLE, (), Linearity.LINEAR, "it does not change")
    for name, loop in plan.loops:
        given = tuple(sorted(source_names(loop)))
        yield Operator(name, OperatorKind.TABLE, given, Linearity.LINEAR, "it does not change: a loop over tables")
    for carried in plan.feedbacks:
        for part in carried.parts:
            given = tuple(sorted(values[part.fed.name].reads | part.start_reads))
            rule = f"what differs from it by more than {carried.threshold} is fed back, step by step ([DBSP] §5)"
            kept = Stored(item_type(part.fed.type))
            works = (change_work(f"what each step feeds back to {part.fed.name}", values[part.fed.name], plan),)
            delay = Operator(part.fed.name, OperatorKind.DELAY, given, Linearity.NONLINEAR, rule, works, kept)
            yield attrs.evolve(delay, access=Access.STEPS)
    said: set[str] = set()
    for stage in plan.stages:
        recursion = plan.recursion_of(stage)
        for each in plan.derived_for(stage):
            if each.name not in said:
                said.add(each.name)
                made = _made(each.name, OperatorKind.DIFFERENTIATE, derived[each.name], plan)
                # Like elements of what it holds back are stored together, as those of a delay.
                yield attrs.evolve(made, access=Access.STEPS) if each.threshold.is_given else made
        yield from _stage(stage, plan, access[stage.name])
        if recursion is not None and recursion.name not in said:
            said.add(recursion.name)
            yield _made(recursion.name, OperatorKind.DIFFERENTIATE, derived[recursion.name], plan)
    yield _made("answer", OperatorKind.ANSWER, answer, plan)


def _source(name: str, t: Type, plan: Plan) -> Operator:
    if name not in plan.shrinking:
        return Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, "the batch")
    if name in plan.keyed:
        key = plan.keyed[name]
        later = "" if key.version is None else f", unless that has a larger {key.version}"
        rule = (
            f"the batch, each row beside the one that there is with its {listed(key.fields)}, which it replaces{later}"
        )
        return _looked_up(name, rule, t)
    if name in plan.trusted:
        rule = "the batch, without what comes and goes in it; deletions are trusted, and nothing is kept of it"
        return Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, rule)
    rule = "the batch, held against the rows that are there: one that goes has to be one of them"
    return _looked_up(name, rule, t)


def _looked_up(name: str, rule: str, t: Type) -> Operator:
    """The operator of a source whose current rows are stored."""
    source = Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, rule, kept=Stored(item_type(t)))
    return attrs.evolve(source, access=Access.LOOKED_UP)


def _made(id: str, kind: OperatorKind, rules: DeltaRules, plan: Plan) -> Operator:
    """The operator of a term over states (the answer, or a derived stream), with its delta rule."""
    work = change_work("the answer" if kind is OperatorKind.ANSWER else f"the changes of {id}", rules, plan)
    rule = rules.of_all.rule
    linearity = Linearity.LINEAR if rule is Rule.CHANGE else Linearity.NONLINEAR
    given = (*sorted(rules.reads), *sorted(source_names(rules.term)))
    return Operator(id, kind, given, linearity, rule.value, (work,))


def _stage(stage: Stage, plan: Plan, access: Access) -> Iterator[Operator]:
    """The operators of a stage: those of its feeds, then those that store its state."""
    given = []
    for i, (feed, number) in enumerate(zip(stage.feeds, _numbers(stage), strict=True)):
        found = _join(stage, feed, number, plan, access) if len(feed.rows.inputs) > 1 else _map(stage, feed, number)
        operators = [attrs.evolve(operator, feed=i) for operator in found]
        given.append(operators[-1].id)
        yield from operators
    names = component_names(stage)
    bags = [i for i, component in enumerate(stage.components) if isinstance(component.monoid, BagUnion)]
    if stage.shape is not Shape.BAG:
        numbers = tuple(c.type for c in stage.components if isinstance(c.monoid, Aggregate))
        kind = OperatorKind.AGGREGATE if stage.components else OperatorKind.DISTINCT
        kept = Stored(stage.key_type, ty.TupleType(numbers) if numbers else None)
        rule = f"merged with the state by ⊗ = {stage.merge}, key by key ([MRQL] §8)"
        if kind is OperatorKind.DISTINCT:
            rule = "a key comes with its first row and goes with its last ([DBSP] Prop. 4.7)"
        groups = Operator(stage.name, kind, tuple(given), Linearity.NONLINEAR, rule, (groups_work(stage),), kept)
        yield attrs.evolve(groups, stage=stage.name, access=access)
    for i in bags:
        id = stage.name if stage.shape is Shape.BAG else f"{stage.name}.{names[i]}"
        kept = Stored(stage.key_type, stage.components[i].type)
        work = bag_work(names[i])
        bag = Operator(id, OperatorKind.BAG, tuple(given), Linearity.LINEAR, "⊎ of the change", (work,), kept)
        # A bag is read as a whole, or step by step: no batch looks up a small part of it.
        yield attrs.evolve(bag, stage=stage.name, component=i, access=access & Access.STEPS)


def _numbers(stage: Stage) -> list[str]:
    """The suffixes of a stage's feeds: their numbers among the joins, or among the others, if there are several."""
    joins = [len(feed.rows.inputs) > 1 for feed in stage.feeds]
    return [f".{joins[: i + 1].count(is_join)}" if joins.count(is_join) > 1 else "" for i, is_join in enumerate(joins)]


def _map(stage: Stage, feed: Feed, suffix: str) -> Iterator[Operator]:
    """The operator of a feed of one input, or of none."""
    tables, inputs = joined_tables(feed), feed.rows.inputs
    given = (*(each.stream for each in inputs), *_tables_of(feed))
    works = (table_join_work(tables),) if inputs and tables else ()
    rule = "the same of the change" if inputs else "once: it is over static tables alone"
    id = f"{stage.name}.map{suffix}"
    yield Operator(id, OperatorKind.FILTER_MAP, given, Linearity.LINEAR, rule, works, stage=stage.name)


def _join(stage: Stage, feed: Feed, suffix: str, plan: Plan, access: Access) -> Iterator[Operator]:
    """The operators of a feed of several inputs: an index for each, then their join, which outputs the rows."""
    # Where a batch touches little of a state, its join partners are looked up as in the steps of a loop.
    looked_up = Access.STEPS if access & (Access.STEPS | Access.SPARSE) else Access.LOOKED_UP
    # The numbers of steps that a loop adds up leave no range.
    fails = may_fail_for_pairs(feed, overflows=Access.STEPS not in access)
    form = DeltaForm.THERE if fails and any(plan.may_lose(i.stream) for i in feed.rows.inputs) else DeltaForm.CHANGES
    others = tuple(other_keys(feed))
    if Access.STEPS in access or form is DeltaForm.THERE:
        # A step keeps each row once, and where no row may take back another all are read, and netted.
        others = tuple(attrs.evolve(key, parts=None) for key in others)
    sides = []
    for each, name in zip(feed.rows.inputs, input_names(feed), strict=True):
        id = f"{stage.name}{suffix}.{name}"
        sides.append(id)
        kept = Stored(*_pair(each.term))
        index = Operator(id, OperatorKind.INDEX, (each.stream,), Linearity.LINEAR, "⊎ of the change", (), kept)
        its_others = tuple(key for key in others if key.label == each.label)
        yield attrs.evolve(index, stage=stage.name, input=each.label, access=looked_up, other_keys=its_others)
    tables = joined_tables(feed)
    works = (join_work(feed, others), *([table_join_work(tables)] if tables else []))
    rule, given = delta_rule(feed, form), (*sides, *_tables_of(feed))
    join = Operator(f"{stage.name}.join{suffix}", OperatorKind.JOIN, given, Linearity.BILINEAR, rule, works)
    yield attrs.evolve(join, stage=stage.name, form=form)


def _tables_of(feed: Feed) -> list[str]:
    """The static tables that the rows of a feed read, in any way."""
    return sorted({t.name for t in subterms(feed.rows.body) if isinstance(t, Stream) and t.static})


_WRITTEN = {"delta": "Δ{0}", "new": "{0}'", "old": "{0}", "came": "Δ⁺{0}", "went": "Δ⁻{0}", "kept": "({0}∩{0}')"}
"""The notation for the versions of an input: Δ⁻ are the deletions, with negative weights."""


def delta_rule(feed: Feed, form: DeltaForm = DeltaForm.CHANGES) -> str:
    """The change of a feed's rows as a sum, `ΔS ⋈ T ⊎ S' ⋈ ΔT` ([DBSP] Thm 3.4), with the summands of a form.

    An engine may take the inputs in another order, that in which their changes become known. The reference engine,
    whose bags have no negative weights, always uses `DeltaForm.THERE`.
    """
    names = input_names(feed)
    summands = [
        sign(feed).join([*(_WRITTEN[c].format(n) for c, n in zip(choice, names, strict=True)), *joined_tables(feed)])
        for choice in form.choices((True,) * len(names))
    ]
    return " ⊎ ".join(summands) or f"{feed_name(feed)}, once"


def _pair(term: Term) -> tuple[Type, Type | None]:
    """The types of the key and of the value that the elements of an input are stored as; the value is None if they are
    no pairs."""
    item = item_type(term.type)
    if isinstance(item, ty.TupleType) and len(item.items) == 2:
        return item.items[0], item.items[1]
    return item, None
