"""Where mrql differs from the paper, and why: the points that apply to a stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.functions import HAS_NULL, IS_NULL
from mrql.algebra.terms import CMap, CoGroup, Lambda, Prim, PTuple, Term
from mrql.explain.lineage import Lineage
from mrql.rewrite.analysis.multilinear import DeltaForm
from mrql.rewrite.incremental.lineage import is_mixed
from mrql.rewrite.plan.circuit import delta_rule
from mrql.rewrite.plan.labels import feed_name, listed
from mrql.rewrite.plan.plan import Feed, Shape, Stage

PRUNED = "Lineage is pruned"
"""The title of the difference under which the stage is shown with all its lineage."""


@attrs.frozen
class Difference:
    """A point in which mrql differs from the paper, and why."""

    title: str
    text: str


STAGED = Difference(
    "A stage of its own, not a part of the answer",
    "What does not merge is not left to the answer with all that stands above it ([MRQL] §9): what it changes from and "
    "to is a batch of changes for this stage ([DBSP] Prop. 3.2), so that a batch costs what it changes.",
)


def differences(stage: Stage, lineage: Lineage, forms: Sequence[DeltaForm]) -> tuple[Difference, ...]:
    """The differences that apply to a stage; `forms` has the form of the delta rule for each of its feeds."""
    return tuple(_differences(stage, lineage, forms))


def _differences(stage: Stage, lineage: Lineage, forms: Sequence[DeltaForm]) -> Iterator[Difference]:
    if lineage.dropped:
        yield _pruned(stage, lineage)
    joins = [(feed, form) for feed, form in zip(stage.feeds, forms, strict=True) if len(feed.rows.inputs) > 1]
    if joins:
        yield _any_join(*joins[0])
    if any(form is DeltaForm.THERE for _, form in joins):
        yield Difference(
            "Only what is there at the same time is joined",
            "The delta rule may put a row that comes beside one that goes, and take that back in another summand. What "
            "is computed here of joined rows may end in an error, which is not taken back: what comes (Δ⁺) meets what "
            "is there after the batch, and what goes (Δ⁻) what was there before it.",
        )
    if _uses_a_side_whole(stage.derivation.query):
        yield Difference(
            "A side of a join without partners stays",
            "`mix` ([MRQL] (8e)) drops a join key whose other side is empty. Here the sides are not joined element by "
            "element and no more, and the empty bag is a value like any other: the coGroup is kept as it is.",
        )
    if stage.shape is Shape.KEYED:
        yield _support(stage)
    yield from _missing(stage.derivation.h)


def _pruned(stage: Stage, lineage: Lineage) -> Difference:
    dropped = listed(list(dict.fromkeys(lineage.dropped)))
    if stage.shape is Shape.KEYED:
        law = (
            "merging by (k, θ) and then by k is merging by k, so that h is reduce(⇑⊗, T(h')) already. (The paper's ⊗ "
            "is ⇑(□ × …): it holds k beside the values once more, where it does not change. Here k is the key alone.)"
        )
    else:
        law = "what the answer keeps, π2, distributes over the merge."
    return Difference(
        PRUNED,
        f"The paper carries all keys to the output ([MRQL] §8 Alg. 1): θ = {lineage.tree.text}, with h' and a' as "
        f"below. The answer only drops {dropped} and merges again what then has equal keys. We drop it before it is "
        f"stored: {law}",
    )


def _any_join(feed: Feed, form: DeltaForm) -> Difference:
    return Difference(
        "Any join",
        "The paper takes joins for one-to-many ([MRQL] §8.1: □ × ⊎) and judges all streams together, which loses the "
        "pairs whose partners arrive in different batches. Here h is judged for each stream by itself, the others "
        f"invariant, and a batch brings {delta_rule(feed, form)} (a prime marks an input as it is after the batch): "
        "each pair meets exactly once, also in joins of many to many and without an equality ([DBSP] Thm 3.4).",
    )


def _support(stage: Stage) -> Difference:
    text = (
        "A key lives while its support, the number of rows behind it, is not 0. The paper's diminisher drops a key "
        "when the value taken away equals the stored one ([MRQL] Def. 6: a ≠ b): of the rows (k, 5) and (k, 0), taking "
        "away (k, 5) would lose k, whose sum is 0."
    )
    silent = [feed_name(feed) for feed in stage.feeds if not feed.supports]
    if silent and any(feed.supports for feed in stage.feeds):
        text += f" Rows of {listed(list(dict.fromkeys(silent)))} alone bring no key into the answer."
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
            case CMap(Lambda(PTuple((_, groups)), body), CoGroup()) if not is_mixed(body, groups):
                return True
            case _:
                continue
    return False
