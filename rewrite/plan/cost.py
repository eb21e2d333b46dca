"""The cost of a batch: how much of a state is read, and moved.

Rows that are moved go over the network; rows that are read stay where they are. A join scans the keys of a state in
place, and processes only the rows of the wanted ones; where the steps of a batch look rows up repeatedly, a large state
is in blocks, and they scan only the blocks of their keys. New rows are merged with old ones when there are many of
them, so that over many batches the number of times that a row is merged is logarithmic in the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.terms import (
    CoGroup,
    GroupBy,
    OrderBy,
    Reduce,
    Repeat,
    Take,
    Term,
    Union,
)
from mrql.rewrite.analysis.multilinear import occurrences
from mrql.rewrite.plan.delta_rules import DeltaRules, Rule
from mrql.rewrite.plan.joins.other_keys import OtherKey
from mrql.rewrite.plan.labels import feed_name, joins_on_nothing, listed, occurrence_names
from mrql.rewrite.plan.plan import Feed, Plan, Shape, Stage


class Cost(Enum):
    """How much a batch reads or moves, from little to much."""

    DELTA = "the delta"
    KEYS = "the touched keys"
    STATE = "the whole state"

    @staticmethod
    def largest(costs: Iterable[Cost]) -> Cost:
        """The largest of some costs; the delta if there are none."""
        return max(costs, key=list(Cost).index, default=Cost.DELTA)


@attrs.frozen
class Reason:
    """The reason for a cost, and the same in a few words where the cost is more than the delta."""

    text: str
    brief: str | None = None


@attrs.frozen
class Work:
    """A part of the work of a batch; `why` is the reason for what it reads, if there is one to give."""

    what: str
    reads: Cost
    moves: Cost
    why: Reason | None = None

    @property
    def reason(self) -> str | None:
        """The whole reason."""
        return None if self.why is None else self.why.text

    @property
    def brief(self) -> str | None:
        """The reason in a few words."""
        return None if self.why is None else self.why.brief


def most(works: Sequence[Work]) -> tuple[Cost, str | None]:
    """The most that some works read, and the reasons that are given for that."""
    cost = Cost.largest(work.reads for work in works)
    return cost, _together(work.reason for work in works if work.reads is cost)


def briefly(works: Sequence[Work]) -> str | None:
    """The reasons for the most that some works read, in a few words."""
    cost, _ = most(works)
    return _together(work.brief for work in works if work.reads is cost)


def _together(reasons: Iterable[str | None]) -> str | None:
    """The distinct reasons as one text; None where there are none."""
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


# --- stages -------------------------------------------------------------------------------------


def groups_work(stage: Stage) -> Work:
    """The work of merging the groups, or the totals, of a batch."""
    match stage.shape:
        case Shape.KEYED:
            what = f"the groups of {stage.name}"
        case Shape.TOTAL | Shape.BAG:
            what = f"the {'totals' if len(stage.components) > 1 else 'total'} {stage.name}"
    return Work(what, Cost.DELTA, Cost.DELTA)


def bag_work(name: str) -> Work:
    """The work of merging a batch into a bag."""
    return Work(f"the bag {name}", Cost.DELTA, Cost.DELTA)


def join_work(feed: Feed, otherwise: Sequence[OtherKey]) -> Work:
    """The work of joining a batch with the stored rows of the other inputs, some of which are looked up by other
    keys."""
    what = f"the join {feed_name(feed)}"
    shown = occurrence_names(tuple(read.label for read in feed.rows.inputs))
    if joins_on_nothing(feed):
        reads, why = Cost.STATE, _ON_NOTHING
    else:
        reads, why = Cost.KEYS, _by_key(otherwise, shown)
    ordered = {label for label, _ in feed.rows.orders}
    found = [(label, others) for label, others in _joined_again(feed.rows.body) if label not in ordered]
    again = [(shown[label], [shown[o] for o in others]) for label, others in found]
    if not again:
        return Work(what, reads, Cost.DELTA, why)
    costly = "; ".join(f"a batch of {label} joins {listed(others)} anew" for label, others in again)
    anew = listed(list(dict.fromkeys(other for _, others in again for other in others)))
    return Work(what, Cost.STATE, Cost.STATE, Reason(f"{why.text}; {costly}", f"{why.brief}; joins {anew} anew"))


_ON_NOTHING = Reason(
    "no equality links the sides: each new row meets all rows of the other side", "no equality links the sides"
)


def _by_key(otherwise: Sequence[OtherKey], shown: Mapping[str, str]) -> Reason:
    """How the partners of a batch's rows are found."""
    met = dict.fromkeys((shown[key.label], key.parts is not None) for key in otherwise)
    found = "the partners of a batch's rows are looked up by key, in a large state by its blocks"
    others = (_met(name, otherwise, shown, is_kept=is_kept) for name, is_kept in met)
    brief = f"partners by key, in {listed(list(dict.fromkeys(name for name, _ in met)))} by another"
    return Reason("; ".join((found, *others)), brief if met else "partners by key")


