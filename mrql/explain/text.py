"""The explanation of a query as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.row_key import RowKey
from mrql.explain.differences import PRUNED, Difference
from mrql.explain.page import Page
from mrql.explain.plan_facts import DerivedFacts, Facts, StageFacts, without_inverse
from mrql.explain.tables import Role, StoredColumn, StoredTable, fed
from mrql.rewrite.plan.cost import Cost, Work
from mrql.rewrite.plan.labels import listed
from mrql.rewrite.plan.loop_strategy import Chosen, LoopStrategy
from mrql.rewrite.plan.plan import Feedbacks, Shape, Stage


def render_text(facts: Facts, width: int) -> str:
    """The whole explanation, section by section."""
    page = Page(width)
    _query(page, facts)
    page.gap()
    page.term("as translated, in the algebra of [MRQL] §5:", facts.query)
    _passes(page, facts)
    for name, loop in facts.loops:
        page.heading(f"Table {name}: a loop over tables that no batch changes")
        page.term(f"{name} =", loop)
        page.gap()
        page.line("it is run once, before the first batch")
    for passed_on, stage, recursive in facts.in_order():
        for passed in passed_on:
            _derived(page, passed)
        _stage(page, stage)
        if recursive is not None:
            _recursive(page, recursive, stage.stage)
    for fed_back in facts.plan.feedbacks:
        _feedbacks(page, fed_back, facts)
    _answer(page, facts)
    _differences(page, facts)
    return page.text()


# --- the query and its passes -------------------------------------------------------------------


def _query(page: Page, facts: Facts) -> None:
    """The text of the query, what it reads, and how its loops are kept up to date."""
    page.heading("The query")
    if facts.span is not None:
        for line in facts.span.aligned.split("\n"):
            page.code(line)
        page.gap()
    rows = [("stream", name, show_type(t)) for name, t in sorted(facts.plan.streams.items())]
    rows += [("table", name, show_type(t)) for name, t in sorted(facts.plan.tables.items())]
    page.table(rows, level=1)
    for line in notes(facts):
        page.gap()
        page.line(line)


def notes(facts: Facts) -> Iterator[str]:
    """What is kept of streams that may lose rows, and how loops are kept up to date."""
    if facts.plan.looked_up:
        names = listed(sorted(facts.plan.looked_up))
        yield f"rows of {names} may be deleted: they are kept, so that a deletion of what is not there is told"
    for name, key in sorted(facts.plan.keyed.items()):
        yield f"a row of {name} replaces the one with its {listed(key.fields)}: {_kept_by_key(key)}"
    if facts.plan.trusted:
        names = listed(sorted(facts.plan.trusted))
        yield f"rows of {names} may be deleted, and deletions are trusted: nothing is kept to look them up"
    for chosen in facts.plan.strategies:
        yield f"{_place(chosen, facts)} is kept up to date {HOW[chosen.strategy]}: {chosen.reason}"


HOW = {
    LoopStrategy.FIXPOINT: "as a fixpoint (--loop fixpoint)",
    LoopStrategy.EXACT: "step by step (--loop exact)",
    LoopStrategy.DIFFUSE: "by carrying its value over (--loop diffuse)",
    LoopStrategy.RECOMPUTE: "by running it again (--loop recompute)",
}


def _place(chosen: Chosen, facts: Facts) -> str:
    span = chosen.loop.span
    if span is None:
        return "the loop"
    included = facts.span is not None and facts.span.source.name != span.source.name
    file = f"{Path(span.source.name).name}:" if included else ""
    return f"the loop at {file}{span.line}:{span.column}"


def _passes(page: Page, facts: Facts) -> None:
    page.heading("The passes")
    for step in facts.passes:
        if step.after is not None:
            page.term(f"after {step.name}, {step.source}:", step.after)
            page.gap()
    unchanged = [step.name for step in facts.passes if step.after is None]
    if unchanged:
        page.line(f"nothing to do for {', '.join(unchanged)}")


# --- stages -------------------------------------------------------------------------------------


def _stage(page: Page, facts: StageFacts) -> None:
    stage = facts.stage
    page.heading(f"Stage {stage.name}: {facts.head}")
    page.term(f"h({', '.join(stage.streams)}) =", facts.h)
    page.gap()
    _merge(page, facts)
    page.gap()
    page.term(f"a({', '.join(facts.read)}) =", facts.answer)
    page.gap()
    page.line("Δh, which a batch merges into the state with ⊗")
    page.table((delta, f"→ {_computed(facts, i)}") for i, delta in enumerate(facts.deltas))
    page.gap()
    page.line("what is stored")
    page.table(map(_table_row, facts.tables))
    page.gap()
    page.line(f"what a batch costs: {facts.cost.value}")
    for work in facts.works:
        page.line(f"{work.what}: {_work(work)}", level=2)
        if work.reason:
            page.prose(work.reason, level=3)


def _derived(page: Page, facts: DerivedFacts) -> None:
    name = facts.derived.name
    page.heading(f"Stream {name}: what is passed on")
    page.term(f"{name} =", facts.term)
    page.gap()
    page.line(f"Δ{name}, its rows after a batch (+1) and before it (−1), costs {facts.cost.reads.value}:")
    page.prose(facts.cost.reason or "", level=2)
    if facts.derived.threshold.is_given:
        page.line(
            f"what changes by no more than {facts.derived.threshold} is kept back; all steps "
            "together say by how much the answer may be off, the residual of the batch"
        )


def _recursive(page: Page, facts: DerivedFacts, stage: Stage) -> None:
    name = facts.derived.name
    page.heading(f"Stream {name}: what the loop finds, and at which step")
    page.term(f"{name} =", facts.term)
    page.gap()
    page.line(
        f"Δ{name} goes back to {stage.name}, the earliest steps first, until nothing changes ([DBSP] §6); it costs"
    )
    page.prose(f"{facts.cost.reads.value} of each step: {facts.cost.reason}", level=2)


def _feedbacks(page: Page, loop: Feedbacks, facts: Facts) -> None:
    names = listed([part.fed.name for part in loop.parts])
    page.heading(
        f"Stream {names}: what the loop had" if len(loop.parts) == 1 else f"Streams {names}: what the loop had"
    )
    for part in loop.parts:
        page.term(f"{part.fed.name} begins with", tidy(part.start, facts.keep))
        page.term("and after a step it would be", tidy(part.value, facts.keep))
    page.gap()
    page.line(fed_back(loop))


def fed_back(loop: Feedbacks) -> str:
    """Which changes of a loop's value are fed back to it."""
    names = listed([part.fed.name for part in loop.parts])
    return (
        f"what differs from {names} by more than {loop.threshold} is fed back to it, in at most "
        f"{loop.steps} steps a batch; what is left is the residual of the batch"
    )


