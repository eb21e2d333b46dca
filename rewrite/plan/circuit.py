"""The physical plan: a circuit of operators, each with how it follows a change of what it reads ([DBSP] §3, [RZ] 2.6).

A plan says *what* is kept: stages, what is derived from them, the answer (`plan.py`). The circuit says *how* a batch
goes through it: an engine, `explain`, its picture, `--strict` and the metrics read the same one. Its operators are

    source ──► filter-map ──► index ──► join ──► aggregate ──► differentiate ──► … ──► answer
               linear, Thm 3.3   ∫      bilinear, Thm 3.4   ⊗      D ∘ term ∘ I

and a loop whose values are carried over goes back by a `delay` ([DBSP] §5). What an operator keeps is an integral of
its input (`I`), by which it is looked up; all others keep nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, Flag, auto
from functools import cached_property

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import source_names
from mrql.algebra.catalog import item_type
from mrql.algebra.monoids import Aggregate, BagUnion
from mrql.algebra.notation.printer import show_type
from mrql.algebra.terms import Stream, Term
from mrql.algebra.types import Type
from mrql.rewrite.analysis.multilinear import delta_choices
from mrql.rewrite.plan.cost import Cost, Work, bag_work, change_work, groups_work, join_work, most, table_join_work
from mrql.rewrite.plan.delta_rules import DeltaRules, Rule, delta_rules
from mrql.rewrite.plan.labels import component_names, feed_name, input_names, joined_tables, listed, sign
from mrql.rewrite.plan.plan import Feed, Plan, Shape, Stage


class OperatorKind(Enum):
    """What an operator does."""

    SOURCE = "source"
    """The changes of a stream, as they arrive; those of one that may lose rows are held against what is there of it."""
    TABLE = "table"
    """A static table."""
    FILTER_MAP = "filter-map"
    """Rows made of rows, each by itself."""
    INDEX = "index"
    """One side of a join, kept by the join's key."""
    JOIN = "join"
    AGGREGATE = "aggregate"
    """Groups or totals: what is stored by key, merged with ⊗."""
    DISTINCT = "distinct"
    """Groups with nothing but the number of their rows."""
    BAG = "bag"
    """A bag that is kept, by a key or as a whole."""
    DIFFERENTIATE = "differentiate"
    """How what is made of states has changed: a batch of changes for the operators after it ([DBSP] Prop. 3.2)."""
    DELAY = "delay"
    """What a loop had, which the next step begins with; how it differs is fed back."""
    ANSWER = "answer"


class Linearity(Enum):
    """What a change of the inputs makes of the output."""

    LINEAR = "linear"
    """`Qᐃ = Q`, [DBSP] Thm 3.3."""
    BILINEAR = "bilinear"
    """`(a ⋈ b)ᐃ = Δa ⋈ b ⊎ a' ⋈ Δb`, [DBSP] Thm 3.4; multilinear with more inputs than two."""
    NONLINEAR = "nonlinear"
    """`D ∘ Q ∘ I`."""


class Access(Flag):
    """How batches read and change what is kept."""

    ONCE = 0
    """Each batch once."""
    STEPS = auto()
    """Step by step: the steps of a loop look things up in it again and again."""
    LOOKED_UP = auto()
    """Each batch looks up what it takes away."""
    SPARSE = auto()
    """Each batch is likely to find and to touch little of it, as where what changes little is kept back: it would be as
    well to run the loop anew otherwise."""


@attrs.frozen
class Stored:
    """What an operator keeps: values by keys."""

    key: Type
    value: Type | None = None
    """None where there is nothing but the number of rows behind the key."""

    def __str__(self) -> str:
        by = "" if self.key == ty.UNIT else f" by {show_type(self.key)}"
        return f"{'how many there are' if self.value is None else show_type(self.value)}{by}"


