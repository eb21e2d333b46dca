"""`mrql verify`: does the incremental answer follow the data?

The query's own data is dealt into random batches, with rows that are deleted and inserted again (`histories.py`). The
query is kept up to date over them, and after each batch its answer, and how it changed, is compared to an evaluation
from scratch (`replay.py`). A history that goes wrong is made as small as possible (`shrink.py`) and shown
(`report.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import attrs

from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.row_key import RowKey
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag
from mrql.rewrite.pipeline import PlanOptions, plan_query
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.verify.edge_values import EdgeValues, replaced
from mrql.verify.engines import Start, as_rows
from mrql.verify.histories import Data, History, deal
from mrql.verify.replay import Failure, NoValue, Oracle, Outcome, replay
from mrql.verify.rounding import Rounding
from mrql.verify.sample import Sampler
from mrql.verify.shrink import shrink

__all__ = ["Counterexample", "Sampler", "Scenario", "Verified", "VerifyOptions", "scenarios", "verify"]


IN_TURN = (EdgeValues.OWN, EdgeValues.NEAR, EdgeValues.SCATTERED, EdgeValues.ENDS)
"""The kinds of values that the histories of a scenario have in turn."""

TRIED_MAX_TIMES = 4
"""How often edge values are drawn at most, until the query has a value for them."""


@attrs.frozen
class VerifyOptions:
    """How much is tried: `histories` of so many `batches` each, over `rows` rows of each source at most.

    `seed` determines the samples and the histories.
    """

    seed: int
    histories: int
    batches: int
    rows: int
    strategy: LoopStrategy = LoopStrategy.AUTO
    """How loops over streams are kept up to date: in one of the ways that are exact."""


@attrs.frozen
class Scenario:
    """The streams from which rows are deleted; the plan is made for these deletions."""

    deleting: frozenset[str]
    what: str
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)
    """The streams whose rows replace each other by key, those of a later batch those of the earlier ones."""
    trusted: frozenset[str] = frozenset()
    """The streams whose rows are not kept, so that deletions are not looked up."""


@attrs.frozen
class Counterexample:
    """A history that goes wrong, after shrinking, and how it fails; `found` is the history before shrinking."""

    data: Data
    history: History
    failure: Failure
    found: History
    minimal: bool
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)


@attrs.define
class Verified:
    """What was tried in one scenario, and the first history that went wrong, if one did."""

    scenario: Scenario
    histories: int = 0
    batches: int = 0
    largest: int = 0
    """The number of rows of the largest answer over all of a sample."""
    without_value: list[NoValue] = attrs.Factory(list)
    """Why histories of the query's own values were not followed to their end."""
    counterexample: Counterexample | None = None


def scenarios(
    term: Term,
    shrinking: frozenset[str],
    keyed: Mapping[str, RowKey] | None = None,
    trusted: frozenset[str] = frozenset(),
) -> tuple[Scenario, ...]:
    """The scenarios to verify for a query.

    One has the plan of `mrql stream`, whose streams lose rows only where that is declared (`shrinking`); the other, the
    plan for which all of them may. Rows of `keyed` streams replace each other in both: later batches replace earlier
    ones, whatever the versions of rows, so that each can be deleted and inserted again. Deletions of `trusted` streams
    are trusted in both.
    """
    streams = frozenset(stream_names(term))
    declared = streams & shrinking
    by_key = {name: RowKey(key.fields) for name, key in sorted((keyed or {}).items()) if name in streams}
    replacing = f", and rows of {_listed(frozenset(by_key))} that replace others by key" if by_key else ""
    said = _trusted(streams & trusted, streams)
    every = Scenario(streams, f"with deletions from {_listed(streams)}{said}{replacing}", by_key, streams & trusted)
    if declared == streams:
        return (every,)
    if declared:
        said = _trusted(declared & trusted, declared)
        what = f"with deletions from {_listed(declared)} alone, as declared{said}{replacing}"
        return Scenario(declared, what, by_key, declared & trusted), every
    return Scenario(declared, "with insertions alone, as no deletions are declared"), every


