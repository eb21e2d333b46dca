"""From a normal form to stages: the largest parts of the query that are homomorphisms, each with its state.

The query is traversed from the top. A part whose value merges becomes a stage and is replaced by a variable; the rest,
above it, is the answer ([MRQL] §9: the non-homomorphic parts are pulled outwards). The parts that merge:

    cMap(f, groupBy(c))    by key                                    (the components of f, split)
    cMap(f, coGroup(c, d)) by key                                    (likewise; a join by element is a linear bag)
    reduce(⊕, c)           one total
    c                      a linear bag

where c and d are linear in their streams. A part of them that is not becomes a derived stream (`derived_streams.py`):
stages of its own, and a term over their states, whose changes the stage above reads. So nothing is refused, and each
part of the query follows the changes of the part below it.

Each part goes through these passes, in order: lineage, the split into components, pruning of the lineage, the rows that
feed the components (`feeds.py`), and the answer. `rewrite/pipeline.py` passes them in as `PartPasses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import PAIRS, MissingScope
from mrql.algebra.analysis.traversal import children
from mrql.algebra.analysis.variables import (
    Names,
    alpha_equal,
    bound_names,
    free_vars,
    stream_names,
    taken_names,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.may_fail import fails_in_spite_of_guards, map_guarded
from mrql.algebra.monoids import BAG, Aggregate, Monoid, is_group
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    Pattern,
    PTuple,
    Reduce,
    Repeat,
    Single,
    Term,
    Tup,
    Var,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.analysis.infer_merge import infer_merge, overlay
from mrql.rewrite.analysis.multilinear import Multilinear, is_multilinear, label_occurrences
from mrql.rewrite.incremental.answer import value_term
from mrql.rewrite.incremental.derived_streams import DerivedStreams, reads_streams
from mrql.rewrite.incremental.feeds import Feeds, ranged_over
from mrql.rewrite.incremental.split import Part
from mrql.rewrite.loops.diffuse import Diffused
from mrql.rewrite.loops.semi_naive import Fixpoint
from mrql.rewrite.loops.unroll import obstacle
from mrql.rewrite.normalize.group_functions import function_parts, identity, paired
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.passes import AnyPass, Pass, Phase, Steps, TermPass
from mrql.rewrite.plan.plan import Component, Derivation, Feed, Plan, Shape, Stage, by_key
from mrql.rewrite.plan.threshold import NOTHING, Threshold


@attrs.frozen
class PartPasses:
    """The passes run on each part that merges, in order; and `unroll`, for a loop whose steps are kept up to date one
    by one."""

    lineage: Pass[[Term], Term]
    split: Pass[..., tuple[tuple[Part, ...], Term]]
    prune: Pass[[Term], Term]
    feeds: Pass[[Term], Multilinear]
    answer: Pass[[Term, Pattern, tuple[Part, ...], Term], Term]
    unroll: Pass[[Repeat, Callable[[Term], Term]], Term]


def derive(
    term: Term,
    query: Term,
    shrinking: frozenset[str],
    *,
    passes: PartPasses,
    steps: Steps,
    loops: Sequence[Fixpoint | Diffused] = (),
    exact: bool = False,
    threshold: Threshold = NOTHING,
) -> Plan:
    """The plan of a query in normal form; `query` is the query before it was rewritten. `steps` checks and records the
    `passes`.

    The streams in `shrinking` may have deletions; the others only grow. The query and each of the `loops` may read the
    loops before it. With `exact`, the steps of loops are kept up to date one by one, where possible. Changes of a
    loop's value of at most the `threshold` are held back from its steps.
    """
    read_by_loops = (taken_names(part) for loop in loops for part in loop.terms)
    names = Names({"X", "D"}.union(taken_names(term), *read_by_loops))
    deriver = _Deriver(names, set(shrinking), exact, threshold, passes, steps)
    for loop in loops:
        deriver.streams.define(loop) if isinstance(loop, Fixpoint) else deriver.streams.carry_over(loop)
    answer = deriver.visit(term)
    shrinking &= set(stream_names(query))
    # The value of a carried-over loop may be read by the answer alone, as a term.
    read = {name for stage in deriver.stages for name in stage.streams}
    derived = tuple(each for each in deriver.streams.derived if each.name in read)
    feedbacks = tuple(deriver.streams.feedbacks)
    return Plan(query, tuple(deriver.stages), answer, derived, shrinking, feedbacks=feedbacks)


class _Deriver:
    def __init__(
        self,
        names: Names,
        shrinking: set[str],
        exact: bool,
        threshold: Threshold,
        passes: PartPasses,
        steps: Steps,
    ) -> None:
        self.names = names
        self.exact = exact
        self.passes = passes
        self.steps = steps
        self.stages: list[Stage] = []
        self.feeds = Feeds(names, self.multilinear)
        self.streams = DerivedStreams(names, shrinking, self.stages, self.visit, threshold)

    def visit(self, term: Term, is_guarded: bool = False) -> Term:
        """The term with its largest parts that merge replaced by their answers over stages.

        A part with a free variable is no stage: the variable is bound above, or is a state, which changes. Nor is a
        guarded part that may fail, as it is evaluated only under a condition, or for the elements of a bag that may be
        empty: its stages are below it.
        """
        if not reads_streams(term):
            return term
        value = self.streams.value_of_a_loop(term)
        if value is not None:
            return value
        if not free_vars(term) and not (is_guarded and fails_in_spite_of_guards(term)):
            answer = self.stage(term)
            if answer is not None:
                return answer
        match term:
            case CMap(Lambda(param, body), source):
                new_source = self.visit(source, is_guarded)
                return CMap(Lambda(param, self.visit(body, True)), new_source, span=term.span)
            case Repeat() if self.exact and not free_vars(term) and obstacle(term) is None:
                return self.visit(self.unrolled(term), is_guarded)
            case _:
                return map_guarded(term, self.visit, is_guarded)

    def stage(self, term: Term) -> Term | None:
        """The answer over a new (or known) stage for the whole term, or None when it does not merge."""
        match term:
            case _ if is_multilinear(term):
                return self.bag(term)
            case CMap(f, GroupBy(c)):
                return self.keyed(CMap(f, GroupBy(self.streams.linear(c)), span=term.span))
            case CMap(f, CoGroup(c, d)):
                over_streams = CMap(f, CoGroup(self.streams.linear(c), self.streams.linear(d)), span=term.span)
                return self.bag(over_streams) if is_multilinear(over_streams) else self.keyed(over_streams)
            case GroupBy() | CoGroup():
                return self.stage(paired(identity(term, self.names), self.names))
            case Reduce(Aggregate() as monoid, c) if is_group(monoid) or not self.streams.shrinks(c):
                return self.total(Reduce(monoid, self.streams.linear(c), span=term.span))
            case _:
                return None

    # --- the three shapes ---------------------------------------------------------------------

    def bag(self, term: Term) -> Term:
        known = self.known(term, Shape.BAG)
        if known is not None:
            return known.var
        annotated = self.checked(self.passes.lineage, term)
        h = self.checked(self.passes.prune, annotated)
        feed = self.feeds.of_bag(h)
        name = self.new_name()
        components = (Component(name, BAG, term.type),)
        derivation = Derivation(term, annotated, annotated, h, BAG, Var(name, term.type))
        return self.add(Stage(name, Shape.BAG, ty.UNIT, components, (feed,), derivation)).var

    def total(self, term: Reduce) -> Term:
        """A stage for one total; `share_totals` puts totals over the same rows into one stage."""
        annotated = self.checked(self.passes.lineage, term)
        h = self.checked(self.passes.prune, annotated)
        assert isinstance(h, Reduce)
        assert isinstance(term.monoid, Aggregate)
        feeds = self.feeds.of_total(h)
        name = self.new_name()
        components = (Component(name, term.monoid, term.type, span=term.span),)
        derivation = Derivation(term, annotated, annotated, h, term.monoid, Var(name, term.type))
        return self.add(Stage(name, Shape.TOTAL, ty.UNIT, components, feeds, derivation)).var

    def keyed(self, term: CMap) -> Term:
        known = self.known(term, Shape.KEYED)
        if known is not None:
            return known.derivation.answer
        annotated_query = self.checked(self.passes.lineage, term)
        key, groups, body = function_parts(term)
        shrinks = any(map(self.streams.shrinks, children(term.source)))
        parts, rest = self.passes.split.run(body, bound_names(groups), self.names, shrinks=shrinks)
        annotated = _store(annotated_query, groups, parts)
        self.steps.check(self.passes.split, annotated)
        h = self.checked(self.passes.prune, annotated)
        assert isinstance(h, CMap)
        monoids = tuple(part.monoid for part in parts)
        merge = by_key(monoids)
        _agree(h, merge)
        feeds = self.feeds.of_groups(h, ranged_over(body, groups))
        stored = self.same_state(h, merge, feeds)
        if stored is not None:
            answer = self.answer(stored.var, key, parts, rest, term.type)
            self.note(Derivation(term, annotated_query, annotated, h, merge, answer), stored)
            return answer
        name = self.new_name()
        key_type = pair_type(h)[0]
        components = tuple(Component(p.name, p.monoid, p.term.type, span=p.term.span) for p in parts)
        state = Var(name, ty.BagType(ty.TupleType((key_type, value_term(parts).type))))
        answer = self.answer(state, key, parts, rest, term.type)
        derivation = Derivation(term, annotated_query, annotated, h, merge, answer)
        self.add(Stage(name, Shape.KEYED, key_type, components, feeds, derivation))
        return answer

    # --- passes -------------------------------------------------------------------------------

    def checked(self, rule: TermPass, term: Term) -> Term:
        """The result of a pass for a part, checked, but not for its type, which lineage changes."""
        after = rule.run(term)
        self.steps.check(rule, after)
        return after

    def multilinear(self, rows: Term) -> Multilinear:
        """The rows of a feed, separated into the inputs that they are linear in.

        Raises: InternalError where they are not linear in each input: a batch would then be merged wrongly.
        """
        if reads_streams(rows) and not is_multilinear(rows):
            raise InternalError("derive", "rows that are not linear in each of their inputs")
        made: Multilinear = self.passes.feeds.run(rows)
        self.steps.check(self.passes.feeds, made.body, rows.type)
        return made

    def answer(self, state: Var, key: Pattern, parts: tuple[Part, ...], rest: Term, wanted: Type) -> Term:
        """The answer of a part, over its state and the states of the parts inside the answer."""
        made = self.passes.answer.run(state, key, parts, rest)
        answer = normalize(self.visit(made), MissingScope.given({state.name: PAIRS}))
        states = {stage.name: stage.var.type for stage in self.stages}
        self.steps.check(self.passes.answer, answer, wanted, {**states, state.name: state.type})
        return answer

    def unrolled(self, loop: Repeat) -> Term:
        value = self.passes.unroll.run(loop, self.streams.step)
        self.steps.check(self.passes.unroll, value, loop.type)
        self.steps.note(Phase.INCREMENTALIZE, self.passes.unroll, loop, value, "a loop")
        return value

    def note(self, derivation: Derivation, stage: Stage) -> None:
        """Records the passes that ran on a part that is stored in a stage."""
        d, is_keyed = derivation, stage.shape is Shape.KEYED
        runs: list[tuple[AnyPass, Term, Term | Stage]] = [
            (self.passes.lineage, d.query, d.lineage),
            *([(self.passes.split, d.lineage, d.annotated)] if is_keyed else []),
            (self.passes.prune, d.annotated, d.h),
            (self.passes.feeds, d.h, stage),
            *([(self.passes.answer, d.query, d.answer)] if is_keyed else []),
        ]
        for rule, before, after in runs:
            self.steps.note(Phase.INCREMENTALIZE, rule, before, after, stage.name)

    # --- bookkeeping --------------------------------------------------------------------------

    def new_name(self) -> str:
        return self.names.fresh("X1")

    def add(self, stage: Stage) -> Stage:
        self.stages.append(stage)
        self.note(stage.derivation, stage)
        return stage

    def same_state(self, h: Term, merge: Monoid, feeds: Sequence[Feed]) -> Stage | None:
        """An existing stage with the same state by key, whatever its answer."""
        supports = [feed.supports for feed in feeds]
        for stage in self.stages:
            same = stage.shape is Shape.KEYED and stage.merge == merge and alpha_equal(stage.derivation.h, h)
            if same and [feed.supports for feed in stage.feeds] == supports:
                return stage
        return None

    def known(self, term: Term, shape: Shape) -> Stage | None:
        """An existing stage for the same term."""
        for stage in self.stages:
            if stage.shape is shape and alpha_equal(stage.derivation.query, term):
                return stage
        return None


def _store(annotated: Term, groups: Pattern, parts: tuple[Part, ...]) -> Term:
    """The annotated query with the parts as its result: `{((k, θ), (e1, …, en))}`."""
    match annotated:
        case CMap(
            Lambda(PTuple((PTuple((key, theta)), _)), CMap(Lambda(_, Single(Tup((lineage_term, _)))), _)), source
        ):
            stored = Single(Tup((lineage_term, value_term(parts))))
            return CMap(Lambda(PTuple((PTuple((key, theta)), groups)), stored), source)
        case _:
            raise InternalError("derive", "lineage was not annotated as expected")


def _agree(h: Term, merge: Monoid) -> None:
    """Checks that the merge inferred for h is that of its components.

    A component over static tables alone is judged `□`: it never changes, so it merges in any way.
    """
    inferred = infer_merge(label_occurrences(h))
    if inferred is not None and overlay(merge, inferred) != merge:
        raise InternalError("derive", f"h merges with {inferred}, its components with {merge}")
