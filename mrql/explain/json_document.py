"""The explanation of a query as plain data, for programs: dictionaries, lists and strings with stable keys.

Terms are text that `mrql.algebra.notation.parser.parse` reads back, over the streams of `sources`, `loops` and
`derived` and the variables of the stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrql.algebra.notation.printer import show, show_pattern
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.row_key import RowKey
from mrql.explain.plan_facts import DerivedFacts, Facts, PassFacts, StageFacts, without_inverse
from mrql.explain.tables import StoredColumn, StoredTable, fed, renamed, shown_units
from mrql.rewrite.plan.cost import Work
from mrql.rewrite.plan.labels import occurrence_names
from mrql.rewrite.plan.loop_strategy import Chosen
from mrql.rewrite.plan.operators import Operator
from mrql.rewrite.plan.plan import Feed, Feedback, Feedbacks
from mrql.rewrite.plan.threshold import Threshold

Document = dict[str, Any]


def render_document(facts: Facts) -> Document:
    """The whole explanation."""
    text, place = (facts.span.text, str(facts.span)) if facts.span is not None else (None, None)
    return {
        "query": {"text": text, "place": place, "term": show(facts.query)},
        "sources": _sources(facts),
        "passes": [_pass(step) for step in facts.passes],
        "stages": [_stage(stage, facts.keep) for stage in facts.stages],
        "loops": [{"name": n, "type": show_type(e.type), "term": show(e)} for n, e in facts.loops],
        "strategies": [_strategy(chosen) for chosen in facts.plan.strategies],
        "derived": [_derived(passed) for passed in facts.derived],
        "carried": [_carried(part, loop) for loop in facts.plan.feedbacks for part in loop.parts],
        "operators": [_operator(operator) for operator in facts.circuit.operators],
        "python": [{"function": function.called, "reason": function.reason} for function in facts.python],
        "answer": {"term": show(facts.answer), "cost": facts.cost.reads.value, "reason": facts.cost.reason},
    }


def _operator(operator: Operator) -> Document:
    """An operator of the circuit, for programs that draw it or that read its metrics."""
    return {
        "id": operator.id,
        "kind": operator.kind.value,
        "inputs": list(operator.inputs),
        "linearity": operator.linearity.value,
        "delta": operator.rule,
        "keeps": None if operator.kept is None else str(operator.kept),
        "cost": operator.cost.value,
        "reason": operator.reason,
        "stage": operator.stage,
    }


def _carried(part: Feedback, loop: Feedbacks) -> Document:
    value, start = show(part.value), show(part.start)
    kept_back = _threshold(loop.threshold)
    return {"name": part.fed.name, "value": value, "start": start, **kept_back, "steps": loop.steps}


def _threshold(threshold: Threshold) -> Document:
    return {"epsilon": threshold.relative, "abs_epsilon": threshold.absolute}


def _sources(facts: Facts) -> list[Document]:
    kinds: tuple[tuple[bool, Mapping[str, Any]], ...] = ((False, facts.plan.streams), (True, facts.plan.tables))
    return [
        {
            "name": name,
            "type": show_type(t),
            "static": static,
            "shrinks": name in facts.plan.shrinking,
            "trusted": name in facts.plan.trusted,
            **_key(facts.plan.keyed.get(name)),
        }
        for static, sources in kinds
        for name, t in sorted(sources.items())
    ]


def _key(key: RowKey | None) -> Document:
    """The key and the version by which rows replace each other, if they do."""
    return {} if key is None else {"key": list(key.fields), "version": key.version}


def _pass(step: PassFacts) -> Document:
    changed = step.after is not None
    term = show(step.after) if step.after is not None else None
    return {"name": step.name, "source": step.source, "changed": changed, "term": term}


def _strategy(chosen: Chosen) -> Document:
    span = chosen.loop.span
    return {"place": None if span is None else str(span), "strategy": chosen.strategy.value, "reason": chosen.reason}


def _derived(facts: DerivedFacts) -> Document:
    return {
        "name": facts.derived.name,
        "type": show_type(facts.derived.term.type),
        "term": show(facts.term),
        **_threshold(facts.derived.threshold),
        "cost": facts.cost.reads.value,
        "reason": facts.cost.reason,
    }


def _stage(facts: StageFacts, keep: frozenset[str]) -> Document:
    stage = facts.stage
    return {
        "name": stage.name,
        "shape": stage.shape.value,
        "key": {"type": show_type(stage.key_type), "columns": [_column(c) for c in facts.tables[0].keys]},
        "components": [
            {"name": name, "monoid": str(component.monoid), "type": show_type(component.type)}
            for component, name in zip(stage.components, facts.components, strict=True)
        ],
        "streams": list(stage.streams),
        "feeds": [_feed(*each, facts.components, keep) for each in zip(stage.feeds, facts.deltas, strict=True)],
        "stored": [_table(table) for table in facts.tables],
        "h": show(facts.h),
        "merge": str(stage.merge),
        "judgements": [str(judgement) for judgement in facts.judgements],
        "diminisher": facts.diminisher,
        "without_inverse": list(without_inverse(stage.merge)),
        "answer": show(facts.answer),
        "lineage": _lineage(facts),
        "cost": facts.cost.value,
        "reason": facts.reason,
        "work": [_work(work) for work in facts.works],
        "differences": [{"title": d.title, "text": d.text} for d in facts.differences],
    }


def _feed(feed: Feed, delta: str, components: tuple[str, ...], keep: frozenset[str]) -> Document:
    names = occurrence_names(tuple(read.label for read in feed.rows.inputs))
    row, shares = shown_units(feed, keep)
    return {
        "inputs": [
            {
                "name": names[read.label],
                "stream": read.stream,
                "term": show(tidy(renamed(read.term, {read.label: read.stream}), keep)),
            }
            for read in feed.rows.inputs
        ],
        "rows": show(tidy(renamed(feed.rows.body, names), keep)),
        "row": show_pattern(row, row.type),
        "shares": [
            {"component": name, "term": show(share)} for name, share in zip(fed(feed, components), shares, strict=True)
        ],
        "supports": feed.supports,
        "delta": delta,
    }


def _table(table: StoredTable) -> Document:
    columns = [_column(column) for column in table.columns]
    return {"table": table.name, "holds": table.role.value, "of": table.of, "columns": columns}


def _column(column: StoredColumn) -> Document:
    return {"name": column.name, "role": column.role.value, "type": show_type(column.type), "merge": column.merge}


def _lineage(facts: StageFacts) -> Document:
    lineage = facts.lineage
    return {
        "tree": lineage.tree.text,
        "type": show_type(lineage.tree.type),
        "dropped": list(lineage.dropped),
        "h": show(lineage.h),
        "answer": show(lineage.answer),
    }


def _work(work: Work) -> Document:
    return {"what": work.what, "reads": work.reads.value, "moves": work.moves.value, "reason": work.reason}
