"""Derived streams: they replace the parts below a stage that are not linear in their streams.

A term is read as a union of terms that are linear in their streams. A part that is not is replaced by a derived stream:
its value over the states of its own stages, whose changes the stage above reads ([DBSP] Prop. 3.2). A loop that is a
fixpoint, or is carried over, is a derived stream too, which reads itself, or its previous value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from mrql.algebra import types as ty
from mrql.algebra.analysis.missing import PRESENT, MissingScope, may_be_missing
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names, alpha_equal, stream_names, substitute_streams
from mrql.algebra.errors import InternalError
from mrql.algebra.terms import CMap, CoGroup, GroupBy, Lambda, Pattern, PTuple, Stream, Term, Union
from mrql.rewrite.analysis.infer_merge import joins_elements
from mrql.rewrite.analysis.multilinear import is_multilinear, summands
from mrql.rewrite.loops.diffuse import Diffused
from mrql.rewrite.loops.semi_naive import Fixpoint
from mrql.rewrite.normalize.group_functions import identity
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.delta_rules import touched_stage
from mrql.rewrite.plan.plan import DerivedStream, Feedback, Feedbacks, Shape, Stage
from mrql.rewrite.plan.threshold import NOTHING, Threshold


def reads_streams(term: Term) -> bool:
    return bool(stream_names(term))


class DerivedStreams:
    """The derived streams of a plan. `visit` returns the value of a term over the states of its own stages, which it
    adds to the `stages`; changes of a loop's value of at most the `threshold` are held back from its steps."""

    def __init__(
        self,
        names: Names,
        shrinking: set[str],
        stages: Sequence[Stage],
        visit: Callable[[Term], Term],
        threshold: Threshold,
    ) -> None:
        self.names = names
        self.shrinking = shrinking
        self.stages = stages
        self.visit = visit
        self.threshold = threshold
        self.derived: list[DerivedStream] = []
        self.feedbacks: list[Feedbacks] = []
        self.values: dict[str, Term] = {}
        """The values of carried-over loops, by the names of the streams that replace them."""

    # --- loops --------------------------------------------------------------------------------

    def define(self, fixpoint: Fixpoint) -> None:
        """Adds the derived stream of a fixpoint, made from a stage that reads it; the stage does not read it where the
        loop's step derives nothing from facts."""
        self.shrinking.add(fixpoint.name)
        facts = self.visit(fixpoint.facts)
        if touched_stage(facts, tuple(self.stages)) is None:
            raise InternalError("derive", "the facts of a loop are not by key of one stage")
        is_read = any(fixpoint.name in stage.streams for stage in self.stages)
        self.derived.append(DerivedStream(fixpoint.name, facts, fixpoint.loop if is_read else None))

    def carry_over(self, loop: Diffused) -> None:
        """Adds the derived streams for the value of a carried-over loop, whose step reads its previous value."""
        self.shrinking |= {part.fed.name for part in loop.parts} | {part.read.name for part in loop.parts}
        parts = [Feedback(part.fed, self.visit(part.value), self.visit(part.start)) for part in loop.parts]
        self.feedbacks.append(Feedbacks(loop.loop, tuple(parts), self.threshold))
        for part, fed in zip(loop.parts, parts, strict=True):
            self.derived.append(DerivedStream(part.read.name, fed.value))
            self.values[part.read.name] = fed.value

    def value_of_a_loop(self, term: Term) -> Term | None:
        """A term that is the value of a carried-over loop, or linear in it, over states; None for any other term."""
        read = [part.name for part in subterms(term) if isinstance(part, Stream) and not part.static]
        if len(read) == 1 and read[0] in self.values and is_multilinear(term):
            return normalize(substitute_streams(term, self.values))
        return None

    def step(self, value: Term) -> Term:
        """The term that a step of an unrolled loop reads for the value that it begins with."""
        return self.passed_on(value, self.threshold) if reads_streams(value) else value

    # --- terms ---------------------------------------------------------------------------------

    def linear(self, bag: Term) -> Term:
        """The bag as a union of terms that are linear in their streams, some of them derived."""
        if not isinstance(bag.type, ty.BagType):
            return self.passed_on(bag) if reads_streams(bag) else bag
        parts = summands(bag)
        return reduce(Union, [self._linear_part(part) for part in parts]) if parts else bag

    def _linear_part(self, part: Term) -> Term:
        if not reads_streams(part) or is_multilinear(part):
            return part
        match part:
            case CMap(Lambda(PTuple((_, groups)), body) as f, CoGroup(c, d)) if _joins(body, groups):
                return CMap(f, CoGroup(self.linear(c), self.linear(d)), span=part.span)
            case CMap(Lambda(_, body) as f, source) if _maps(body, source):
                # The function is applied to the changes, so that they need not be stored before it.
                return normalize(CMap(f, self.linear(source), span=part.span))
            case _:
                return self.passed_on(part)

    def passed_on(self, term: Term, threshold: Threshold = NOTHING) -> Stream:
        """The derived stream that replaces a term: its value over the states of its own stages."""
        value = self.visit(term)
        if not isinstance(value.type, ty.BagType) or may_be_missing(value, self._states()):
            value = identity(value, self.names)
        for known in self.derived:
            if alpha_equal(known.term, value) and known.threshold == threshold:
                return known.stream
        derived = DerivedStream(self.names.fresh("D1"), value, threshold=threshold)
        self.derived.append(derived)
        self.shrinking.add(derived.name)
        return derived.stream

    def shrinks(self, term: Term) -> bool:
        """Whether the term may lose elements: one of its streams may, or a part of it will become a derived stream,
        which may."""
        linear = all(not reads_streams(part) or is_multilinear(part) for part in summands(term))
        return not linear or bool(self.shrinking & set(stream_names(term)))

    def _states(self) -> MissingScope:
        """What is known of the states: all but totals are bags, which are never missing."""
        return MissingScope.given({stage.name: PRESENT for stage in self.stages if stage.shape is not Shape.TOTAL})


def _joins(body: Term, groups: Pattern) -> bool:
    return joins_elements(body, groups) and not reads_streams(body)


def _maps(body: Term, source: Term) -> bool:
    over_bag = isinstance(source.type, ty.BagType) and not isinstance(source, GroupBy | CoGroup)
    return over_bag and not reads_streams(body)
