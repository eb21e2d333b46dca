"""Computes the changes of a stage's feeds in a batch, by the delta rule, and merges them into its state.

A feed that joins several inputs has a summand for each choice of their versions (`choices_that_are_there`). The
reference evaluator computes each from the changes and from the inputs that the join keeps.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from mrql.algebra.errors import WrongDeletion
from mrql.algebra.evaluation.evaluate import bind, evaluate
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, parts_of_pair
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.analysis.multilinear import Input, choices_that_are_there
from mrql.rewrite.incremental.diminish import TakenTooOften
from mrql.rewrite.plan.circuit import Circuit
from mrql.rewrite.plan.plan import Feed, Plan
from mrql.runtime.engine.stopwatch import timed
from mrql.runtime.reference import join_inputs
from mrql.runtime.reference.stage_state import Share, StageState

SIGNS: Mapping[str, int] = {"came": 1, "went": -1}
"""The weight of the rows of a change: of insertions (`came`) and deletions (`went`)."""


@attrs.frozen(eq=False)
class FeedMerge:
    """Merges the feeds of the stages of a plan, by the delta rule."""

    plan: Plan
    circuit: Circuit
    tables: Mapping[str, Bag]
    milliseconds: dict[str, float]
    """The time spent on each operator, by its id, and on merging into a state, by the stage's name."""

    def begin(self, state: StageState, index: int) -> None:
        """Merges the rows of a feed without inputs, which no stream changes."""
        feed = state.stage.feeds[index]
        if not feed.rows.inputs:
            self._merge_rows(state, index, self._rows(feed, {}, 1))

    def step(self, state: StageState, index: int, deltas: Mapping[str, ZSet]) -> None:
        """Merges the changes of one feed in a batch; rows that are never present at the same time are not joined."""
        feed = state.stage.feeds[index]
        inputs = {read.label: read for read in feed.rows.inputs}
        made = self.circuit.of_feed(state.stage.name, index).id
        changes = {
            label: self._change(read, deltas.get(read.stream, ZSet()), self._reader(state, index, label) or made)
            for label, read in inputs.items()
        }
        old = {label: state.inputs.get((index, label), ZSet()) for label in inputs}
        if len(inputs) > 1:
            for label, read in inputs.items():
                trusted = taking(self.plan.trusted & {read.stream}, deltas)
                below = join_inputs.below_nothing(read, old[label] + changes[label]) if trusted else []
                if below:
                    raise WrongDeletion(trusted, state.stage.name, show_value(below[0]))

        def version(label: str, which: str) -> Bag:
            return join_inputs.kept(inputs[label], join_inputs.version(which, old[label], changes[label]))

        for choice in choices_that_are_there(tuple(len(change) > 0 for change in changes.values())):
            chosen = dict(zip(inputs, choice, strict=True))
            label = next(label for label, which in chosen.items() if which in SIGNS)
            sign = SIGNS[chosen[label]]
            if change := version(label, chosen.pop(label)):
                sources = {label: change, **{name: version(name, which) for name, which in chosen.items()}}
                with timed(self.milliseconds, made):
                    rows = self._rows(feed, sources, sign, label)
                self._merge_rows(state, index, rows)
        if len(inputs) > 1:
            for label, rows in changes.items():
                state.inputs[index, label] = old[label] + rows
                state.changed[index, label] = state.changed.get((index, label), 0) + len(rows)

    def _reader(self, state: StageState, index: int, label: str) -> str | None:
        """The id of the operator that keeps an input, if the feed is a join."""
        is_join = len(state.stage.feeds[index].rows.inputs) > 1
        return self.circuit.index(state.stage.name, index, label).id if is_join else None

    def _change(self, read: Input, delta: ZSet, operator: str) -> ZSet:
        """The change of an input; it is linear, so insertions and deletions can be computed separately."""
        with timed(self.milliseconds, operator):
            added = evaluate(read.term, {**self.tables, read.label: delta.positive()})
            removed = evaluate(read.term, {**self.tables, read.label: delta.negative()})
            return ZSet.of(added) - ZSet.of(removed)

    def _rows(self, feed: Feed, inputs: Mapping[str, Bag], weight: int, changed: str | None = None) -> ZSet:
        return ZSet.of(evaluate(feed.rows.for_batch(changed), {**self.tables, **inputs}), weight)

    def _merge_rows(self, state: StageState, index: int, rows: ZSet) -> None:
        state.rows_by_feed[index] = state.rows_by_feed.get(index, 0) + rows.size
        with timed(self.milliseconds, state.stage.name):
            self._merge_each(state, index, rows)

    def _merge_each(self, state: StageState, index: int, rows: ZSet) -> None:
        feed = state.stage.feeds[index]
        # Insertions first, so that a key whose rows are both inserted and deleted exists in between.
        for row, weight in sorted(rows, key=lambda row: row[1] < 0):
            key, element = parts_of_pair(row)
            env = bind(feed.key, key) | bind(feed.element, element)
            stands_for = weight * (1 if feed.weight is None else evaluate(feed.weight, self.tables, env))
            values = {}
            for i, unit in feed.units:
                # A share in `totals` is that of all rows that this one stands for.
                times = weight if i in feed.totals else stands_for
                values[i] = (evaluate(unit, self.tables, env), times)
            try:
                state.append([Share(index, key, stands_for, values)])
            except TakenTooOften:
                trusted = sorted(self.plan.trusted & {*state.stage.streams})
                raise WrongDeletion(trusted, state.stage.name, show_value(key)) from None


def taking(trusted: frozenset[str], changes: Mapping[str, ZSet]) -> list[str]:
    """The trusted streams from which `changes` deletes rows."""
    return [name for name in sorted(trusted & changes.keys()) if any(weight < 0 for _, weight in changes[name])]
