"""From a normal form to stages: the largest parts of the query that are homomorphisms, each with its state.

The query is read from the top. A part whose value merges is a stage, and a variable takes its place; what stands
above is the answer ([MRQL] §9: the non-homomorphic parts are pulled outwards). The parts that merge:

    cMap(f, groupBy(c))    by key                                    (the components of f, split)
    cMap(f, coGroup(c, d)) by key                                    (likewise; a join by element is a linear bag)
    reduce(⊕, c)           one total
    c                      a linear bag

where c and d are linear in their streams. What below them is not becomes a derived stream: its own stages, and a
term over their states, whose changes are what the stage above reads. So nothing is refused, and each part of the query
follows the changes of the part below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import PAIRS, PRESENT, Scope, may_be_missing
from mrql.algebra.analysis.traversal import children, subterms, with_children
from mrql.algebra.analysis.variables import (
    Names,
    alpha_equal,
    bound_names,
    free_vars,
    substitute,
    substitute_streams,
    taken_names,
    var_of,
)
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation.may_fail import fails_in_spite_of_guards, guards
from mrql.algebra.monoids import BAG, Aggregate, Monoid, is_group
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    GroupBy,
    Lambda,
    Pattern,
    PTuple,
    PVar,
    Reduce,
    Repeat,
    Single,
    Stream,
    Term,
    Tup,
    Union,
    Var,
    element_type,
    pair_type,
)
from mrql.rewrite.analysis.infer_merge import infer_merge, overlay, stream_names
from mrql.rewrite.analysis.multilinear import is_multilinear, label_occurrences, multilinear, summands
from mrql.rewrite.incremental.answer import keyed_answer, value_term
from mrql.rewrite.incremental.lineage import joins_elements, lineage
from mrql.rewrite.incremental.prune_lineage import prune
from mrql.rewrite.incremental.split import Part, split
from mrql.rewrite.loops.diffuse import Diffused
from mrql.rewrite.loops.semi_naive import Fixpoint
from mrql.rewrite.loops.unroll import obstacle, unroll
from mrql.rewrite.normalize.group_functions import function_parts, identity, paired
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.delta_rules import touched_stage
from mrql.rewrite.plan.plan import Component, Derivation, Derived, Feed, Feedback, Feedbacks, Plan, Shape, Stage, by_key
from mrql.rewrite.plan.threshold import NOTHING, Threshold


def derive(
    term: Term,
    query: Term | None = None,
    shrinking: frozenset[str] = frozenset(),
    *,
    loops: Sequence[Fixpoint | Diffused] = (),
    exact: bool = False,
    threshold: Threshold = NOTHING,
) -> Plan:
    """The plan of a query in normal form; `query` is the query as it was written, for the record.

    The streams in `shrinking` may lose elements again; the others only grow. The query and each of the `loops` read the
    loops before it. With `exact`, the steps of loops are kept up to date one by one, where that can be. What of the
    value of a loop changes by no more than the `threshold` is kept back from its steps.
    """
    read_by_loops = (taken_names(part) for loop in loops for part in loop.terms)
    names = Names({"X", "D"}.union(taken_names(term), *read_by_loops))
    deriver = _Deriver(names, set(shrinking), exact, threshold)
    for loop in loops:
        deriver.define(loop) if isinstance(loop, Fixpoint) else deriver.carry_over(loop)
    answer = deriver.visit(term)
    read = term if query is None else query
    shrinking &= set(stream_names(read))
    return Plan(
        read, tuple(deriver.stages), answer, tuple(deriver.derived), shrinking, feedbacks=tuple(deriver.feedbacks)
    )


def _reads_streams(term: Term) -> bool:
    return any(isinstance(t, Stream) and not t.static for t in subterms(term))


class _Deriver:
    def __init__(self, names: Names, shrinking: set[str], exact: bool, threshold: Threshold) -> None:
        self.names = names
        self.shrinking = shrinking
        self.exact = exact
        self.threshold = threshold
        self.stages: list[Stage] = []
        self.derived: list[Derived] = []
        self.feedbacks: list[Feedbacks] = []
        self.values: dict[str, Term] = {}
        """The values of loops that are carried over, by the streams in their place."""

    def visit(self, term: Term, is_guarded: bool = False) -> Term:
        """The term with its largest stages replaced by variables.

        A part with a free variable is no stage: the variable is bound above, or is a state, which changes. Nor is what
        may fail, and is evaluated under a condition only, or for the elements of what may be empty: the stages are then
        below it.
        """
        if not _reads_streams(term):
            return term
        if self.is_of_a_loop(term):
            return normalize(substitute_streams(term, self.values))
        if not free_vars(term) and not (is_guarded and fails_in_spite_of_guards(term)):
            answer = self.stage(term)
            if answer is not None:
                return answer
        match term:
            case CMap(Lambda(param, body), source):
                new_source = self.visit(source, is_guarded)
                return CMap(Lambda(param, self.visit(body, True)), new_source, span=term.span)
            case Repeat() if self.exact and not free_vars(term) and obstacle(term) is None:
                return self.visit(unroll(term, self.step), is_guarded)
            case _:
                places = zip(children(term), guards(term), strict=True)
                return with_children(term, tuple(self.visit(child, is_guarded or bool(own)) for child, own in places))

    def stage(self, term: Term) -> Term | None:
        """The answer over a new (or known) stage for the whole term, or None when it does not merge."""
        match term:
            case _ if is_multilinear(term):
                return self.bag(term)
            case CMap(f, GroupBy(c)):
                return self.keyed(CMap(f, GroupBy(self.linear(c)), span=term.span))
            case CMap(f, CoGroup(c, d)):
                over_streams = CMap(f, CoGroup(self.linear(c), self.linear(d)), span=term.span)
                return self.bag(over_streams) if is_multilinear(over_streams) else self.keyed(over_streams)
            case GroupBy() | CoGroup():
                return self.stage(identity(term, self.names))
            case Reduce(Aggregate() as monoid, c) if is_group(monoid) or not self.shrinks(c):
                return self.total(Reduce(monoid, self.linear(c), span=term.span))
            case _:
                return None

    def define(self, fixpoint: Fixpoint) -> None:
        """A derived stream that is made from a stage that reads it."""
        self.shrinking.add(fixpoint.name)
        facts = self.visit(fixpoint.facts)
        if touched_stage(facts, tuple(self.stages)) is None:
            raise InternalError("derive", "the facts of a loop are not by key of one stage")
        self.derived.append(Derived(fixpoint.name, facts, fixpoint.loop))

    def carry_over(self, loop: Diffused) -> None:
        """Derived streams for the value of a loop whose step reads what it had."""
        self.shrinking |= {part.fed.name for part in loop.parts} | {part.read.name for part in loop.parts}
        parts = [Feedback(part.fed, self.visit(part.value), self.visit(part.start)) for part in loop.parts]
        self.feedbacks.append(Feedbacks(loop.loop, tuple(parts), self.threshold))
        for part, fed in zip(loop.parts, parts, strict=True):
            self.derived.append(Derived(part.read.name, fed.value))
            self.values[part.read.name] = fed.value

    def is_of_a_loop(self, term: Term) -> bool:
        """Whether a term is the value of a loop, or what is made of each of its elements by itself."""
        read = [part.name for part in subterms(term) if isinstance(part, Stream) and not part.static]
        return len(read) == 1 and read[0] in self.values and is_multilinear(term)

    # --- derived streams ----------------------------------------------------------------------

    def linear(self, bag: Term) -> Term:
        """The bag as a union of terms that are linear in their streams, some of them derived."""
        if not isinstance(bag.type, ty.BagType):
            return self.passed_on(bag) if _reads_streams(bag) else bag
        parts = summands(bag)
        return reduce(Union, [self.linear_part(part) for part in parts]) if parts else bag

    def linear_part(self, part: Term) -> Term:
        if not _reads_streams(part) or is_multilinear(part):
            return part
        match part:
            case CMap(Lambda(PTuple((_, groups)), body) as f, CoGroup(c, d)) if self.joins(body, groups):
                return CMap(f, CoGroup(self.linear(c), self.linear(d)), span=part.span)
            case CMap(Lambda(_, body) as f, source) if self.maps(body, source):
                # The function is applied to the changes, so that they need not be stored before it.
                return normalize(CMap(f, self.linear(source), span=part.span))
            case _:
                return self.passed_on(part)

    def joins(self, body: Term, groups: Pattern) -> bool:
        return joins_elements(body, groups) and not _reads_streams(body)

    def maps(self, body: Term, source: Term) -> bool:
        over_bag = isinstance(source.type, ty.BagType) and not isinstance(source, GroupBy | CoGroup)
        return over_bag and not _reads_streams(body)

    def step(self, value: Term) -> Term:
        """What a step of a loop reads in the place of the value that it begins with."""
        return self.passed_on(value, self.threshold) if _reads_streams(value) else value

    def passed_on(self, term: Term, threshold: Threshold = NOTHING) -> Stream:
        """A derived stream in the place of a term: its value over the states of its own stages."""
        value = self.visit(term)
        if not isinstance(value.type, ty.BagType) or may_be_missing(value, self.states()):
            value = identity(value, self.names)
        for known in self.derived:
            if alpha_equal(known.term, value) and known.threshold == threshold:
                return known.stream
        derived = Derived(self.names.fresh("D1"), value, threshold=threshold)
        self.derived.append(derived)
        self.shrinking.add(derived.name)
        return derived.stream

    def shrinks(self, term: Term) -> bool:
        """Whether the term may lose elements again: a stream of it may, or what will stand for a part of it."""
        linear = all(not _reads_streams(part) or is_multilinear(part) for part in summands(term))
        return not linear or bool(self.shrinking & set(stream_names(term)))

    # --- the three shapes ---------------------------------------------------------------------

    def bag(self, term: Term) -> Term:
        known = self.known(term, Shape.BAG)
        if known is not None:
            return known.var
        annotated = lineage(term)
        h = prune(annotated)
        x = PVar(self.names.fresh("x"), element_type(h))
        feed = self.feed(_under_unit(h, x), PTuple(()), x, [(0, Single(var_of(x)))])
        name = self.new_name()
        components = (Component(name, BAG, term.type),)
        derivation = Derivation(term, annotated, annotated, h, BAG, Var(name, term.type))
        return self.add(Stage(name, Shape.BAG, ty.UNIT, components, (feed,), derivation)).var

    def total(self, term: Reduce) -> Term:
        """One total; totals over the same rows share a stage."""
        annotated = lineage(term)
        h = prune(annotated)
        assert isinstance(h, Reduce)
        assert isinstance(term.monoid, Aggregate)
        feeds = tuple(self.total_feed(h, part) for part in summands(h.source))
        name = self.new_name()
        components = (Component(name, term.monoid, term.type, span=term.span),)
        derivation = Derivation(term, annotated, annotated, h, term.monoid, Var(name, term.type))
        return self.add(Stage(name, Shape.TOTAL, ty.UNIT, components, feeds, derivation)).var

    def total_feed(self, h: Reduce, part: Term) -> Feed:
        x = PVar(self.names.fresh("x"), element_type(part))
        return self.feed(_under_unit(part, x), PTuple(()), x, [(0, Reduce(h.monoid, Single(var_of(x))))])

    def keyed(self, term: CMap) -> Term:
        known = self.known(term, Shape.KEYED)
        if known is not None:
            return known.derivation.answer
        term = paired(term, self.names)
        annotated_query = lineage(term)
        key, groups, body = function_parts(term)
        shrinks = any(map(self.shrinks, children(term.source)))
        parts, rest = split(body, bound_names(groups), self.names, shrinks=shrinks)
        annotated = _store(annotated_query, groups, parts)
        h = prune(annotated)
        assert isinstance(h, CMap)
        monoids = tuple(part.monoid for part in parts)
        merge = by_key(monoids)
        _agree(h, merge)
        feeds = self.feeds(h, _ranged(body, groups))
        alike = self.alike(h, merge, feeds)
        if alike is not None:
            return normalize(self.visit(keyed_answer(alike.var, key, parts, rest)), Scope.given({alike.name: PAIRS}))
        name = self.new_name()
        key_type = pair_type(h)[0]
        components = tuple(Component(p.name, p.monoid, p.term.type, span=p.term.span) for p in parts)
        state = Var(name, ty.BagType(ty.TupleType((key_type, value_term(parts).type))))
        answer = normalize(self.visit(keyed_answer(state, key, parts, rest)), Scope.given({name: PAIRS}))
        derivation = Derivation(term, annotated_query, annotated, h, merge, answer)
        self.add(Stage(name, Shape.KEYED, key_type, components, feeds, derivation))
        return answer

    # --- feeds --------------------------------------------------------------------------------

    def feeds(self, h: CMap, ranged: int | None) -> tuple[Feed, ...]:
        """The rows from which the components of a keyed `h` are computed.

        `ranged` is the group that the function ranges over: a key without elements there has no answer.
        """
        key, groups, stored = function_parts(h)
        assert isinstance(stored, Single)
        assert isinstance(stored.item, Tup)
        value = stored.item.items[1]
        parts = _values(value)
        match h.source, groups:
            case GroupBy(source), PVar() as s:
                return tuple(self.side_feed(key, s, parts, part, supports=True) for part in summands(source))
            case CoGroup(left, right), PTuple((PVar() as xs, PVar() as ys)):
                return self.co_feeds(key, (xs, ys), parts, (left, right), ranged)
            case _:
                raise InternalError("derive", "a keyed stage over neither a groupBy nor a coGroup")

    def co_feeds(
        self,
        key: Pattern,
        groups: tuple[PVar, PVar],
        parts: list[tuple[int, Term]],
        sides: tuple[Term, Term],
        ranged: int | None,
    ) -> tuple[Feed, ...]:
        feeds = []
        names = [group.name for group in groups]
        for i, (group, side) in enumerate(zip(groups, sides, strict=True)):
            own = [(n, e) for n, e in parts if free_vars(e) & set(names) == {group.name}]
            supports = ranged is None or ranged == i
            if own or supports:
                feeds += [self.side_feed(key, group, own, part, supports=supports) for part in summands(side)]
        both = [(n, e) for n, e in parts if set(names) <= free_vars(e)]
        if both:
            for left in summands(sides[0]):
                for right in summands(sides[1]):
                    feeds.append(self.joined_feed(key, groups, both, left, right))
        return tuple(feeds)

    def side_feed(
        self, key: Pattern, group: PVar, parts: Iterable[tuple[int, Term]], rows: Term, *, supports: bool
    ) -> Feed:
        x = PVar(self.names.fresh("x"), pair_type(rows)[1])
        units = [(i, substitute(e, {group.name: Single(var_of(x))})) for i, e in parts]
        return attrs.evolve(self.feed(rows, key, x, units), supports=supports)

    def joined_feed(
        self, key: Pattern, groups: tuple[PVar, PVar], parts: list[tuple[int, Term]], left: Term, right: Term
    ) -> Feed:
        """The rows of a join: each element of the left group with each of the right one."""
        xs, ys = groups
        x = PVar(self.names.fresh("x"), element_type(var_of(xs)))
        y = PVar(self.names.fresh("y"), element_type(var_of(ys)))
        k = PVar(self.names.fresh("k"), pair_type(CoGroup(left, right))[0])
        pair: Term = Single(Tup((var_of(k), Tup((var_of(x), var_of(y))))))
        pair = CMap(Lambda(x, CMap(Lambda(y, pair), var_of(ys))), var_of(xs))
        rows = CMap(Lambda(PTuple((k, PTuple((xs, ys)))), pair), CoGroup(left, right))
        units = [(i, substitute(e, {xs.name: Single(var_of(x)), ys.name: Single(var_of(y))})) for i, e in parts]
        return attrs.evolve(self.feed(rows, key, PTuple((x, y)), units), supports=False)

    def feed(self, rows: Term, key: Pattern, element: Pattern, units: Iterable[tuple[int, Term]]) -> Feed:
        return Feed(multilinear(rows), key, element, tuple((i, normalize(unit)) for i, unit in units))

    # --- bookkeeping --------------------------------------------------------------------------

    def new_name(self) -> str:
        return self.names.fresh("X1")

    def add(self, stage: Stage) -> Stage:
        self.stages.append(stage)
        return stage

    def states(self) -> Scope:
        """What is known of the states: all but totals are bags."""
        return Scope.given({stage.name: PRESENT for stage in self.stages if stage.shape is not Shape.TOTAL})

    def alike(self, h: Term, merge: Monoid, feeds: Sequence[Feed]) -> Stage | None:
        """A stage that stores the same by key, whatever is made of it."""
        supports = [feed.supports for feed in feeds]
        for stage in self.stages:
            same = stage.shape is Shape.KEYED and stage.merge == merge and alpha_equal(stage.derivation.h, h)
            if same and [feed.supports for feed in stage.feeds] == supports:
                return stage
        return None

    def known(self, term: Term, shape: Shape) -> Stage | None:
        """A stage that was made for the same term before."""
        for stage in self.stages:
            if stage.shape is shape and alpha_equal(stage.derivation.query, term):
                return stage
        return None


def _store(annotated: Term, groups: Pattern, parts: tuple[Part, ...]) -> Term:
    """The annotated query with the parts in the place of its result: `{((k, θ), (e1, …, en))}`."""
    match annotated:
        case CMap(
            Lambda(PTuple((PTuple((key, theta)), _)), CMap(Lambda(_, Single(Tup((lineage_term, _)))), _)), source
        ):
            stored = Single(Tup((lineage_term, value_term(parts))))
            return CMap(Lambda(PTuple((PTuple((key, theta)), groups)), stored), source)
        case _:
            raise InternalError("derive", "lineage was not annotated as expected")


def _values(value: Term) -> list[tuple[int, Term]]:
    """The components of a stored value, numbered; a single component is the value itself."""
    return list(enumerate(value.items)) if isinstance(value, Tup) else [(0, value)]


def _ranged(body: Term, groups: Pattern) -> int | None:
    """Which of two groups a function is a cMap over, if one: where that is empty, it gives nothing."""
    match body, groups:
        case CMap(_, Var(name, _)), PTuple((PVar(xs, _), PVar(ys, _))):
            return {xs: 0, ys: 1}.get(name)
        case _:
            return None


def _agree(h: Term, merge: Monoid) -> None:
    """The merge that inference finds for h must be the one that the components were split by.

    What static tables alone give is judged `□`: it merges in any way, as no change of it ever comes.
    """
    inferred = infer_merge(label_occurrences(h))
    if inferred is not None and overlay(merge, inferred) != merge:
        raise InternalError("derive", f"h merges with {inferred}, its components with {merge}")


def _under_unit(bag: Term, x: PVar) -> Term:
    """`{((), x) | x ∈ X}`."""
    return normalize(CMap(Lambda(x, Single(Tup((Tup(()), var_of(x))))), bag))
