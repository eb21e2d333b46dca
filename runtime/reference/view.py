"""The incremental evaluation of a plan in the reference semantics: the oracle between the paper and Spark.

A state is a plain dictionary, a batch is evaluated with the reference evaluator, and shares are merged one row at a
time. It needs no Java, and serves `--engine reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from mrql.algebra.errors import MissingRow, WrongDeletion
from mrql.algebra.evaluation.errors import endless
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term, element_type
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, Value, asked
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.plan import DerivedStream, Feedback, Feedbacks, Plan
from mrql.rewrite.plan.threshold import Threshold
from mrql.runtime.engine.residual import Residual, divided, unlike
from mrql.runtime.engine.stopwatch import timed
from mrql.runtime.reference.feed_merge import FeedMerge, taking
from mrql.runtime.reference.stage_state import StageState
from mrql.runtime.reference.transaction import BatchActivity, all_or_nothing
from mrql.runtime.sources.current_rows import CurrentRows

Merge: TypeAlias = Callable[[Collection[str], dict[str, ZSet]], None]
"""Merges changes into the named stages, and adds the changes of derived streams to them."""

Arriving: TypeAlias = ZSet | Sequence[tuple[Value, int]]
"""The rows of one stream in a batch, with weights. Where rows replace each other by key, weights are not added up: an
insertion and a deletion of the same row do not cancel."""


class ReferenceView:
    """A query kept up to date, in the reference semantics."""

    def __init__(self, plan: Plan, tables: Mapping[str, Bag] | None = None, *, start: bool = True) -> None:
        """A view over empty streams. Without `start`, its states must be loaded, and then `resume` called."""
        self.plan = plan
        self.tables = dict(tables or {})
        for name, loop in plan.loops if self.tables.keys() >= plan.tables.keys() else ():
            self.tables[name] = evaluate(loop, self.tables)
        self.states = [StageState(stage) for stage in plan.stages]
        self.circuit = circuit_of(plan)
        self.batch = BatchActivity()
        """The activity of the last batch."""
        self.derived: dict[str, ZSet] = {}
        """The contents of the derived streams after the last batch."""
        self.present: dict[str, ZSet] = {}
        """By stream: the current rows where deletions are looked up, the bags of loops that are carried over, and the
        withheld changes of derived streams."""
        self.starts: dict[str, ZSet] = {}
        """The start values of the bags of those loops after the last batch."""
        self.current: dict[str, CurrentRows] = {}
        """The current rows, by key, of the streams whose rows replace each other."""
        # Totals, and the streams derived from them, have values from the start.
        if start:
            self.resume((), {})

    def resume(self, kept: Collection[str], arrived: Mapping[str, Arriving]) -> None:
        """Builds the states of the stages that are not `kept` from the rows that have arrived so far, or, where the
        current rows by key of a stream are known, from these."""
        known = {name: ZSet.of(current.rows()) for name, current in self.current.items()}
        changes = self._net({name: rows for name, rows in arrived.items() if name not in known}) | known
        self._record({name: rows for name, rows in changes.items() if name not in self.present})
        built: frozenset[str] = frozenset()
        for loop in self.plan.feedbacks:
            if self.plan.inside(loop) <= {*kept}:
                below = self.plan.below(loop.reads)
                self._resume(below - built, changes, kept)
                self.starts |= {part.fed.name: ZSet.of(self._bag(part.start)) for part in loop.parts}
            else:
                below = self._carry_over(loop, built, changes, partial(self._resume, kept=kept))
            built |= below
        self._resume({state.stage.name for state in self.states} - built, changes, kept)
        self.batch.residual = self.batch.residual.and_also(self._residual())

    def _resume(self, names: Collection[str], changes: dict[str, ZSet], kept: Collection[str]) -> None:
        for state in self.states:
            if state.stage.name not in names:
                continue
            for derived in self.plan.derived_for(state.stage):
                if derived.name not in changes:
                    residual = self.present.get(derived.name, ZSet()) if derived.threshold.is_given else ZSet()
                    changes[derived.name] = self._derived_change(derived) - residual
            recursive = self.plan.recursion_of(state.stage)
            if state.stage.name not in kept:
                self._build(state, changes)
            if recursive is not None:
                built = state.stage.name not in kept
                changes[recursive.name] = (
                    self._run_to_fixpoint(state, recursive) if built else self._derived_change(recursive)
                )

    def _build(self, state: StageState, changes: Mapping[str, ZSet]) -> None:
        for i in range(len(state.stage.feeds)):
            self._feeds.begin(state, i)
            self._feeds.step(state, i, changes)
        state.compact()

    def apply(self, deltas: Mapping[str, Arriving]) -> None:
        """Brings the states up to date with a batch: the insertions (+) and deletions (−) of each stream.

        Raises: MissingRow when a row is deleted that is not there; AmbiguousRow, MissingVersion where it is not known
            which row replaces which; UserError when the query has no value for the data. The states are then
            unchanged.
        """
        with self.applied(deltas):
            pass

    @contextmanager
    def applied(self, deltas: Mapping[str, Arriving]) -> Iterator[None]:
        """As `apply`, for a batch that is also rolled back if the block fails."""
        with all_or_nothing(self):
            changes = self._net(deltas)
            self._record(changes)
            self._go_through(changes)
            yield

    @property
    def _feeds(self) -> FeedMerge:
        """The object that merges feeds in this batch."""
        return FeedMerge(self.plan, self.circuit, self.tables, self.batch.milliseconds)

    @property
    def residual(self) -> Residual:
        """How far the answer may be off after the last batch."""
        return self.batch.residual

    def _net(self, arriving: Mapping[str, Arriving]) -> dict[str, ZSet]:
        """The net changes of the streams: where rows replace others, these are deleted."""
        changes: dict[str, ZSet] = {}
        for name, rows in arriving.items():
            if name in self.plan.keyed:
                before = self.current.get(name) or CurrentRows(name, self.plan.keyed[name])
                after, changes[name] = before.after(rows)
                # A new dictionary, as the old one is restored when the batch fails.
                self.current = {**self.current, name: after}
            else:
                assert isinstance(rows, ZSet)
                changes[name] = rows
        return changes

    def _go_through(self, changes: dict[str, ZSet]) -> None:
        """Merges a batch stage by stage; loops that are carried over are iterated before their values are read."""
        self.batch = BatchActivity()
        for state in self.states:
            state.touched_keys.clear()
            state.changed.clear()
            state.rows_by_feed.clear()
        merged: frozenset[str] = frozenset()
        for loop in self.plan.feedbacks:
            merged |= self._carry_over(loop, merged, changes, self._merge)
        self._merge({state.stage.name for state in self.states} - merged, changes)
        self.batch.passed_on = {name: rows.size for name, rows in changes.items()} | self.batch.fed
        self.batch.residual = self.batch.residual.and_also(self._residual())

    def _carry_over(
        self, loop: Feedbacks, merged: frozenset[str], changes: dict[str, ZSet], merge: Merge
    ) -> frozenset[str]:
        """Merges a batch into the stages of a loop that were not `merged` yet, and feeds back the resulting changes.

        New rows of the loop's start value are added to the batch. Returns all stages that the loop is computed from.
        """
        starting, below = self.plan.below(loop.starts), self.plan.below(loop.reads)
        merge(starting - merged, changes)
        new = {part.fed.name: self._new_of_start(part) for part in loop.parts}
        self._note_fed(new)
        changes.update(new)
        merge(below - starting - merged, changes)
        self._feed_back(loop, changes)
        return below

    def _merge(self, names: Collection[str], changes: dict[str, ZSet]) -> None:
        """Merges a batch into the named stages, and adds to it the changes of the derived streams that they read."""
        for state in self.states:
            if state.stage.name in names:
                for derived in self.plan.derived_for(state.stage):
                    if derived.name not in changes:
                        changes[derived.name] = self._passed_on(derived, self._derived_change(derived))
                self._step_all(state, changes)
                recursive = self.plan.recursion_of(state.stage)
                if recursive is not None:
                    changes[recursive.name] = self._run_to_fixpoint(state, recursive)
                self._must_be_backed(state, changes)

    def _must_be_backed(self, state: StageState, changes: Mapping[str, ZSet]) -> None:
        """Raises: WrongDeletion where trusted deletions have left a key with negative support."""
        trusted = taking(self.plan.trusted & {*state.stage.streams}, changes)
        for entry in state.lookup(sorted(state.touched_keys, key=repr)) if trusted else ():
            if min(entry.support) < 0:
                raise WrongDeletion(trusted, state.stage.name, show_value(entry.key))

    def _feed_back(self, loop: Feedbacks, changes: dict[str, ZSet]) -> None:
        """Feeds the changes of a loop's bags back to it, step by step, as far as they exceed the threshold."""
        inside = self.plan.inside(loop)
        for taken in range(1, loop.steps + 1):
            found = {part.fed.name: self._divided(part, loop.threshold) for part in loop.parts}
            due = {name: rows for name, (rows, _) in found.items()}
            if taken == loop.steps or not any(map(len, due.values())):
                break
            self._note_fed(due)
            self._merge(inside, due)
            for name in due.keys() & changes.keys():
                changes[name] += due[name]
        if loop.loop.limit is None and any(map(len, due.values())):
            raise endless(loop.loop)
        for _, residual in found.values():
            self.batch.residual = self.batch.residual.and_also(residual)

    def _note_fed(self, fed: Mapping[str, ZSet]) -> None:
        for name, rows in fed.items():
            self.batch.fed[name] = self.batch.fed.get(name, 0) + rows.size
        self.present = {**self.present, **{name: self.present.get(name, ZSet()) + rows for name, rows in fed.items()}}

    def _new_of_start(self, part: Feedback) -> ZSet:
        """The start value of a bag that has no rows yet; otherwise the groups of rows that are new in it (`unlike`)."""
        name, after = part.fed.name, ZSet.of(self._bag(part.start))
        before = self.starts.get(name, ZSet())
        self.starts[name] = after
        known = self.present.get(name, ZSet())
        return unlike(after - before, known, element_type(part.fed)) if len(known) else after

    def _divided(self, part: Feedback, threshold: Threshold) -> tuple[ZSet, Residual]:
        with timed(self.batch.milliseconds, part.fed.name):
            pending = ZSet.of(self._bag(part.value)) - self.present.get(part.fed.name, ZSet())
            return divided(pending, element_type(part.fed), threshold)

    def _run_to_fixpoint(self, state: StageState, recursive: DerivedStream) -> ZSet:
        """Feeds the changes of a recursive stream back to its stage, earliest first, until there are none; returns all.

        Raises: UserError when that takes more steps than the loop may take.
        """
        before = self.derived.get(recursive.name, ZSet())
        seen = before
        while pending := self._made_of(recursive) - seen:
            now = min(time for (_, time), _ in pending)
            assert recursive.loop is not None
            if recursive.loop.limit is None and now > recursive.loop.most:
                raise endless(recursive.loop)
            found = ZSet.weighted((fact, weight) for fact, weight in pending if fact[1] == now)
            self._step_all(state, {recursive.name: found})
            seen += found
        self.derived[recursive.name] = seen
        return seen - before

    def _step_all(self, state: StageState, changes: Mapping[str, ZSet]) -> None:
        for i in range(len(state.stage.feeds)):
            self._feeds.step(state, i, changes)
        with timed(self.batch.milliseconds, state.stage.name):
            state.compact()

    def answer(self) -> Value:
        """The answer over all batches applied so far."""
        with timed(self.batch.milliseconds, "answer"):
            return asked(self._value(self.plan.answer))

    def _record(self, deltas: Mapping[str, ZSet]) -> None:
        changed = {name: deltas[name] for name in self.plan.looked_up & deltas.keys()}
        present = {name: self.present.get(name, ZSet()) + change for name, change in changed.items()}
        for name, change in changed.items():
            for row, _ in change:
                left = present[name].weight(row)
                if left < 0:
                    raise MissingRow(name, show_value(row), -left)
        # A new dictionary, as the old one is restored when the batch fails.
        self.present = {**self.present, **present}

    def _value(self, term: Term) -> Value:
        """The value of a term over the current states."""
        env = {state.stage.name: state.value() for state in self.states}
        return evaluate(term, self.tables, env)

    def _bag(self, term: Term) -> Bag:
        value = self._value(term)
        assert isinstance(value, Bag)
        return value

    def _made_of(self, derived: DerivedStream) -> ZSet:
        with timed(self.batch.milliseconds, derived.name):
            return ZSet.of(self._bag(derived.term))

    def _derived_change(self, derived: DerivedStream) -> ZSet:
        after = self._made_of(derived)
        change = after - self.derived.get(derived.name, ZSet())
        self.derived[derived.name] = after
        return change

    def _passed_on(self, derived: DerivedStream, change: ZSet) -> ZSet:
        """The part of a change, and of the withheld changes, that exceeds the threshold; the rest is withheld."""
        if not derived.threshold.is_given:
            return change
        whole = self.present.get(derived.name, ZSet()) + change
        due, _ = divided(whole, element_type(derived.stream), derived.threshold)
        self.present = {**self.present, derived.name: whole - due}
        return due

    def _residual(self) -> Residual:
        """How far the answer may be off because of withheld changes."""
        left = [(self.present.get(d.name, ZSet()), d) for d in self.plan.thresholded]
        return Residual.of_steps([divided(rows, element_type(d.stream), d.threshold)[1] for rows, d in left])
