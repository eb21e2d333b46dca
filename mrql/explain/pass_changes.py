"""What a pass changed: the smallest part of a term that holds every change, and the parts of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.terms import Term
from mrql.rewrite.passes import PassRun, Subject
from mrql.rewrite.plan.circuit import delta_rule
from mrql.rewrite.plan.labels import component_names, listed
from mrql.rewrite.plan.plan import Feed, Plan, Stage

Shown: TypeAlias = Term | str | None
"""A term, a description in words, or nothing."""


@attrs.frozen
class Change:
    """A part of the input of a pass, and what replaces it; `where` is empty for a term by itself."""

    where: str
    before: Shown
    after: Shown


def changes(run: PassRun[Subject]) -> tuple[Change, ...]:
    """What a pass changed, part by part; nothing where it only renamed bound variables."""
    if not run.has_changed:
        return ()
    match run.before, run.after:
        case Plan() as before, Plan() as after:
            return tuple(_of_plan(before, after))
        case _, Plan() as plan:
            return tuple(_made(plan))
        case _, Stage() as stage:
            return tuple(Change(f"feed {n}", None, delta_rule(feed)) for n, feed in enumerate(stage.feeds))
        case (Plan() | Stage(), _):
            raise AssertionError("no pass makes a term of a plan")
        case before, after:
            return (Change("", *changed_part(before, after)),)


def changed_part(before: Term, after: Term) -> tuple[Term, Term]:
    """The smallest parts, in the same place of two terms, outside of which the terms are equal.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"S": "{(long, long)}"}
    >>> texts = "cMap(λ(a, b). {(a, (b, 2L)#0)}, S)", "cMap(λ(x, y). {(x, y)}, S)", "cMap(λ(a, b). {(a, b)}, S)"
    >>> one, renamed, other = (parse(text, S) for text in texts)
    >>> [show(part) for part in changed_part(one, other)]
    ['(b, 2L)#0', 'b']
    >>> [show(part) for part in changed_part(one, renamed)]
    ['cMap(λ(a, b). {(a, (b, 2L)#0)}, S)', 'cMap(λ(x, y). {(x, y)}, S)']
    """
    ours, theirs = children(before), children(after)
    if type(before) is type(after) and len(ours) == len(theirs) and alpha_equal(before, with_children(after, ours)):
        differing = [pair for pair in zip(ours, theirs, strict=True) if not alpha_equal(*pair)]
        if len(differing) == 1:
            return changed_part(*differing[0])
    return before, after


# --- plans --------------------------------------------------------------------------------------


def _made(plan: Plan) -> Iterator[Change]:
    """The parts of a plan that a pass made where there was none before."""
    for stage in plan.stages:
        names = listed(list(component_names(stage))) or "keys alone"
        yield Change(f"stage {stage.name}", None, f"{stage.shape.value}, of {', '.join(stage.streams)}: {names}")
    yield from (Change(f"stream {derived.name}", None, derived.term) for derived in plan.derived)
    yield Change("the answer", None, plan.answer)


def _of_plan(before: Plan, after: Plan) -> Iterator[Change]:
    ours, theirs = ({stage.name: stage for stage in plan.stages} for plan in (before, after))
    for name, stage in ours.items():
        if name in theirs:
            yield from _of_stage(stage, theirs[name])
        else:
            yield Change(f"stage {name}", stage.derivation.h, "is kept in another stage")
    for mine, other in zip(before.derived, after.derived, strict=True):
        yield from _of_terms(f"stream {mine.name}", mine.term, other.term)
    yield from _of_terms("the answer", before.answer, after.answer)


def _of_stage(before: Stage, after: Stage) -> Iterator[Change]:
    where = f"stage {before.name}"
    if len(before.components) != len(after.components):
        yield Change(f"{where}, components", *(listed(list(component_names(s))) or "none" for s in (before, after)))
    narrow = [component.name for component in after.components if component.narrow]
    if narrow and not any(component.narrow for component in before.components):
        yield Change(f"{where}, components", None, f"no addend of {listed(narrow)} is larger than an int")
    for n, (mine, other) in enumerate(zip(before.feeds, after.feeds, strict=True)):
        yield from _of_feed(f"{where}, feed {n}", mine, other)


def _of_feed(where: str, before: Feed, after: Feed) -> Iterator[Change]:
    yield from _of_terms(f"{where}, rows", before.rows.body, after.rows.body)
    for mine, other in zip(before.rows.inputs, after.rows.inputs, strict=True):
        yield from _of_terms(f"{where}, input {mine.label}", mine.term, other.term)
        if mine.sums != other.sums:
            yield Change(f"{where}, input {mine.label}", None, _kept(other.sums))
    known = dict(before.units)
    for index, unit in after.units:
        if index not in known:
            yield Change(f"{where}, share in component {index}", None, unit)
        else:
            yield from _of_terms(f"{where}, share in component {index}", known[index], unit)
    if after.weight is not None and before.weight is None:
        yield Change(f"{where}, rows that one row stands for", None, after.weight)
    orders = dict(before.rows.orders)
    for label, rows in after.rows.orders:
        if label not in orders:
            yield Change(f"{where}, rows for a batch of {label}", None, rows)


def _kept(sums: int) -> str:
    last = "last value is a sum" if sums == 1 else f"last {sums} values are sums"
    return f"of rows that are the same but for these one is kept; its {last}"


def _of_terms(where: str, before: Term, after: Term) -> Iterator[Change]:
    if not alpha_equal(before, after):
        yield Change(where, *changed_part(before, after))