def _trusted(trusted: frozenset[str], deleting: frozenset[str]) -> str:
    """The words for deletions that are not looked up, if there are any."""
    if not trusted:
        return ""
    return ", trusted" if trusted == deleting else f", those of {_listed(trusted)} trusted"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def verify(
    term: Term,
    sampler: Sampler,
    scenario: Scenario,
    effort: VerifyOptions,
    start: Start,
    progress: Callable[[str], None] = lambda line: None,
) -> Verified:
    """Replays random histories of a query's data, until one goes wrong. `sampler` has the rows of all sources.

    Raises: UserError when the query has no value for the data; EngineError when Spark fails by itself.
    """
    return _Verifier(term, sampler, scenario, effort, start, progress).run()


class _Verifier:
    def __init__(
        self,
        term: Term,
        sampler: Sampler,
        scenario: Scenario,
        effort: VerifyOptions,
        start: Start,
        progress: Callable[[str], None],
    ) -> None:
        self.term = term
        self.sampler = sampler
        self.effort = effort
        self.start = start
        self.progress = progress
        options = PlanOptions(scenario.deleting, effort.strategy, trusted=scenario.trusted, keyed=scenario.keyed)
        self.plan = plan_query(term, options).plan
        self.result = Verified(scenario)

    def run(self) -> Verified:
        for number in range(self.effort.histories):
            self.progress(f"{self.result.scenario.what}: history {number + 1} of {self.effort.histories}")
            # Each history has a seed of its own, so that it is the same one however many there are.
            self.history(Random(f"{self.effort.seed} {number}"), IN_TURN[number % len(IN_TURN)])
            if self.result.counterexample is not None:
                break
        return self.result

    def history(self, random: Random, edges: EdgeValues) -> None:
        oracle = self.oracle(random, edges)
        whole = as_rows(oracle.everything(), self.term.type)
        self.result.largest = max(self.result.largest, sum(weight for _, weight in whole))
        deleting = self.result.scenario.deleting
        history = deal(
            oracle.data,
            self.effort.batches,
            deleting,
            random,
            emptied=bool(deleting) and edges in (EdgeValues.SCATTERED, EdgeValues.ENDS),
        )
        outcome = self.replay(history, oracle)
        self.result.histories += 1
        self.result.batches += len(history) if outcome is None else outcome.batch
        if isinstance(outcome, NoValue) and edges is EdgeValues.OWN:
            self.result.without_value.append(outcome)
        if isinstance(outcome, Failure):
            self.result.counterexample = self.smallest(history, outcome, oracle)

    def oracle(self, random: Random, edges: EdgeValues) -> Oracle:
        """The query over a sample with edge values, or with its own values where it has no value for those."""
        rows = self.sampler.draw(random)
        if edges is not EdgeValues.OWN:
            types = {**self.plan.streams, **self.plan.tables}
            for _ in range(TRIED_MAX_TIMES):
                oracle = self.over(replaced({name: rows[name] for name in types}, types, edges, random))
                if oracle.has_value:
                    return oracle
        return self.over(rows)

    def over(self, rows: Data) -> Oracle:
        data = {name: rows[name] for name in self.plan.streams}
        tables = {name: Bag(rows[name]) for name in self.plan.tables}
        return Oracle(self.term, data, tables, Rounding.of(self.plan), self.result.scenario.keyed)

    def replay(self, history: History, oracle: Oracle) -> Outcome:
        return replay(history, oracle, lambda: self.start(self.plan, oracle.tables))

    def smallest(self, found: History, failure: Failure, oracle: Oracle) -> Counterexample:
        """Makes a failing history smaller until nothing can be left out, or the user has waited long enough."""
        best, how = found[: failure.batch], failure

        def fails(history: History) -> int | None:
            nonlocal best, how
            outcome = self.replay(history, oracle)
            if not isinstance(outcome, Failure):
                return None
            best, how = history[: outcome.batch], outcome
            self.progress(f"WRONG; made smaller: {len(best)} batches with {sum(map(len, best))} changes")
            return outcome.batch

        try:
            shrink(best, fails)
        except KeyboardInterrupt:
            return Counterexample(oracle.data, best, how, found, False, oracle.keyed)
        return Counterexample(oracle.data, best, how, found, True, oracle.keyed)
