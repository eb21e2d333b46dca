"""The way from a translated query to its plan: all passes in their order, and the driver that runs them.

    PREPARE         removes what a query that is kept up to date does not do: it prints no traces
    LOOPS           chooses how each loop over streams is kept up to date
    NORMALIZE       brings the query, and the terms of the loops, into normal form ([MRQL] Def. 2)
    INCREMENTALIZE  finds the largest parts that are homomorphisms of the streams: stages with a state, and an answer
    OPTIMIZE        improves the resulting plan

Each pass is a function in a file of its own. The driver and `derive` run the passes listed here through `Steps`, which
checks and records them. Merging a deletion is not a pass: it is the inverse of an insertion
(`rewrite/incremental/diminish.py`), and an engine merges it as rows of weight −1. Where a monoid has no inverse,
`split` decides what a stage keeps.

Nor are the rewrites of the compiler for Spark (`runtime/spark/compiler`) passes, as they depend on what is known only
when it compiles a term:

    compiler.py           a function over groups gets its argument taken apart into the key and the groups
                          (`rewrite/normalize/group_functions.py`); a bag over sources replaces its name in a `let`
    evaluation_guards.py  a function over the rows of a source that may fail is put under the conditions under which it
                          is evaluated
    group_by.py           the function of a group is split once more, into aggregate functions of Spark: also in an
                          answer, a step of a loop or a query that is run once, over rows that may retract others
    join.py               the function of a join by element is applied to the pairs of elements that a join of Spark
                          makes
    loops.py              the parts of a step that are the same in all steps, and worth keeping, are computed before the
                          loop (`rewrite/loops/invariants.py`)
    loop_values.py        the value of a loop that has run replaces the loop
    row_values.py         what the terms over a row read of sources is joined to the row
    windows.py            a window function over an order of all rows becomes one of Spark's
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from mrql.algebra.analysis.variables import taken_names
from mrql.algebra.row_key import RowKey
from mrql.algebra.stack import deep
from mrql.algebra.terms import Repeat, Term
from mrql.rewrite.analysis.multilinear import multilinear
from mrql.rewrite.incremental.answer import keyed_answer
from mrql.rewrite.incremental.derive import PartPasses, derive
from mrql.rewrite.incremental.lineage import lineage
from mrql.rewrite.incremental.prune_lineage import prune_lineage
from mrql.rewrite.incremental.split import split
from mrql.rewrite.loops.diffuse import Diffused, diffuse
from mrql.rewrite.loops.hoist_static_loops import hoist_static_loops
from mrql.rewrite.loops.rewrite_steps import rewrite_steps
from mrql.rewrite.loops.semi_naive import Fixpoint, fixpoint
from mrql.rewrite.loops.strategy import choose
from mrql.rewrite.loops.unroll import unroll
from mrql.rewrite.normalize.band_joins import bin_bands
from mrql.rewrite.normalize.drop_traces import drop_traces
from mrql.rewrite.normalize.extract_joins import extract_joins
from mrql.rewrite.normalize.guarded_totals import attempt_totals
from mrql.rewrite.normalize.nested_quantifiers import join_quantifiers
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.normalize.prune_columns import prune_columns
from mrql.rewrite.normalize.push_selections import push_selections
from mrql.rewrite.normalize.unnest_subqueries import unnest_subqueries
from mrql.rewrite.passes import QUERY, AnyPass, Pass, Phase, PlanPass, Steps, TermPass, Trace
from mrql.rewrite.plan.joins.eager_aggregation import aggregate_eagerly
from mrql.rewrite.plan.joins.join_order import order_joins
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.share_totals import share_totals
from mrql.rewrite.plan.threshold import EPSILON, NOTHING, Threshold

# --- prepare ------------------------------------------------------------------------------------

PREPARE: tuple[TermPass, ...] = (
    Pass("untrace", drop_traces, "ours", "nothing: the value of a trace is that of what it prints"),
)


# --- loops --------------------------------------------------------------------------------------


def _as_it_is(loop: Repeat) -> Term:
    return loop


LOOPS: dict[LoopStrategy, AnyPass] = {
    LoopStrategy.FIXPOINT: Pass(
        "fixpoint",
        fixpoint,
        "[DBSP] §5, §6",
        "the loop has no condition and carries one bag; its step only adds: it is a group by that is linear in each "
        "bag that it reads, keeps what it had, and of a group what is equal, or the least or the greatest value",
    ),
    LoopStrategy.DIFFUSE: Pass(
        "diffuse",
        diffuse,
        "[MRQL] §8.2 Def. 5",
        "it is asked for; the loop carries bags and its limit is a constant; its step leads near to the same value "
        "whatever it begins with, which is not checked: the residual says how far off it is",
    ),
    LoopStrategy.EXACT: Pass(
        "exact",
        unroll,  # in `derive`, which keeps each step in stages of its own
        "[DBSP] §6, Prop. 3.2",
        "it is asked for; the number of steps is a constant, at most 100; no condition; the loop carries bags",
    ),
    LoopStrategy.RECOMPUTE: Pass(
        "recompute",
        _as_it_is,
        "[MRQL] §5",
        "nothing: the loop stays in the answer, over states of what its steps read",
    ),
}
"""The strategies for loops over streams, in order of preference: a loop takes the first that is allowed and applicable
(`rewrite/loops/strategy.py`)."""


# --- normalize ----------------------------------------------------------------------------------


def _in_loops(term: Term) -> Term:
    """Runs all passes of `NORMALIZE` on the steps of loops."""
    return rewrite_steps(term, normal_form)


NORMALIZE: tuple[TermPass, ...] = (
    # First: the variable of a loop stands for a source only while the loop's step is rewritten by itself.
    Pass(
        "loops",
        _in_loops,
        "[MRQL] §5",
        "nothing: in the place of what a loop carries stands a source with a name that nothing else has",
    ),
    Pass(
        "normalize",
        normalize,
        "[MRQL] §6, rule 4",
        "no value that takes long is computed twice; over groups, the function is linear in the group; what cannot be "
        "missing does not take the place of what can",
    ),
    # After normalize, and before the passes that join and unnest by equalities.
    Pass(
        "bands",
        bin_bands,
        "ours",
        "a value of the inner row lies between two terms over the outer row that differ by a constant; no equality "
        "links the rows; integers, dates and timestamps",
    ),
    # Before joins, which joins the rows of a nested select with the keys of witnesses; the select is unnested later.
    Pass(
        "quantifiers",
        join_quantifiers,
        "ours",
        "no equality links a nested select with what is around it, but a quantifier in it has equalities with each of "
        "the two, and its other conditions are its own; what has no witness is counted; nothing may fail",
    ),
    # After normalize, which brings all generators of a comprehension into one nest of cMaps.
    Pass(
        "joins",
        extract_joins,
        "[MRQL] §5",
        "both generators range over streams or tables, and neither depends on the other; a row whose key has a missing "
        "part has no partner; what may fail is no key, and stays behind the conditions that guard it",
    ),
    # After joins: generators over several sources are one join, and the other selects over sources are nested.
    Pass(
        "unnest",
        unnest_subqueries,
        "[MRQL] §6, [NK] §3",
        "the nested select ranges over streams or tables by themselves, or a join of them, and an equality links it "
        "with the outer variables alone, or with what it ranges over of the outer row; an outer row without partners "
        "meets the empty bag",
    ),
    # After unnest, when it is known what each groupBy and coGroup contains.
    Pass(
        "columns",
        prune_columns,
        "[CU]",
        "of the elements of a group some parts alone are used, or aggregations of them alone that cannot fail; "
        "duplicates stay, as groups are bags",
    ),
    # After columns, which turns a condition on an aggregation of a group into one on a column.
    Pass(
        "selections",
        push_selections,
        "[CU]",
        "a comprehension over a group, or over the other side of a join, asks the same of the elements of the group "
        "wherever it uses them; the condition is of the element alone, reads no source, and can neither fail nor "
        "overflow",
    ),
    # After joins and unnest: an aggregation over a source that is left is computed by itself.
    Pass(
        "guarded",
        attempt_totals,
        "ours",
        "an aggregation under a condition, or in a function of elements; it has no free variable, and is over one "
        "source; what leaves its range is of sums, differences and products",
    ),
)
"""From the translated query to its normal form."""


# --- incrementalize -----------------------------------------------------------------------------

INCREMENTALIZE: tuple[AnyPass, ...] = (
    Pass(
        "constant",
        hoist_static_loops,
        "ours",
        "the loop reads static tables alone, is a bag, and has no free variable",
    ),
    Pass(
        "derive",
        derive,
        "[MRQL] §9, [DBSP] Prop. 3.2",
        "a part has no free variable, and merges: by key, as one total, or as a bag that is linear in its streams; "
        "what may fail and stands under a condition is no part; what is below a part and does not merge is a derived "
        "stream",
    ),
    Pass(
        "lineage",
        lineage,
        "[MRQL] §8 Alg. 1",
        "the normal form of Def. 2; the sides of a join are annotated only where it joins them element by element",
    ),
    Pass(
        "split",
        split,
        "[MRQL] §9, §11",
        "a component names no stream and nothing that is bound in the function, and merges in each group that it uses: "
        "with a group, where rows may be deleted; what may fail and stands under a condition is none",
    ),
    Pass(
        "prune",
        prune_lineage,
        "ours",
        "h is an annotated homomorphism ([MRQL] Theorem 1): the merge inferred for it is that of its components",
    ),
    Pass(
        "feeds",
        multilinear,
        "[DBSP] Thm 3.4, [CU] §3",
        "the rows of h are linear in each occurrence of a stream, the others unchanged",
    ),
    Pass(
        "answer",
        keyed_answer,
        "[MRQL] Def. 4, §9",
        "the state is h pruned: of what the answer does to its annotated state, the part that does not merge is left",
    ),
)
"""From the normal form to a plan.

