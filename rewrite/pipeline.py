"""The passes in their order, and the driver that runs them.

This is the whole way from a translated query to its plan. Each pass is a function of a file of its own name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from mrql.algebra.analysis.variables import taken_names
from mrql.algebra.errors import InternalError
from mrql.algebra.notation.typecheck import check
from mrql.algebra.stack import deep
from mrql.algebra.terms import Repeat, Term
from mrql.rewrite.incremental.derive import derive
from mrql.rewrite.loops.hoist_static_loops import constant
from mrql.rewrite.loops.rewrite_steps import loops
from mrql.rewrite.loops.strategy import choose
from mrql.rewrite.normalize.drop_traces import untrace
from mrql.rewrite.normalize.extract_joins import joins
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.normalize.prune_columns import columns
from mrql.rewrite.normalize.unnest_subqueries import unnest
from mrql.rewrite.plan.eager_aggregation import partial
from mrql.rewrite.plan.join_order import order
from mrql.rewrite.plan.loop_strategy import Way
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.share_totals import share
from mrql.rewrite.plan.threshold import EPSILON, NOTHING, Threshold

T = TypeVar("T", Term, Plan)


@attrs.frozen
class Pass(Generic[T]):
    """A rewrite of the whole query, or of its whole plan, that keeps its value and its type."""

    name: str
    run: Callable[[T], T]
    source: str


def _inside(term: Term) -> Term:
    """All passes, for a step of a loop."""
    return run_passes(term)[-1].after


NORMALIZE: tuple[Pass[Term], ...] = (
    # First: what a loop carries is known as a source only while its step is looked at by itself.
    Pass("loops", lambda term: loops(term, _inside), "[MRQL] §5"),
    Pass("normalize", normalize, "[MRQL] §6, rule 4"),
    # After normalize, which brings all generators of a comprehension into one nest of cMaps.
    Pass("joins", joins, "[MRQL] §5"),
    # After joins: a generator is a join, and what is left of the selects over other sources is nested.
    Pass("unnest", unnest, "[MRQL] §6"),
    # Last: only then it is known what each groupBy and coGroup holds.
    Pass("columns", columns, "[CU]"),
)
"""From the translated query to its normal form."""


OPTIMIZE: tuple[Pass[Plan], ...] = (
    Pass("share", share, "[MRQL] §5"),
    Pass("partial", partial, "[CU]"),
    Pass("order", order, "[CU] §3"),
)
"""What becomes of the plan once it is derived."""


@attrs.frozen
class Step:
    """One pass as it ran: the term before and after."""

    name: str
    source: str
    before: Term
    after: Term


@attrs.frozen
class Trace:
    """How a query became its plan."""

    steps: tuple[Step, ...]
    plan: Plan


@deep
def rewrite(
    term: Term,
    *,
    checked: bool = False,
    shrinking: frozenset[str] = frozenset(),
    way: Way = Way.AUTO,
    threshold: Threshold | None = None,
) -> Trace:
    """Runs all passes over a query and derives its stages. The streams in `shrinking` may lose elements again, and
    loops over streams are kept up to date in the given way. What of a loop's value changes by no more than the
    `threshold` is kept back from its steps: if nothing is said, `EPSILON` of loops that are carried over, and nothing
    of others.

    With `checked`, the term is checked after each pass: well-scoped, well-typed, and of the type that it had.

    Raises: UserError when the way that is asked for is not there for a loop; InternalError, naming the pass, when a
        pass breaks a term.
    """
    query = untrace(term)
    if threshold is None:
        threshold = EPSILON if way is Way.DIFFUSE else NOTHING
    around: list[Repeat] = []
    while True:
        ways = choose(query, way, around)
        steps = run_passes(ways.term, checked=checked)
        normal, loops_of_tables = constant(steps[-1].after, taken_names(query))
        opened = [loop.with_terms(lambda part: run_passes(part, checked=checked)[-1].after) for loop in ways.opened]
        plan = derive(normal, query, shrinking, loops=opened, exact=way is Way.EXACT, threshold=threshold)
        found = [derived.loop for derived in plan.derived if derived.loop is not None and plan.goes_around(derived)]
        if not found:
            break
        around += found
    for improvement in OPTIMIZE:
        plan = improvement.run(plan)
    return Trace(steps, attrs.evolve(plan, loops=loops_of_tables, ways=ways.chosen))


@deep
def run_passes(term: Term, *, checked: bool = False) -> tuple[Step, ...]:
    """Runs all passes; what a query that is evaluated once needs."""
    steps = []
    current = term
    for step in NORMALIZE:
        after = step.run(current)
        if checked:
            _check(step.name, current, after)
        steps.append(Step(step.name, step.source, current, after))
        current = after
    return tuple(steps)


def _check(name: str, before: Term, after: Term) -> None:
    try:
        check(after)
    except InternalError as error:
        raise InternalError(name, str(error)) from error
    if after.type != before.type:
        raise InternalError(name, f"the type changed from {before.type} to {after.type}")
