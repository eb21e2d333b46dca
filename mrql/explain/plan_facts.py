"""The facts about a plan, from which its text, its JSON and its picture are made.

Nothing is decided here: the passes have done that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from mrql.algebra.analysis.variables import free_vars, stream_names
from mrql.algebra.evaluation.recursive_functions import PythonFunction, rows_through_python
from mrql.algebra.monoids import (
    BAG,
    INVARIANT,
    Aggregate,
    BagUnion,
    Fold,
    Invariant,
    Keyed,
    ListAppend,
    Monoid,
    ProductMonoid,
    is_group,
)
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.span import Span
from mrql.algebra.terms import Term, Tup
from mrql.explain.differences import STAGED, Difference, differences
from mrql.explain.lineage import Lineage, lineage_of
from mrql.explain.tables import StoredTable, stage_tables
from mrql.rewrite.analysis.infer_merge import infer
from mrql.rewrite.analysis.multilinear import label_occurrences
from mrql.rewrite.passes import Trace
from mrql.rewrite.pipeline import normal_form
from mrql.rewrite.plan.circuit import Circuit, delta_rule
from mrql.rewrite.plan.cost import Cost, Work
from mrql.rewrite.plan.labels import component_names, occurrence_names
from mrql.rewrite.plan.plan import DerivedStream, Plan, Shape, Stage


@attrs.frozen
class PassFacts:
    """A pass: the term after it, None where it changed nothing but names."""

    name: str
    source: str
    after: Term | None


@attrs.frozen
class Judgement:
    """`[S1: ⊎, S2: □] ⊢ h : ⊗`: how each occurrence of a stream grows, and the merge, where a rule shows one."""

    growth: tuple[tuple[str, Monoid], ...]
    merge: Monoid | None

    def __str__(self) -> str:
        growth = ", ".join(f"{name}: {monoid}" for name, monoid in self.growth)
        return f"[{growth}] ⊢ h : {'?' if self.merge is None else self.merge}"


@attrs.frozen
class StageFacts:
    """A stage, its terms under tidy names."""

    stage: Stage
    components: tuple[str, ...]
    h: Term
    answer: Term
    judgements: tuple[Judgement, ...]
    diminisher: str | None
    lineage: Lineage
    tables: tuple[StoredTable, ...]
    works: tuple[Work, ...]
    cost: Cost
    reason: str | None
    differences: tuple[Difference, ...]
    deltas: tuple[str, ...]
    """How the rows of each feed change."""

    @property
    def read(self) -> tuple[str, ...]:
        """The states that the stage's part of the answer reads: its own, and those of nested parts."""
        return (self.stage.name, *sorted(free_vars(self.answer) - {self.stage.name}))

    @property
    def head(self) -> str:
        """What the stage is, in a few words."""
        match self.stage.shape:
            case Shape.KEYED:
                keys = ", ".join(column.name for column in self.tables[0].keys)
                return f"groups by {keys}" if keys else "one group"
            case Shape.TOTAL:
                return "a total" if len(self.components) == 1 else "totals"
            case Shape.BAG:
                return "a bag"


@attrs.frozen
class DerivedFacts:
    """A derived stream, and what it costs to compute how a batch changed it."""

    derived: DerivedStream
    term: Term
    cost: Work


@attrs.frozen
class Facts:
    """Everything about a query, from its text to its stages."""

    span: Span | None
    keep: frozenset[str]
    plan: Plan
    circuit: Circuit
    query: Term
    passes: tuple[PassFacts, ...]
    stages: tuple[StageFacts, ...]
    derived: tuple[DerivedFacts, ...]
    answer: Term
    cost: Work
    loops: tuple[tuple[str, Term], ...] = ()
    """The static tables that are loops over others."""
    python: tuple[PythonFunction, ...] = ()
    """The functions that rows pass through in Python, when the query runs on Spark."""

    @property
    def read(self) -> tuple[str, ...]:
        """The states that the answer reads."""
        return tuple(stage.stage.name for stage in self.stages if stage.stage.name in free_vars(self.answer))

    def in_order(self) -> Iterator[tuple[tuple[DerivedFacts, ...], StageFacts, DerivedFacts | None]]:
        """The stages in order, each with the derived streams that it reads first, and the one that feeds back to it."""
        told: set[str] = set()
        for stage in self.stages:
            new = tuple(passed for passed in self.read_by(stage.stage) if passed.derived.name not in told)
            recursive = self.recursion_of(stage.stage)
            yield new, stage, recursive
            told |= {passed.derived.name for passed in (*new, *([] if recursive is None else [recursive]))}

    def recursion_of(self, stage: Stage) -> DerivedFacts | None:
        """The stream that is made from a stage and that the stage reads."""
        found = self.plan.recursion_of(stage)
        return next((facts for facts in self.derived if facts.derived is found), None)

    def read_by(self, stage: Stage) -> tuple[DerivedFacts, ...]:
        """The derived streams that a stage reads."""
        read = self.plan.derived_for(stage)
        return tuple(passed for passed in self.derived if passed.derived in read)