`derive` traverses the query from the top, and runs the passes after it on each part that merges: a bag and a total have
no `split`, and their answer is the state. Parts of the answer, and the terms below a part, are traversed in the same
way.
"""


# --- optimize -----------------------------------------------------------------------------------

OPTIMIZE: tuple[PlanPass, ...] = (
    Pass(
        "share",
        share_totals,
        "[MRQL] §5",
        "totals over the same rows; what a feed of one input does to a row counts as a part of its share",
    ),
    Pass(
        "partial",
        aggregate_eagerly,
        "[CU]",
        "a feed of several inputs, of which one has a column that only sums use; the addend is a product of at most "
        "three longs, or one double or decimal, or two doubles if no input loses rows, over different inputs, none of "
        "which fails or overflows where it is not added",
    ),
    Pass(
        "order",
        order_joins,
        "[CU] §3",
        "a feed of three inputs or more, linked by equalities; no key and no condition on joined rows may fail",
    ),
)
"""The passes over the derived plan."""


# --- the driver ---------------------------------------------------------------------------------


@attrs.frozen
class PlanOptions:
    """Options for how a query is kept up to date."""

    shrinking: frozenset[str] = frozenset()
    """The streams that may have deletions; the others only grow."""
    strategy: LoopStrategy = LoopStrategy.AUTO
    """How loops over streams are kept up to date."""
    threshold: Threshold | None = None
    """Changes of a loop's value of at most this size are held back from its steps. If None: `EPSILON` with the strategy
    `DIFFUSE`, otherwise `NOTHING`."""
    trusted: frozenset[str] = frozenset()
    """The streams whose deletions are trusted: their current rows are not stored to check that each deleted row is
    there."""
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)
    """The streams in which a row replaces the one with its key, and which may thus lose rows; they are never
    trusted."""
    checked: bool = False
    """Whether each pass is followed by a check (`Steps`)."""

    @property
    def kept_back(self) -> Threshold:
        if self.threshold is not None:
            return self.threshold
        return EPSILON if self.strategy is LoopStrategy.DIFFUSE else NOTHING


DEFAULT = PlanOptions()


@deep
def plan_query(term: Term, options: PlanOptions = DEFAULT) -> Trace:
    """The plan of a translated query, with the trace of the passes that made it.

    Raises: UserError when the requested strategy is not possible for a loop; InternalError, naming the pass, when the
    result of a pass fails its check.
    """
    prepared, optimized = Steps(options.checked), Steps(options.checked)
    query = _run_all(PREPARE, Phase.PREPARE, term, prepared)
    around: list[Repeat] = []
    while True:
        steps = Steps(options.checked)
        plan = _incrementalized(query, options, around, steps)
        found = [derived.loop for derived in plan.derived if derived.loop is not None and plan.goes_around(derived)]
        if not found:
            break
        # These cannot be fixpoints: what they find comes back to them through other stages.
        around += found
    _, derivation, *_ = INCREMENTALIZE
    steps.check_plan(derivation, plan)
    for rule in OPTIMIZE:
        plan = optimized.run_plan(rule, plan)
    return Trace((*prepared.runs, *steps.runs, *optimized.runs), plan)


@deep
def normal_form(term: Term, *, checked: bool = False) -> Term:
    """The term in normal form, as needed for a query that is evaluated once.

    Raises: InternalError, naming the pass, when the result of a pass fails its check.
    """
    return _run_all(NORMALIZE, Phase.NORMALIZE, term, Steps(checked))


def _incrementalized(query: Term, options: PlanOptions, around: list[Repeat], steps: Steps) -> Plan:
    """The plan of a query before the passes of `OPTIMIZE`; the loops in `around` are not made fixpoints."""
    choice = choose(query, LOOPS, steps, options.strategy, around)

    def normalized(term: Term, subject: str = QUERY) -> Term:
        return _run_all(NORMALIZE, Phase.NORMALIZE, term, steps, subject)

    term = normalized(choice.term)
    opened = [loop.with_terms(_on(loop, normalized)) for loop in choice.opened]
    constant, derivation, annotate, divide, prune, feeds, answer = INCREMENTALIZE
    normal, tables = constant.run(term, taken_names(query))
    steps.check(constant, normal, term.type)
    steps.note(Phase.INCREMENTALIZE, constant, term, normal)
    inside = Steps(options.checked)
    plan: Plan = derivation.run(
        normal,
        query,
        options.shrinking | options.keyed.keys(),
        passes=PartPasses(annotate, divide, prune, feeds, answer, LOOPS[LoopStrategy.EXACT]),
        steps=inside,
        loops=opened,
        exact=options.strategy is LoopStrategy.EXACT,
        threshold=options.kept_back,
    )
    trusted = options.trusted & plan.shrinking - options.keyed.keys()
    keyed = {name: key for name, key in sorted(options.keyed.items()) if name in plan.shrinking}
    plan = attrs.evolve(plan, trusted=trusted, keyed=keyed, loops=tables, strategies=choice.chosen)
    steps.note(Phase.INCREMENTALIZE, derivation, normal, plan)
    steps.runs += inside.runs
    return plan


def _on(loop: Fixpoint | Diffused, run: Callable[[Term, str], Term]) -> Callable[[Term], Term]:
    return lambda term: run(term, loop.name)


def _run_all(passes: tuple[TermPass, ...], phase: Phase, term: Term, steps: Steps, subject: str = QUERY) -> Term:
    """The term after all of these passes, run in order."""
    for rule in passes:
        term = steps.run(phase, rule, term, subject)
    return term
