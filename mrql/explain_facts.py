"""What there is to say about a plan, before it is said as text, as JSON or as a picture.

Nothing is decided here: the passes have done that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from mrql.algebra.binders import alpha_equal
from mrql.algebra.functions import HAS_NULL, IS_NULL
from mrql.algebra.monoids import (
    BAG,
    Aggregate,
    BagUnion,
    Invariant,
    Keyed,
    ListAppend,
    Monoid,
    Op,
    ProductMonoid,
    is_group,
)
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, CoGroup, Lambda, Prim, PTuple, Term
from mrql.algebra.tidy import tidy
from mrql.algebra.traversal import subterms
from mrql.explain_costs import Answer, Cost, Work, answer_cost, stage_cost, stage_works
from mrql.explain_lineage import Lineage, lineage_of
from mrql.explain_tables import Table, component_names, feed_name, joins_on_nothing, occurrence_names, stage_tables
from mrql.rewrite.infer import infer, stream_names
from mrql.rewrite.lineage import joins_elements
from mrql.rewrite.multilinear import delta_choices, label_occurrences
from mrql.rewrite.passes import Trace
from mrql.rewrite.stages import Feed, Plan, Shape, Stage


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
class Difference:
    """A point in which we do something else than the paper, and why."""

    title: str
    text: str


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
    tables: tuple[Table, ...]
    works: tuple[Work, ...]
    cost: Cost
    reason: str | None
    differences: tuple[Difference, ...]

    @property
    def head(self) -> str:
        """What the stage is, in a few words."""
        match self.stage.shape:
            case Shape.KEYED:
                keys = ", ".join(column.name for column in self.tables[0].keys)
                return f"groups by {keys}" if keys else "one group"
            case Shape.TOTAL:
                return "a total"
            case Shape.BAG:
                return "a bag"


@attrs.frozen
class Facts:
    """Everything about a query, from its text to its stages."""

    span: Span | None
    keep: frozenset[str]
    plan: Plan
    query: Term
    passes: tuple[PassFacts, ...]
    stages: tuple[StageFacts, ...]
    answer: Term
    cost: Answer


def facts_of(trace: Trace) -> Facts:
    """What there is to say about how a query became its plan."""
    plan = trace.plan
    span = plan.query.span
    # Names that the author of the query chose are kept.
    keep = frozenset(re.findall(r"\w+", span.source.text)) if span is not None else frozenset()
    passes = tuple(
        PassFacts(step.name, step.source, None if alpha_equal(step.before, step.after) else tidy(step.after, keep))
        for step in trace.steps
    )
    stages = tuple(_stage_facts(stage, keep) for stage in plan.stages)
    answer = tidy(plan.answer, keep)
    return Facts(span, keep, plan, tidy(plan.query, keep), passes, stages, answer, answer_cost(plan))


def _stage_facts(stage: Stage, keep: frozenset[str]) -> StageFacts:
    derivation, lineage = stage.derivation, lineage_of(stage, keep)
    cost, reason = stage_cost(stage)
    return StageFacts(
        stage=stage,
        components=component_names(stage),
        h=tidy(derivation.h, keep),
        answer=tidy(derivation.answer, keep),
        judgements=tuple(_judgements(derivation.h)),
        diminisher=diminisher(stage.merge),
        lineage=attrs.evolve(lineage, h=tidy(lineage.h, keep), answer=tidy(lineage.answer, keep)),
        tables=stage_tables(stage),
        works=stage_works(stage),
        cost=cost,
        reason=reason,
        differences=tuple(_differences(stage, lineage)),
    )


def _judgements(h: Term) -> Iterator[Judgement]:
    """How `h` is judged for each occurrence of a stream, the others unchanged."""
    labelled = label_occurrences(h)
    shown = occurrence_names(stream_names(labelled))
    for growing in shown:
        growth = tuple((name, BAG if label == growing else Invariant()) for label, name in shown.items())
        yield Judgement(growth, infer(labelled, {growing: BAG}))


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
        case Aggregate(Op.SUM) | BagUnion() | Invariant():
            return ()
        case Aggregate() | ListAppend():
            return (str(monoid),)


# --- feeds --------------------------------------------------------------------------------------


def delta_rule(feed: Feed) -> str:
    """The change of a feed's rows, one summand for each input: `ΔS ⋈ T ⊎ S' ⋈ ΔT` ([DBSP] Thm 3.4)."""
    names = tuple(occurrence_names(tuple(read.label for read in feed.rows.inputs)).values())
    sign = " × " if joins_on_nothing(feed) else " ⋈ "
    written = {"delta": "Δ{}", "new": "{}'", "old": "{}"}
    choices = delta_choices((True,) * len(names))
    summands = [sign.join(written[c].format(n) for c, n in zip(choice, names, strict=True)) for choice in choices]
    return " ⊎ ".join(summands) or f"{feed_name(feed)}, once"


def fed(feed: Feed, components: tuple[str, ...]) -> tuple[str, ...]:
    """The names of what a feed computes."""
    return tuple(components[i] for i, _ in feed.units)


# --- what differs from the paper ----------------------------------------------------------------


def _differences(stage: Stage, lineage: Lineage) -> Iterator[Difference]:
    if lineage.dropped:
        yield _pruned(stage, lineage)
    joined = next((feed for feed in stage.feeds if len(feed.rows.inputs) > 1), None)
    if joined is not None:
        yield _any_join(joined)
    if _uses_a_side_whole(stage.derivation.query):
        yield Difference(
            "A side of a join without partners stays",
            "`mix` ([MRQL] (8e)) drops a join key whose other side is empty. Here a side is used as a whole, and the "
            "empty bag is a value like any other: the coGroup is kept as it is.",
        )
    if stage.shape is Shape.KEYED:
        yield _support(stage)
    yield from _missing(stage.derivation.h)


def _pruned(stage: Stage, lineage: Lineage) -> Difference:
    dropped = " and ".join(dict.fromkeys(lineage.dropped))
    if stage.shape is Shape.KEYED:
        law = (
            "merging by (k, θ) and then by k is merging by k, so that h is reduce(⇑⊗, T(h')) already. (The paper's ⊗ is "
            "⇑(□ × …): it holds k beside the values once more, where it does not change. Here k is the key alone.)"
        )
    else:
        law = "what the answer keeps, π2, distributes over the merge."
    return Difference(
        "Lineage is pruned",
        f"The paper carries all keys to the output ([MRQL] §8 Alg. 1): θ = {lineage.tree.text}, with h' and a' as below. "
        f"The answer only drops {dropped} and merges again what then has equal keys. We drop it before it is stored: "
        f"{law}",
    )


def _any_join(feed: Feed) -> Difference:
    return Difference(
        "Any join",
        "The paper takes joins for one-to-many ([MRQL] §8.1: □ × ⊎) and judges all streams together, which loses the "
        "pairs whose partners arrive in different batches. Here h is judged for each stream by itself, the others "
        f"invariant, and a batch is {delta_rule(feed)}, where S' is S after the batch: each pair meets exactly once, "
        "also in joins of many to many and without an equality ([DBSP] Thm 3.4).",
    )


def _support(stage: Stage) -> Difference:
    text = (
        "A key lives while its support, the number of rows behind it, is not 0. The paper's diminisher drops a key when "
        "the value taken away equals the stored one ([MRQL] Def. 6: a ≠ b): of the rows (k, 5) and (k, 0), taking away "
        "(k, 5) would lose k, whose sum is 0."
    )
    silent = [feed_name(feed) for feed in stage.feeds if not feed.supports]
    if silent and any(feed.supports for feed in stage.feeds):
        text += f" Rows of {' and '.join(dict.fromkeys(silent))} alone bring no key into the answer."
    return Difference("Support, not values", text)


def _missing(h: Term) -> Iterator[Difference]:
    used = {t.function.name for t in subterms(h) if isinstance(t, Prim)}
    said = {
        HAS_NULL.name: "a row whose join key has a missing part joins with nothing (`has_null`)",
        IS_NULL.name: "an average does not count missing values (`is_null`)",
    }
    found = [text for name, text in said.items() if name in used]
    if found:
        yield Difference("Missing values", f"The paper has none. Here {'; '.join(found)}.")


def _uses_a_side_whole(query: Term) -> bool:
    for term in subterms(query):
        match term:
            case CMap(Lambda(PTuple((_, groups)), body), CoGroup()) if not joins_elements(body, groups):
                return True
            case _:
                continue
    return False