def _whole(trace: Trace) -> Term:
    """The query in normal form, with its loops: in the trace, the steps of a fixpoint read its stream instead."""
    recursive = any(derived.loop is not None for derived in trace.plan.derived)
    return normal_form(trace.plan.query) if recursive else trace.normal_form


def author_names(trace: Trace) -> frozenset[str]:
    """The names in the text of the query: its author chose them, so they are kept."""
    span = trace.plan.query.span
    return frozenset(re.findall(r"\w+", span.source.text)) if span is not None else frozenset()


def facts_of(trace: Trace) -> Facts:
    """The facts about how a query became its plan."""
    plan, circuit = trace.plan, trace.circuit
    span, keep = plan.query.span, author_names(trace)
    passes = tuple(
        PassFacts(step.name, step.source, tidy(step.after, keep) if step.has_changed else None) for step in trace.steps
    )
    stages = tuple(_stage_facts(stage, circuit, keep) for stage in plan.stages)
    loops = tuple((name, tidy(loop, keep)) for name, loop in plan.loops)
    derived = tuple(DerivedFacts(d, tidy(d.term, keep), circuit.change(d.name)) for d in plan.derived)
    python = rows_through_python(_whole(trace))
    answer, cost, query = tidy(plan.answer, keep), circuit.change("answer"), tidy(plan.query, keep)
    return Facts(span, keep, plan, circuit, query, passes, stages, derived, answer, cost, loops, python)


def _stage_facts(stage: Stage, circuit: Circuit, keep: frozenset[str]) -> StageFacts:
    derivation, lineage = stage.derivation, lineage_of(stage, keep)
    cost, reason = circuit.cost(stage.name)
    staged = bool(circuit.plan.derived_for(stage))
    forms = [circuit.of_feed(stage.name, i).form for i in range(len(stage.feeds))]
    return StageFacts(
        stage=stage,
        components=component_names(stage),
        h=tidy(derivation.h, keep),
        answer=tidy(derivation.answer, keep),
        judgements=judgements(derivation.h),
        diminisher=diminisher(stage.merge),
        lineage=attrs.evolve(lineage, h=tidy(lineage.h, keep), answer=tidy(lineage.answer, keep)),
        tables=stage_tables(stage),
        works=circuit.works(stage.name),
        cost=cost,
        reason=reason,
        differences=(*([STAGED] if staged else []), *differences(stage, lineage, forms)),
        deltas=tuple(map(delta_rule, stage.feeds, forms)),
    )


def judgements(h: Term) -> tuple[Judgement, ...]:
    """The judgements of `h` for each occurrence of a stream, with the others unchanged.

    A union with a side that does not change is no homomorphism: where one stream alone shows no merge, all together
    may. Totals that share a state are over the same rows, so they have the same occurrences of streams.
    """
    parts = tuple(map(label_occurrences, h.items if isinstance(h, Tup) else (h,)))
    names = tuple(occurrence_names(stream_names(parts[0])).values())
    alone = tuple(_judged(parts, names, {n}) for n in range(len(names)))
    together = _judged(parts, names, set(range(len(names))))
    return alone if together.merge is None or all(judgement.merge for judgement in alone) else (together,)


def _judged(parts: tuple[Term, ...], names: tuple[str, ...], growing: set[int]) -> Judgement:
    """The judgement of some terms over the same occurrences of streams, of which some grow."""
    growth = tuple((name, BAG if n in growing else INVARIANT) for n, name in enumerate(names))
    merges = [infer(part, {label: BAG for n, label in enumerate(stream_names(part)) if n in growing}) for part in parts]
    known = tuple(merge for merge in merges if merge is not None)
    if len(known) < len(merges):
        return Judgement(growth, None)
    return Judgement(growth, known[0] if len(known) == 1 else ProductMonoid(known))


# --- monoids ------------------------------------------------------------------------------------


def diminisher(monoid: Monoid) -> str | None:
    """The diminisher of a merge in the paper's notation ([MRQL] Def. 6); None where there is none.

    >>> from mrql.algebra.monoids import MAX, SUM
    >>> diminisher(Keyed(ProductMonoid((SUM, BAG)))), diminisher(Keyed(MAX))
    ('⇓(− × −)', None)
    """
    if not is_group(monoid):
        return None
    match monoid:
        case ProductMonoid(items):
            return f"({' × '.join(diminisher(item) or '' for item in items)})"
        case Keyed(value):
            return f"⇓{diminisher(value)}"
        case Invariant():
            return str(monoid)
        case _:
            return "−"


def without_inverse(monoid: Monoid) -> tuple[str, ...]:
    """The monoids in a merge that have no inverse, each once."""
    match monoid:
        case ProductMonoid(items):
            return tuple(dict.fromkeys(name for item in items for name in without_inverse(item)))
        case Keyed(value):
            return without_inverse(value)
        case Aggregate() | BagUnion() | ListAppend() | Invariant() | Fold():
            return () if is_group(monoid) else (str(monoid),)
