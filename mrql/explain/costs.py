"""What a batch costs, as `runtime/spark/maintenance` and `runtime/spark/view.py` have it: how much of a state is read,
and moved.

Rows that are moved go over the network; rows that are read stay where they are. A look-up by key goes over the keys of
a state where they lie, and reads the rows of the wanted ones. What a batch brings is merged with what is there when
there is much of it, so that over many batches each row is merged as often as the logarithm of the state's size says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.monoids import BagUnion
from mrql.algebra.terms import CoGroup, GroupBy, OrderBy, Reduce, Repeat, Take, Term, Union
from mrql.explain.tables import component_names, feed_name, joined_tables, joins_on_nothing, occurrence_names
from mrql.rewrite.analysis.multilinear import occurrences
from mrql.rewrite.plan.delta_rules import linear_stage, row_by_row, touched_stage
from mrql.rewrite.plan.plan import Feed, Plan, Shape, Stage


class Cost(Enum):
    """How much a batch has to do with, from little to much."""

    DELTA = "the delta"
    KEYS = "the touched keys"
    STATE = "the whole state"


def largest(costs: Sequence[Cost]) -> Cost:
    """The largest of some costs; that of nothing to do is the delta."""
    return max(costs, key=list(Cost).index, default=Cost.DELTA)


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


@attrs.frozen
class Work:
    """A part of what a batch has to do; `reason` says why it is more than the delta, where it is."""

    what: str
    reads: Cost
    moves: Cost
    reason: str | None = None


@attrs.frozen
class Answer:
    """What it costs to say how a batch changed the answer, and why."""

    cost: Cost
    reason: str


# --- stages -------------------------------------------------------------------------------------


def stage_works(stage: Stage) -> tuple[Work, ...]:
    """What a batch has to do for a stage, if it has rows of one of the stage's streams; otherwise nothing."""
    return tuple(_works(stage))


def stage_cost(stage: Stage) -> tuple[Cost, str | None]:
    """The most that a batch reads of a stage, and why it is more than the delta."""
    works = stage_works(stage)
    cost = largest([work.reads for work in works])
    reasons = dict.fromkeys(work.reason for work in works if work.reads is cost and work.reason)
    return cost, "; ".join(reasons) or None


def _works(stage: Stage) -> Iterator[Work]:
    for feed in stage.feeds:
        if len(feed.rows.inputs) > 1:
            yield _join(feed)
        if feed.rows.inputs and joined_tables(feed):
            yield _join_with_tables(feed)
    match stage.shape:
        case Shape.KEYED:
            yield Work(f"the groups of {stage.name}", Cost.DELTA, Cost.DELTA)
        case Shape.TOTAL:
            several = len(stage.components) > 1
            yield Work(f"the {'totals' if several else 'total'} {stage.name}", Cost.DELTA, Cost.DELTA)
        case Shape.BAG:
            pass
    for component, name in zip(stage.components, component_names(stage), strict=True):
        if isinstance(component.monoid, BagUnion):
            what = f"the bag {stage.name}" if stage.shape is Shape.BAG else f"the bag {name}"
            yield Work(what, Cost.DELTA, Cost.DELTA)


def _join(feed: Feed) -> Work:
    """A join of a batch with what is stored of the other inputs."""
    what = f"the join {feed_name(feed)}"
    shown = occurrence_names(tuple(read.label for read in feed.rows.inputs))
    if joins_on_nothing(feed):
        reads, reason = Cost.STATE, "no equality links the sides: each new row meets all rows of the other side"
    else:
        reads, reason = Cost.KEYS, "the partners of a batch's rows are looked up by their key"
    ordered = {label for label, _ in feed.rows.orders}
    found = [(label, others) for label, others in _joined_again(feed.rows.body) if label not in ordered]
    again = [(shown[label], [shown[o] for o in others]) for label, others in found]
    if not again:
        return Work(what, reads, Cost.DELTA, reason)
    costly = "; ".join(f"a batch of {label} joins {listed(others)} anew" for label, others in again)
    return Work(what, Cost.STATE, Cost.STATE, f"{reason}; {costly}")


def _join_with_tables(feed: Feed) -> Work:
    tables = listed(joined_tables(feed))
    reason = f"all of {tables} is looked through for the partners of a batch's rows, and moved to them"
    return Work(f"the join with {tables}", Cost.STATE, Cost.STATE, reason)


def _joined_again(body: Term) -> list[tuple[str, list[str]]]:
    """Each input whose batches meet a join of others, which is not stored and so is made again."""
    found = []
    for term in subterms(body):
        if isinstance(term, CoGroup):
            for side, other in ((term.left, term.right), (term.right, term.left)):
                if len(occurrences(other)) > 1:
                    found += [(label, list(occurrences(other))) for label in occurrences(side)]
    return found


# --- the answer ---------------------------------------------------------------------------------


def answer_cost(term: Term, plan: Plan) -> Answer:
    """What the changes of the answer cost, or of a derived stream.

    The answer as a snapshot is made from the whole state in any case.
    """
    stages = [stage for stage in plan.stages if stage.name in free_vars(term)]
    if not stages:
        return Answer(Cost.DELTA, "no stream is read: the answer does not change")
    stage = touched_stage(term, plan.stages)
    if stage is not None:
        return Answer(
            Cost.KEYS,
            f"each key of {stage.name} has its own answer; those of the touched keys, before and after, are compared",
        )
    bag = linear_stage(term, plan.stages)
    if bag is not None:
        return Answer(Cost.DELTA, f"what the batch adds to {bag.name} and takes from it is all that is looked at")
    if all(stage.shape is Shape.TOTAL for stage in stages) and not any(isinstance(t, Repeat) for t in subterms(term)):
        return Answer(Cost.KEYS, "a total is one row, under the key ()")
    by_row = row_by_row(term, plan.stages)
    compared = (
        "the answers before and after the batch are compared whole"
        if by_row is None
        else f"what each element of {by_row.name} gives is compared with what it gave, where it lies"
    )
    return Answer(Cost.STATE, f"{_why_whole(term, stages)}; {compared}")


def _why_whole(term: Term, stages: list[Stage]) -> str:
    looped = [stage.name for stage in stages if any(_loops_over(part, stage.name) for part in subterms(term))]
    if looped:
        return f"a loop: it runs again from its start, over all of {listed(looped)}"
    if len(stages) > 1:
        return f"the answer is put together from {listed([stage.name for stage in stages])}"
    (stage,) = stages
    operator = _regrouping(term, stage.name)
    if operator is not None:
        return f"{operator} is over all of {stage.name}, not over a key of it"
    if stage.shape is Shape.BAG:
        return f"{stage.name} is a bag without a key"
    return f"the answer uses {stage.name} as a whole"


def _loops_over(term: Term, state: str) -> bool:
    return isinstance(term, Repeat) and state in free_vars(term)


def _regrouping(answer: Term, state: str) -> str | None:
    """The operator that first puts together what belongs to different keys of a state."""
    names = {GroupBy: "a groupBy", CoGroup: "a coGroup", OrderBy: "an order", Take: "a limit", Reduce: "a reduce"}
    for term in subterms(answer):
        if state in free_vars(term) and type(term) in names:
            return names[type(term)]
        if isinstance(term, Union) and isinstance(term.type, ty.BagType) and state in free_vars(term):
            return "a union"
    return None