@attrs.frozen
class Operator:
    """An operator of the circuit."""

    id: str
    """The same each time that the query is planned."""
    kind: OperatorKind
    inputs: tuple[str, ...]
    """The operators whose changes it is given."""
    linearity: Linearity
    rule: str
    """How its output changes."""
    works: tuple[Work, ...] = ()
    """What a batch has to do for it."""
    kept: Stored | None = None
    stage: str | None = None
    """The stage that it is a part of."""
    feed: int | None = None
    """The number of the feed in the stage, where it is a part of one."""
    input: str | None = None
    """The label of the input that it keeps."""
    component: int | None = None
    """The number of the component that it keeps."""

    @property
    def cost(self) -> Cost:
        """The most that it reads in a batch."""
        return most(self.works)[0]

    @property
    def reason(self) -> str | None:
        """Why that is more than the delta, where it is."""
        return most(self.works)[1]


@attrs.frozen(eq=False, slots=False)
class Circuit:
    """The operators of a plan, each after those that it is given something by, but for what goes round."""

    plan: Plan
    operators: tuple[Operator, ...]
    answer: DeltaRules
    """How the answer follows the states."""
    derived: Mapping[str, DeltaRules]
    """How the derived streams do, by their names."""
    starts: Mapping[str, DeltaRules]
    """How what loops begin with does, by the names of the bags that they carry."""
    values: Mapping[str, DeltaRules]
    """How what a step makes of those bags does."""
    access: Mapping[str, Access]
    """How batches read and change each stage."""

    @cached_property
    def by_id(self) -> dict[str, Operator]:
        return {operator.id: operator for operator in self.operators}

    def of_stage(self, name: str) -> tuple[Operator, ...]:
        """The operators of a stage."""
        return tuple(operator for operator in self.operators if operator.stage == name)

    def works(self, stage: str) -> tuple[Work, ...]:
        """What a batch has to do for a stage, if it has rows of one of the stage's streams; otherwise nothing."""
        return tuple(work for operator in self.of_stage(stage) for work in operator.works)

    def cost(self, stage: str) -> tuple[Cost, str | None]:
        """The most that a batch reads of a stage, and why it is more than the delta."""
        return most(self.works(stage))

    def change(self, name: str) -> Work:
        """What it costs to say how a batch has changed the `answer`, or a derived stream."""
        return self.by_id[name].works[0]


def circuit_of(plan: Plan) -> Circuit:
    """The circuit of a plan."""
    stages = plan.stages
    parts = [part for loop in plan.feedbacks for part in loop.parts]
    answer = delta_rules(plan.answer, stages)
    derived = {each.name: delta_rules(each.term, stages) for each in plan.derived}
    starts = {part.fed.name: delta_rules(part.start, stages) for part in parts}
    values = {part.fed.name: delta_rules(part.value, stages) for part in parts}
    carried = frozenset[str]().union(*map(plan.inside, plan.feedbacks))
    access = {stage.name: _access(stage, plan, carried) for stage in stages}
    operators = tuple(_operators(plan, answer, derived, values))
    return Circuit(plan, operators, answer, derived, starts, values, access)


def _access(stage: Stage, plan: Plan, carried: frozenset[str]) -> Access:
    """How batches read and change a stage; those of loops that are carried over are named."""
    in_steps = plan.recursion_of(stage) is not None or stage.name in carried
    access = Access.STEPS if in_steps else Access.ONCE
    return access | Access.SPARSE if plan.has_residual else access


# --- operators ----------------------------------------------------------------------------------


def _operators(
    plan: Plan, answer: DeltaRules, derived: Mapping[str, DeltaRules], values: Mapping[str, DeltaRules]
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
            yield Operator(part.fed.name, OperatorKind.DELAY, given, Linearity.NONLINEAR, rule, kept=kept)
    said: set[str] = set()
    for stage in plan.stages:
        recursion = plan.recursion_of(stage)
        for each in plan.derived_for(stage):
            if each.name not in said:
                said.add(each.name)
                yield _made(each.name, OperatorKind.DIFFERENTIATE, derived[each.name], plan)
        yield from _stage(stage)
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
        return Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, rule, kept=Stored(item_type(t)))
    if name in plan.trusted:
        rule = "the batch, without what comes and goes in it; deletions are trusted, and nothing is kept of it"
        return Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, rule)
    rule = "the batch, held against the rows that are there: one that goes has to be one of them"
    return Operator(name, OperatorKind.SOURCE, (), Linearity.LINEAR, rule, kept=Stored(item_type(t)))