def _met(name: str, otherwise: Sequence[OtherKey], shown: Mapping[str, str], *, is_kept: bool) -> str:
    """Whose batches look an input up by another key, and how its rows are found then."""
    keys = (key for key in otherwise if shown[key.label] == name and (key.parts is not None) == is_kept)
    batches = listed(list(dict.fromkeys(shown[key.batch] for key in keys)))
    meet = f"batches of {batches} meet {name} by another key"
    if is_kept:
        return f"{meet}: it is kept by that one too where it is large"
    return f"{meet} than it is kept by, and are sent to all of it"


def table_join_work(names: tuple[str, ...]) -> Work:
    """The work of joining a batch with static tables."""
    tables = listed(names)
    found = f"all of {tables} is looked through for the partners of a batch's rows"
    why = Reason(f"{found}, and moved to them unless it is small", f"joins all of {tables}")
    return Work(f"the join with {tables}", Cost.STATE, Cost.STATE, why)


def _joined_again(body: Term) -> list[tuple[str, list[str]]]:
    """Each input whose batches meet a join of others, which is not stored and so is computed again, with these
    others."""
    found = []
    for term in subterms(body):
        if isinstance(term, CoGroup):
            for side, other in ((term.left, term.right), (term.right, term.left)):
                if len(occurrences(other)) > 1:
                    found += [(label, list(occurrences(other))) for label in occurrences(side)]
    return found


# --- terms over states --------------------------------------------------------------------------


def change_work(what: str, rules: DeltaRules, plan: Plan) -> Work:
    """The work of computing how a batch has changed a term over states: the answer, or a derived stream.

    A snapshot of the answer is computed from the whole state in any case.
    """
    cost, why = _change(rules, [stage for stage in plan.stages if stage.name in rules.reads])
    return Work(what, cost, cost, why)


def _change(rules: DeltaRules, stages: list[Stage]) -> tuple[Cost, Reason]:
    if not stages:
        return Cost.DELTA, Reason("no stream is read: the answer does not change")
    found, term = rules.of_all, rules.term
    name = "" if found.stage is None else found.stage.name
    if found.rule is Rule.KEYS:
        each = f"each key of {name} has its own answer"
        return Cost.KEYS, Reason(f"{each}; those of the touched keys, before and after, are compared", "key by key")
    if found.rule is Rule.CHANGE:
        return Cost.DELTA, Reason(f"what the batch adds to {name} and takes from it is all that is looked at")
    if all(stage.shape is Shape.TOTAL for stage in stages) and not any(isinstance(t, Repeat) for t in subterms(term)):
        return Cost.KEYS, Reason("a total is one row, under the key ()", "a total is one row")
    compared = (
        f"what each element of {name} gives is compared with what it gave, where it lies"
        if found.rule is Rule.ELEMENTS
        else "of a large one Spark follows the first elements, and reads all of it when too many of these have gone"
        if rules.first is not None
        else "the answers before and after the batch are compared whole"
    )
    why = _why_whole(term, stages)
    return Cost.STATE, attrs.evolve(why, text=f"{why.text}; {compared}")


def _why_whole(term: Term, stages: list[Stage]) -> Reason:
    looped = [stage.name for stage in stages if any(_loops_over(part, stage.name) for part in subterms(term))]
    if looped:
        over = f"over all of {listed(looped)}"
        return Reason(f"a loop: it runs again from its start, {over}", f"a loop {over}")
    if len(stages) > 1:
        brief = f"put together from {listed([stage.name for stage in stages])}"
        return Reason(f"the answer is {brief}", brief)
    name = stages[0].name
    operator = _regrouping(term, name)
    if operator is not None:
        return Reason(f"{operator} is over all of {name}, not over a key of it", f"{operator} over all of {name}")
    if stages[0].shape is Shape.BAG:
        return Reason(f"{name} is a bag without a key", f"{name} has no key")
    return Reason(f"the answer uses {name} as a whole", f"{name} as a whole")


def _loops_over(term: Term, state: str) -> bool:
    return isinstance(term, Repeat) and state in free_vars(term)


def _regrouping(answer: Term, state: str) -> str | None:
    """The first operator that combines values of different keys of a state."""
    names = {GroupBy: "a groupBy", CoGroup: "a coGroup", OrderBy: "an order", Take: "a limit", Reduce: "a reduce"}
    for term in subterms(answer):
        if state in free_vars(term) and type(term) in names:
            return names[type(term)]
        if isinstance(term, Union) and isinstance(term.type, ty.BagType) and state in free_vars(term):
            return "a union"
    return None