def _merge(page: Page, facts: StageFacts) -> None:
    merge = facts.stage.merge
    page.line(f"⊗ = {merge}")
    for judgement in facts.judgements:
        page.line(str(judgement), level=2)
    if any(judgement.merge is None for judgement in facts.judgements):
        page.prose(_not_judged(facts), level=2)
    page.gap()
    if facts.diminisher is not None:
        page.line(f"⊗̃ = {facts.diminisher} ([MRQL] Def. 6): a deletion is merged as the inverse of an insertion")
        return
    names = without_inverse(merge)
    verb = "has" if len(names) == 1 else "have"
    page.line(f"no ⊗̃: {listed(names)} {verb} no inverse, so that a deletion cannot be merged")


def _not_judged(facts: StageFacts) -> str:
    if not facts.components:
        return "nothing but keys is stored: their support counts the rows, and no rule is needed"
    return "no rule shows how h merges as a whole: its state has several sources, each of which is merged by itself"


def _computed(facts: StageFacts, feed: int) -> str:
    names = list(fed(facts.stage.feeds[feed], facts.components))
    if facts.stage.shape is Shape.KEYED and facts.stage.feeds[feed].supports:
        names.append("support")
    return ", ".join(names)


def _table_row(table: StoredTable) -> tuple[str, ...]:
    keys = ", ".join(f"{column.name}: {show_type(column.type)}" for column in table.keys)
    rest = [column for column in table.columns if column.role is not Role.KEY]
    return table.name, f"by {keys}" if keys else "", ", ".join(map(column_text, rest))


def column_text(column: StoredColumn) -> str:
    match column.role:
        case Role.SUPPORT:
            return f"{column.name}: support"
        case Role.ROWS:
            return f"{column.name}: rows"
        case Role.COMPONENT:
            return f"{column.name}: {show_type(column.type)} ({column.merge})"
        case Role.WEIGHT | Role.TOUCHED:
            return column.name
        case _:
            return f"{column.name}: {show_type(column.type)}"


def _work(work: Work) -> str:
    if work.reads is work.moves:
        return f"reads and moves {work.reads.value}"
    return f"reads {work.reads.value}, moves {work.moves.value}"


# --- the answer and the paper -------------------------------------------------------------------


def _answer(page: Page, facts: Facts) -> None:
    page.heading("The answer")
    names = ", ".join(facts.read)
    if any(alpha_equal(facts.answer, stage.answer) for stage in facts.stages if stage.stage.name in facts.read):
        page.line(f"a({names}), as above")
    else:
        page.term(f"a({names}) =", facts.answer)
    page.gap()
    page.line(f"how it changes with a batch costs {facts.cost.reads.value}:")
    page.prose(facts.cost.reason or "", level=2)
    read = [stage for stage in facts.stages if stage.stage.name in facts.read]
    if facts.cost.reads is Cost.KEYS and any(stage.stage.shape is Shape.KEYED for stage in read):
        page.line("the answer as a snapshot is made from the whole state")
    page.gap()
    python_lines(page, facts)


def python_lines(page: Page, facts: Facts) -> None:
    """Which rows Spark hands to Python: those for which a function without a Catalyst expression is called."""
    if not facts.python:
        page.line("Rows that pass through Python: none")
        return
    page.line("Rows that pass through Python, as Arrow batches: what is read by")
    page.table(((f"`{function.called}`", function.reason) for function in facts.python), level=2)


def _differences(page: Page, facts: Facts) -> None:
    found: dict[Difference, list[StageFacts]] = {}
    for stage in facts.stages:
        for difference in stage.differences:
            found.setdefault(difference, []).append(stage)
    if not found:
        return
    page.heading("What differs from the paper")
    several = len(facts.stages) > 1
    for difference, stages in found.items():
        where = f" ({', '.join(stage.stage.name for stage in stages)})" if several else ""
        page.line(f"{difference.title}{where}.")
        page.prose(difference.text, level=2)
        for stage in stages if difference.title == PRUNED else ():
            _lineage(page, stage)
        page.gap()


def _lineage(page: Page, facts: StageFacts) -> None:
    page.gap()
    page.line(f"θ : {show_type(facts.lineage.tree.type)}", level=2)
    page.term(f"h'({', '.join(facts.stage.streams)}) =", facts.lineage.h, level=2)
    page.term(f"a'({', '.join(facts.read)}) =", facts.lineage.answer, level=2)


def _kept_by_key(key: RowKey) -> str:
    """What is kept of a stream of upserts."""
    if key.version is None:
        return "the rows are kept by it"
    return f"the rows are kept by it, and the {key.version} of those that were deleted"