def _made(id: str, kind: OperatorKind, rules: DeltaRules, plan: Plan) -> Operator:
    """What is made of states: how it changes."""
    work = change_work("the answer" if kind is OperatorKind.ANSWER else f"the changes of {id}", rules, plan)
    rule = rules.of_all.rule
    linearity = Linearity.LINEAR if rule is Rule.CHANGE else Linearity.NONLINEAR
    given = (*sorted(rules.reads), *sorted(source_names(rules.term)))
    return Operator(id, kind, given, linearity, rule.value, (work,))


def _stage(stage: Stage) -> Iterator[Operator]:
    """The operators of a stage: those of its feeds, then what it keeps."""
    given = []
    for i, (feed, number) in enumerate(zip(stage.feeds, _numbers(stage), strict=True)):
        operators = [attrs.evolve(operator, feed=i) for operator in _feed(stage, feed, number)]
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
        yield Operator(
            stage.name, kind, tuple(given), Linearity.NONLINEAR, rule, (groups_work(stage),), kept, stage.name
        )
    for i in bags:
        id = stage.name if stage.shape is Shape.BAG else f"{stage.name}.{names[i]}"
        kept = Stored(stage.key_type, stage.components[i].type)
        work = bag_work(names[i])
        bag = Operator(id, OperatorKind.BAG, tuple(given), Linearity.LINEAR, "⊎ of the change", (work,), kept)
        yield attrs.evolve(bag, stage=stage.name, component=i)


def _numbers(stage: Stage) -> list[str]:
    """What tells the feeds of a stage apart: their numbers among the joins, and among the others, if there are
    several."""
    joins = [len(feed.rows.inputs) > 1 for feed in stage.feeds]
    return [f".{joins[: i + 1].count(is_join)}" if joins.count(is_join) > 1 else "" for i, is_join in enumerate(joins)]


def _feed(stage: Stage, feed: Feed, suffix: str) -> Iterator[Operator]:
    """The operators of a feed; what the last one gives are its rows."""
    tables = joined_tables(feed)
    read = {t.name for t in subterms(feed.rows.body) if isinstance(t, Stream) and t.static}
    if len(feed.rows.inputs) <= 1:
        given = (*(each.stream for each in feed.rows.inputs), *sorted(read))
        works: tuple[Work, ...] = (table_join_work(tables),) if feed.rows.inputs and tables else ()
        rule = "the same of the change" if feed.rows.inputs else "once: it is over static tables alone"
        id = f"{stage.name}.map{suffix}"
        yield Operator(id, OperatorKind.FILTER_MAP, given, Linearity.LINEAR, rule, works, stage=stage.name)
        return
    sides = []
    for each, name in zip(feed.rows.inputs, input_names(feed), strict=True):
        id = f"{stage.name}{suffix}.{name}"
        sides.append(id)
        kept = Stored(*_pair(each.term))
        index = Operator(id, OperatorKind.INDEX, (each.stream,), Linearity.LINEAR, "⊎ of the change", (), kept)
        yield attrs.evolve(index, stage=stage.name, input=each.label)
    works = (join_work(feed), *([table_join_work(tables)] if tables else []))
    given = (*sides, *sorted(read))
    id = f"{stage.name}.join{suffix}"
    yield Operator(id, OperatorKind.JOIN, given, Linearity.BILINEAR, delta_rule(feed), works, stage=stage.name)


def delta_rule(feed: Feed) -> str:
    """The change of a feed's rows, one summand for each input: `ΔS ⋈ T ⊎ S' ⋈ ΔT` ([DBSP] Thm 3.4)."""
    names = input_names(feed)
    written = {"delta": "Δ{}", "new": "{}'", "old": "{}"}
    summands = [
        sign(feed).join([*(written[c].format(n) for c, n in zip(choice, names, strict=True)), *joined_tables(feed)])
        for choice in delta_choices((True,) * len(names))
    ]
    return " ⊎ ".join(summands) or f"{feed_name(feed)}, once"


def _pair(term: Term) -> tuple[Type, Type | None]:
    """By what the elements of an input are kept, and what of them."""
    item = item_type(term.type)
    if isinstance(item, ty.TupleType) and len(item.items) == 2:
        return item.items[0], item.items[1]
    return item, None
